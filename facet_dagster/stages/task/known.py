"""Final states that were judged once and for all: no later verifier of the task may say otherwise.

A repair of a verifier may let through what was refused before. So what is wrong, or right, by rules file and data alone
is kept, and judged again in every later validation.

Wrong (a negative) is what a semantic mutant left, whether it was refused or not, where it differs from what the
solution leaves: it follows a wrong reading of a written rule. So is partial work, and work that nobody did, which
was accepted; what of it is refused is made anew by every certificate. Right (a positive) is what a second solution
left of which triage says that the verifier demands what is written nowhere: the checks that refused it must not do so
again, while others may find what nobody looked for then.

Not kept is what may be wrong for one version alone: what the solution left when a validation refused it (the verifier
may have been at fault, and a repair's word is no proof); a mutant that was refused by a check which the same
certificate finds at fault in the verifier or the instruction; small errors in files, which may be fair variants.
A state ends with its environment: where that is rebuilt, other work may be right; a right one ends with the words of
its instruction too, which may demand more now. A negative that the solution itself
leaves after a repair is no negative any more, and where models contradict each other nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from facet_dagster.domain.archive import EPOCH, pack_members, unpack
from facet_dagster.domain.changes import changes
from facet_dagster.domain.facts import CheckFact, Fact, TrialFact
from facet_dagster.domain.findings import KnownState
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.task import Draft, Task
from facet_dagster.ports import ArtifactStore
from facet_dagster.stages.task.trial import Judgement, Left, Trials

MOST, LARGEST = 24, 4 * 1024 * 1024
_EMPTY = pack_members({})


@dataclass(frozen=True)
class Rejudged:
    """A known state and what the verifier says of it now. ``name`` is ``negative 3``, ``positive 1``."""

    name: str
    state: KnownState
    judged: Judgement

    @property
    def ok(self) -> bool:
        judged, state = self.judged, self.state
        if state.wanted == 1 and state.checks and judged.reward is not None:
            return not set(state.checks).intersection(judged.failed)
        return judged.reward == state.wanted


def remember(
    left: Left,
    draft: Draft,
    store: ArtifactStore,
    *,
    wanted: Literal[0, 1],
    reason: Reason,
    why: str,
    checks: Sequence[str] = (),
) -> tuple[KnownState, ...]:
    """The state, kept in ``store``; nothing when it is absent, or larger than LARGEST bytes."""
    if left.app is None or len(left.app) + len(left.artifacts or b"") > LARGEST:
        return ()
    artifacts = store.put(_timeless(left.artifacts)) if left.artifacts else ""
    app = store.put(_timeless(left.app))
    state = KnownState(wanted=wanted, reason=reason, why=why[:600], app=app, artifacts=artifacts, image=draft.image)
    words = digest(draft.instruction) if wanted else ""
    return (state.model_copy(update={"checks": tuple(checks), "instruction": words}),)


def _timeless(archive: bytes) -> bytes:
    """The same state has one address, whenever it was left."""
    return pack_members({path: replace(member, mtime=EPOCH) for path, member in unpack(archive).items()})


def with_known(task: Task, new: Iterable[KnownState]) -> Task:
    """The task with more known states: the last MOST, each once, and none that is said to be both right and wrong."""
    found: dict[tuple[str, str, str], KnownState] = {}
    torn: set[tuple[str, str, str]] = set()
    for state in (*task.known, *new):
        key = (state.app, state.artifacts, state.image)
        if found.setdefault(key, state).wanted != state.wanted:
            torn.add(key)
    kept = tuple(state for key, state in found.items() if key not in torn)
    return task.model_copy(update={"known": kept[-MOST:]})


def judge_again(
    known: Sequence[KnownState], draft: Draft, trials: Trials, store: ArtifactStore, oracle: Left
) -> Iterator[Rejudged]:
    """Each state that stands for the draft's environment. ``oracle`` is what the solution leaves now."""
    words = digest(draft.instruction)
    for number, state in enumerate(known, start=1):
        left = Left(store.get(state.app), store.get(state.artifacts) if state.artifacts else None)
        stands = state.instruction in ("", words) if state.wanted else not _same(left, oracle)
        if state.image == draft.image and stands:
            name = f"{'positive' if state.wanted else 'negative'} {number}"
            yield Rejudged(name, state, trials.judge(left))


def rejudged_facts(found: Rejudged, *, stage: str, draft: Draft) -> Iterator[Fact]:
    """Its row for the ledger; checks only where a verdict is not as wanted."""
    fact = TrialFact(
        stage=stage,
        key=draft.seed,
        kind=found.name.replace(" ", "/"),
        draft=digest(draft),
        round=draft.round,
        repeat=0,
        reward=found.judged.reward,
        exit_code=None,
        seconds=found.judged.program.seconds,
    )
    yield fact
    for check in found.judged.checks if not found.ok else ():
        yield CheckFact(
            trial=fact.fact_id,
            check=check.id,
            requirement=check.requirement,
            status=check.status,
            message=check.message,
        )


def _same(one: Left, other: Left) -> bool:
    pairs = ((one.app, other.app), (one.artifacts, other.artifacts))
    found = (changes(old or _EMPTY, new or _EMPTY) for old, new in pairs)
    return not any(change.what != "attributes" for part in found for change in part)
