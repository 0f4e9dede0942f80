"""An expected value changes only with a rule and a row that are really written."""

from __future__ import annotations

import pytest

from facet_dagster.domain.task import Quote, VerifierReply
from facet_dagster.stages.task.justify import changed_values, unjustified
from tests.fixtures import task_example as example

RULE = "Totals are rounded to two decimals."
ROW = "2,south,3.25"


def changed(find: str, replace: str, number: int = 0) -> VerifierReply:
    """The verifier with an edit of a check, or of the helpers."""
    if number:
        body = next(check.body for check in example.CHECKS if check.id == f"C{number}")
        assert find in body
        return example.with_check(number, body=body.replace(find, replace))
    assert find in example.HELPERS
    return example.VERIFIER.model_copy(update={"helpers": example.HELPERS.replace(find, replace)})


@pytest.mark.parametrize(
    ("find", "replace", "number", "said"),
    [
        ('"south"', '"north"', 5, "C5: 'south' to 'north'"),
        ('["id", "reason"]', '["id", "why"]', 7, "C7: 'reason' to 'why'"),
        ('Decimal("0.005")', 'Decimal("0.5")', 0, "helpers: '0.005' to '0.5'"),
        ('"empty" if', '"blank" if', 0, "helpers: 'empty' to 'blank'"),
        ("> 0,", "> 3,", 2, "C2: 0 to 3"),
    ],
)
def test_texts_numbers_and_tolerances_are_expected_values(find: str, replace: str, number: int, said: str) -> None:
    assert changed_values(example.VERIFIER, changed(find, replace, number)) == said


@pytest.mark.parametrize(
    ("find", "replace", "number"),
    [
        ('"empty file"', '"nothing in it"', 2),  # a message
        ('"out/rejects.csv"', '"out/refused.csv"', 7),  # a path
        ('"\\r\\n", "\\n"', '"\\r", "\\n"', 0),  # how text is read
        ('encoding="utf-8-sig"', 'encoding="utf-8"', 0),
        ("[1:]", "[2:]", 12),
        ("Totals and reasons", "Sums and reasons", 0),  # a doc string
        ("assert set(totals())", 'assert totals() != {"x": 1}\nassert set(totals())', 3),  # more is asked, nothing less
    ],
)
def test_messages_paths_and_what_is_added_are_none(find: str, replace: str, number: int) -> None:
    assert changed_values(example.VERIFIER, changed(find, replace, number)) == ""


def test_a_new_check_changes_no_value() -> None:
    more = example.check(14, "R1", "north once more", 'total_is_right("north")', "C1")
    assert (
        changed_values(example.VERIFIER, VerifierReply(helpers=example.HELPERS, checks=[*example.CHECKS, more])) == ""
    )


@pytest.mark.parametrize(
    ("quotes", "said"),
    [
        ([], "they are missing"),
        ([Quote(rule=RULE, row=ROW)], ""),
        ([Quote(rule="1.", row=ROW)], "are not written there"),
        ([Quote(rule="Totals are rounded up.", row=ROW)], "are not written there"),
        ([Quote(rule=RULE, row="2,south,9.99")], "are not written there"),
        ([Quote(rule=RULE, row="")], "are not written there"),
        ([Quote(rule="x y z", row="x"), Quote(rule=f'"{RULE}"', row='["north", "south", "east"]')], ""),
        ([Quote(rule="Leave the files below `/app/data` as they are.", row=ROW)], ""),  # stands in the instruction
    ],
)
def test_both_quotes_must_be_written(quotes: list[Quote], said: str) -> None:
    edited = example.draft(verifier=changed('"south"', '"north"', 5))
    found = unjustified(example.draft(), edited, quotes, example.environment())
    assert said in found
    assert bool(said) == bool(found)


def test_an_edit_that_leaves_the_values_needs_no_quote() -> None:
    edited = example.draft(verifier=changed('"header"', '"the header is wrong"', 7))
    assert unjustified(example.draft(), edited, [], example.environment()) == ""


@pytest.mark.parametrize(
    ("old", "new"), [("close(1, 2, abs_tol=0.01)", "close(1, 2, abs_tol=1000)"), ("x == '1250'", "x == f'1300'")]
)
def test_tolerances_by_name_and_texts_in_any_spelling_are_values(old: str, new: str) -> None:
    before, after = (example.with_check(7, body=f"assert {text}") for text in (old, new))
    assert changed_values(before, after)
