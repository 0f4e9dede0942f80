"""Which final states are remembered, and which are not."""

from __future__ import annotations

from typing import Any, Literal, cast

from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.domain.archive import Member, pack, pack_members
from facet_dagster.domain.findings import KnownState
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.task import Task
from facet_dagster.domain.trial import CheckResult, End, ExecResult
from facet_dagster.stages.task.known import LARGEST, MOST, Rejudged, judge_again, remember, with_known
from facet_dagster.stages.task.trial import Judgement, Left, Trials
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


def judged(*failed: str, reward: int | None = 0) -> Judgement:
    checks = [CheckResult(id=name, requirement="R1", status="fail", message="") for name in failed]
    return Judgement(ExecResult(end=End.EXITED, exit_code=0, output="", seconds=0.0), reward, tuple(checks))


def test_right_work_is_kept_from_the_checks_that_refused_it_unfairly_alone() -> None:
    right = state("a", 1, checks=("C1", "C2"))
    assert Rejudged("positive 1", right, judged("C9")).ok, "what another check finds is its own affair"
    assert not Rejudged("positive 1", right, judged("C2", "C9")).ok
    assert not Rejudged("positive 1", right, judged(reward=None)).ok, "a verifier that says nothing keeps nothing"
    assert not Rejudged("positive 1", state("a", 1), judged("C9")).ok
    assert not Rejudged("negative 1", state("a", checks=("C1",)), judged(reward=1)).ok


class Judge:
    """Says of everything that it is right."""

    def judge(self, left: Left) -> Judgement:
        return judged(reward=1)


def test_right_work_ends_with_the_words_that_it_followed() -> None:
    store, draft = MemoryArtifactStore(), example.draft()
    left = Left(pack({"app/x": b"1"}))
    kinds: dict[str, Any] = {"reason": Reason.TASK_OVER_STRICT, "why": "w"}
    known = [one for wanted in (0, 1) for one in remember(left, draft, store, wanted=wanted, **kinds)]
    oracle = Left(pack({"app/x": b"2"}))
    clearer = draft.model_copy(update={"instruction": draft.instruction.model_copy(update={"title": "Clearer"})})
    found = {
        name: [one.name for one in judge_again(known, of, cast("Trials", Judge()), store, oracle)]
        for name, of in (("same", draft), ("clearer", clearer))
    }
    assert found == {"same": ["negative 1", "positive 2"], "clearer": ["negative 1"]}
