"""Which final states are remembered, and which are not."""

from __future__ import annotations

from typing import Any, Literal

from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.domain.archive import Member, pack, pack_members
from facet_dagster.domain.findings import KnownState
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.task import Task
from facet_dagster.stages.task.known import LARGEST, MOST, remember, with_known
from facet_dagster.stages.task.trial import Left
from tests.fixtures import task_example as example

TASK = Task(seed=example.SEED.key, title="t", draft=example.draft(), environment=example.environment(), validations=())


def state(app: str, wanted: Literal[0, 1] = 0, **update: Any) -> KnownState:
    values = {"reason": Reason.TASK_MUTANT_SURVIVED, "why": "w", "image": example.IMAGE, "app": app, "wanted": wanted}
    return KnownState.model_validate(values | update)


def test_each_state_is_known_once_and_the_last_ones_stay() -> None:
    first = with_known(TASK, [state("a"), state("a", why="again"), state("a", image="other")])
    assert [(s.app, s.why, s.image) for s in first.known] == [("a", "w", example.IMAGE), ("a", "w", "other")]
    many = with_known(first, [state(f"s{n}") for n in range(MOST)])
    assert [s.app for s in many.known] == [f"s{n}" for n in range(MOST)]


def test_of_a_state_that_is_said_to_be_both_nothing_is_known() -> None:
    found = with_known(with_known(TASK, [state("a"), state("b")]), [state("a", 1)])
    assert [s.app for s in found.known] == ["b"]


def test_a_task_without_known_states_has_the_digest_it_had() -> None:
    assert "known" not in TASK.model_dump(mode="json")
    assert "by_certificate" not in str(TASK.model_dump(mode="json"))


def test_what_is_absent_or_too_large_is_not_kept() -> None:
    store = MemoryArtifactStore()
    kinds: dict[str, Any] = {"wanted": 0, "reason": Reason.TASK_MUTANT_SURVIVED, "why": "w" * 999}
    assert remember(Left(None), example.draft(), store, **kinds) == ()
    assert remember(Left(b"x" * (LARGEST + 1)), example.draft(), store, **kinds) == ()
    small = Left(pack({"app/x": b"1"}), pack({"artifacts/y": b"2"}))
    (kept,) = remember(small, example.draft(), store, **kinds)
    assert (store.get(kept.app), store.get(kept.artifacts)) == (small.app, small.artifacts)
    assert (len(kept.why), kept.image) == (600, example.IMAGE)


def test_a_state_is_the_same_whenever_it_was_left() -> None:
    store = MemoryArtifactStore()
    one, two = (
        remember(
            Left(pack_members({"app/x": Member("file", mtime=when, data=b"1")}), None),
            example.draft(),
            store,
            wanted=0,
            reason=Reason.TASK_MUTANT_SURVIVED,
            why="w",
        )
        for when in (1_700_000_000, 1_700_000_060)
    )
    assert one == two
