"""No skill on both sides; nothing that repeats a benchmark, by its words or by what it means."""

from __future__ import annotations

import random

import pytest

from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.stages.contamination import Item, WordIndex, by_meaning, neighbours
from facet_dagster.stages.split import components, held_out

LONG = "Read the table of sales, drop every row without an amount, and write totals by region to a file in JSON form."
TASKS = {"a": ("1", "2"), "b": ("2", "3"), "c": ("4", "5"), "d": ("6", "7"), "e": ("8", "9"), "f": ("9", "1")}


def test_tasks_that_share_a_skill_directly_or_through_others_are_one_component() -> None:
    assert components(TASKS) == [("a", "b", "e", "f"), ("c",), ("d",)]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("share", [0.0, 0.1, 0.34, 0.5, 0.9])
def test_no_skill_stands_on_both_sides(share: float, number: int) -> None:
    lots = random.Random(number)
    tasks = {f"t{n}": (f"s{lots.randrange(90)}", f"s{lots.randrange(90)}") for n in range(40)}
    out = held_out(tasks, share, number)
    assert len(out) <= share * len(tasks)
    inside = {skill for key in out for skill in tasks[key]}
    assert inside.isdisjoint({skill for key in tasks if key not in out for skill in tasks[key]})
    assert out == held_out(dict(reversed(tasks.items())), share, number), "whatever the order"


def test_another_number_holds_out_other_tasks() -> None:
    tasks = {f"t{n}": (f"s{n}",) for n in range(20)}
    drawn = {held_out(tasks, 0.2, number) for number in range(5)}
    assert len(drawn) > 1
    assert {len(out) for out in drawn} == {4}


def test_one_component_of_everything_cannot_be_split() -> None:
    assert held_out({"a": ("1",), "b": ("1",)}, 0.5) == frozenset()


def test_thirteen_words_in_a_row_are_a_match_whatever_stands_between_them() -> None:
    index = WordIndex([Item("b1", "Another task."), Item("b2", LONG)])
    found = index.match("t", "Hello!  " + LONG.upper().replace(" ", "\n ") + " Thanks.")
    assert found is not None
    assert (found.benchmark, found.how) == ("b2", "words")
    assert found.evidence.startswith("read the table of sales drop every row")
    twelve = " ".join(LONG.split()[:12])
    assert index.match("t", f"{twelve} something else follows here and goes on for long enough") is None


def test_a_short_benchmark_is_looked_for_as_a_whole() -> None:
    index = WordIndex([Item("b", "Sort all names in the file now")])
    assert index.match("t", "Please sort all names in the file now, and stop.") is not None
    assert index.match("t", "Please sort all names in the file.") is None
    assert WordIndex([Item("b", "Sort names")]).match("t", "Sort names") is None, "too short to say anything"


def test_the_item_that_shares_most_is_named() -> None:
    half = LONG.rsplit(" ", 5)[0]
    found = WordIndex([Item("part", half), Item("whole", LONG)]).match("t", LONG)
    assert found is not None
    assert (found.benchmark, found.score) == ("part", 1.0) or found.benchmark in ("part", "whole")


def test_neighbours_by_meaning_are_matches_from_a_cosine_on() -> None:
    items = [Item("b1", "alpha"), Item("b2", LONG)]
    nearest = neighbours({"t": LONG, "u": "omega"}, items, HashEmbedder())
    assert nearest["t"] == (items[1], 1.0)
    assert [(match.subject, match.benchmark) for match in by_meaning(nearest, 0.99)] == [("t", "b2")]
    assert neighbours({}, items, HashEmbedder()) == {}
