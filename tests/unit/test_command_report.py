"""Turns, their states and transitions, and how far two distributions are apart."""

from __future__ import annotations

import pytest

from facet_dagster.reports import commands
from facet_dagster.reports.commands import CommandReport, Reader, State, Tally, state_of
from facet_dagster.reports.distance import distance
from facet_dagster.stages.rollout import turns


def report(*trajectories: list[list[str]]) -> CommandReport:
    tally = Tally(Reader())
    for one in trajectories:
        tally.add(one)
    return tally.report()


def test_states_and_moves() -> None:
    found = report([["ls"], ["cat a"], ["rm a", "ls"], ["rm b"], ["C-c"]], [["rm a"], ["rm b"], ["ls"]])
    assert found.first == {State.OBSERVATION: 1, State.ACTION: 1}
    assert found.move(State.OBSERVATION, State.OBSERVATION) == (1, 2)
    assert found.move(State.OBSERVATION, State.MIXED) == (1, 2)
    assert found.move(State.ACTION, State.OBSERVATION) == (1, 3)
    assert found.move(State.ACTION, State.IDLE) == (1, 3)
    assert (found.trajectories, found.turns, found.commands) == (2, 8, 8)
    assert found.programs[0].name == "rm"
    assert found.share_of_top(1) == 4 / 8


@pytest.mark.parametrize(
    ("kinds", "state"), [([], State.IDLE), (["neutral"], State.IDLE), (["neutral", "action"], State.ACTION)]
)
def test_neutral_commands_decide_nothing(kinds: list[str], state: State) -> None:
    assert state_of(kinds) is state


def test_each_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(commands, "typed", lambda text: parsed.append(text) or commands.Typed((), broken=False))
    report([["ls", "ls"], ["ls"]], [["ls"], ["pwd"]])
    assert parsed == ["ls", "pwd"]


def test_a_program_has_the_class_of_most_of_its_calls() -> None:
    used = report([["cat a", "cat b", "cat > c"]]).programs[0]
    assert (used.kind, used.kinds) == ("observation", {"observation": 2, "action": 1})


def test_turns_of_an_atif_file() -> None:
    data = b"""{"steps": [{"source": "user", "message": "x", "timestamp": "2026-01-02T00:00:00Z"},
     {"source": "agent", "timestamp": "2026-01-03T00:00:00Z",
      "message": "{\\"commands\\": [{\\"keystrokes\\": \\"ls\\"}]}"},
     {"source": "agent", "message": "no JSON"}]}"""
    assert turns(data) == ("2026-01-03", [["ls"], []])
    with pytest.raises(ValueError, match="no ATIF"):
        turns(b"[]")


def test_distances() -> None:
    same = distance({"a": 1, "b": 3}, {"a": 25, "b": 75})
    assert same is not None
    assert (same.jensen_shannon, same.total_variation, same.apart) == (pytest.approx(0), pytest.approx(0), ())
    other = distance({"a": 1}, {"b": 1})
    assert other is not None
    assert (other.jensen_shannon, other.total_variation) == (pytest.approx(1), pytest.approx(1))
    half = distance({"a": 1}, {"a": 1, "b": 1})
    assert half is not None
    assert half.total_variation == pytest.approx(0.5)
    assert half.jensen_shannon == pytest.approx(0.31127812445913283**0.5)
    assert half.apart == (("a", 0.5), ("b", -0.5))
    assert distance({}, {"a": 1}) is None
