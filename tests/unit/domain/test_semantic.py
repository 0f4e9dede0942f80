"""Mutants of a solution are applied exactly, or refused with the reason."""

from __future__ import annotations

import pytest

from facet_dagster.domain.semantic import MOST, SemanticMutant, Sorted, programs, sort_out

SCRIPT = """#!/bin/bash
set -e
python3 - <<'PY'
# Rule 1.
limit = 3
print(limit >= 3)
PY
sort -n data | head -n 5
"""
IDS = ("D1", "D2")


def mutant(find: str, replace: str, discriminator: str = "") -> SemanticMutant:
    return SemanticMutant(id="X", discriminator=discriminator, rule="1", wrong_reading="w", find=find, replace=replace)


def tried(*mutants: SemanticMutant, before: Sorted | None = None, problem: str = "") -> Sorted:
    return sort_out(SCRIPT, mutants, IDS, lambda _: problem, before)


def test_a_mutant_is_one_place_of_the_script_and_gets_its_number() -> None:
    found = tried(mutant("limit >= 3", "limit > 3", "D1"), mutant("sort -n", "sort"))
    assert [one.mutant.id for one in found.usable] == ["M1", "M2"]
    assert found.usable[0].script == SCRIPT.replace(">=", ">")
    assert found.refused == ()


@pytest.mark.parametrize(
    ("find", "replace", "why"),
    [
        ("limit", "bound", "find occurs 2 times in solve.sh; it must occur exactly once."),
        ("absent", "x", "find occurs 0 times"),
        ("limit = 3", "limit = (3", "The Python program is no longer valid: '(' was never closed in its line 2"),
        ("# Rule 1.", "# Rule 2.", "Only comments or blanks differ"),
        ("limit = 3", "limit  =  3  # as before", "Only comments or blanks differ"),
        ("limit = 3", "limit = 3", "Only comments or blanks differ"),
        ("limit = 3", "limit = 3\n" + "x = 1\n" * 200, "longer than 800 characters"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(find: str, replace: str, why: str) -> None:
    found = tried(mutant(find, replace))
    assert found.usable == ()
    assert found.refused[0].why.startswith(why) or why in found.refused[0].why


def test_an_unknown_discriminator_a_twin_and_a_broken_rule_are_refused() -> None:
    one = mutant("limit >= 3", "limit > 3", "D1")
    found = tried(one, mutant("limit >= 3", "limit>3"), mutant("sort -n", "sort", "D9"))
    assert [refused.why for refused in found.refused] == [
        "It makes the same program as M1.",
        "There is no discriminator D9.",
    ]
    assert tried(one, problem="It calls curl.").refused[0].why == "It calls curl."


def test_a_second_answer_is_added_to_the_first() -> None:
    first = tried(mutant("limit >= 3", "limit > 3", "D1"))
    assert first.missing(IDS) == ("D2",)
    both = tried(mutant("limit >= 3", "limit > 3"), mutant("head -n 5", "head -n 4", "D2"), before=first)
    assert [one.mutant.id for one in both.usable] == ["M1", "M2"]
    assert both.missing(IDS) == ()
    assert len(both.refused) == 1
    assert not both.enough(IDS)


def test_what_is_too_many_goes_unless_a_discriminator_needs_it() -> None:
    many = [mutant("head -n 5", f"head -n {n}") for n in range(10, 10 + MOST)]
    found = tried(*many, mutant("sort -n", "sort"), mutant("sort -n", "sort -r", "D1"))
    assert len(found.usable) == MOST + 1
    assert found.usable[-1].mutant.discriminator == "D1"
    assert [refused.why for refused in found.refused] == [f"There are {MOST} mutants already."]


def test_programs_in_here_documents_are_seen() -> None:
    assert programs(SCRIPT) == ["# Rule 1.\nlimit = 3\nprint(limit >= 3)\n"]
    assert programs("cat <<'X'\nnot = python (\nX\n") == []


def test_a_script_made_of_openings_is_read_in_good_time() -> None:
    assert programs("python3 <<a " * 4_000 + "\n" + "python3 <<a\n" * 4_000) == []
    assert programs("python3 <<-'A'\nx = 1\n\tA\npython3 - <<B\nB\n") == ["x = 1\n", ""]
