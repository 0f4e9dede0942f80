"""Where the probes of one task are made: trials and judgements, with what each of them found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from facet_dagster.domain.facts import CheckFact, Fact, TrialFact
from facet_dagster.domain.findings import Kind, Probe, wanted_reward
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Component, Reason, Rejection, reject
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.batch import judge_each
from facet_dagster.stages.task.trial import PLAIN, Conditions, Judgement, Left, Trials, Work
from facet_dagster.stages.task.validate import failing

STAGE = "certificate"
# Twice the work, or the work on half a CPU, may take twice the time.
PATIENCE = 2.0
SHOWN = 20
# Accepted work of these kinds, and what the verifier is refused for.
WRONG = {"partial": Reason.TASK_PARTIAL_ACCEPTED, "attack": Reason.TASK_ATTACK_ACCEPTED}


@dataclass(frozen=True)
class Seen:
    """A probe, and what it is made of. ``work`` is None when only a judgement was made."""

    probe: Probe
    judged: Judgement
    work: Work | None = None


class Asked(NamedTuple):
    """A final state to judge; ``ident`` is kind, slash, name."""

    ident: str
    what: str
    left: Left


@dataclass
class Bench:
    """Trials of one draft. ``probes``, ``facts`` and ``seconds`` (of the sandbox) grow with every one.

    ``wrong`` is work that is wrong whatever the verifier says, and that it accepted. ``slowest`` are the seconds of the
    slowest judgement so far.
    """

    trials: Trials
    draft: Draft
    probes: list[Probe] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    seconds: float = 0.0
    wrong: list[tuple[Probe, Left]] = field(default_factory=list)
    slowest: float = 0.0

    def beside(self, trials: Trials) -> Bench:
        """Other trials of the draft whose probes and facts are kept with these."""
        return _Beside(trials, self.draft, self.probes, self.facts, slowest=self.slowest, of=self)

    @property
    def patient(self) -> Trials:
        """The same trials with more time for the solution."""
        seconds = self.trials.limits.solution_seconds * PATIENCE
        return replace(self.trials, limits=self.trials.limits.model_copy(update={"solution_seconds": seconds}))

    def work(self, solve_sh: bytes | None, conditions: Conditions = PLAIN) -> Work:
        """Run a program, or nothing, in the environment; unless conditions are plain, with more time."""
        trials = self.trials if conditions == PLAIN else self.patient
        with self._clock():
            return trials.work(solve_sh, conditions)

    def judge(
        self,
        ident: str,
        what: str,
        left: Left,
        *,
        work: Work | None = None,
        conditions: Conditions = PLAIN,
        crashed: bool = False,
    ) -> Seen:
        """Judge what ``work`` left, or what was made of it, and keep the probe. ``ident`` is kind, slash, name."""
        began = self.seconds
        with self._clock():
            judged = self.trials.judge(left, conditions)
        self.slowest = max(self.slowest, judged.program.seconds)
        spent = self.seconds - began + (work.program.seconds if work and work.program else 0.0)
        return self._keep(Asked(ident, what, left), judged, spent, work, crashed=crashed)

    def judge_each(self, asked: Sequence[Asked], accepted: Left) -> Iterator[Seen]:
        """Judge all of them in one container. What does not come out as wanted there is judged alone: that counts.

        ``accepted`` is what the solution left. Probes are kept as they are taken.
        """
        began = self.seconds
        with self._clock():
            judged = judge_each(self.trials, [one.left for one in asked], accepted, slowest=self.slowest)
            if not self._told_apart(asked, judged):
                judged = [None] * len(asked)
        share = (self.seconds - began) / max(len(asked), 1)
        for one, verdict in zip(asked, judged, strict=True):
            if verdict is None or verdict.reward != wanted_reward(one.ident):
                yield self.judge(one.ident, one.what, one.left)
            else:
                yield self._keep(one, verdict, share)

    def _told_apart(self, asked: Sequence[Asked], judged: Sequence[Judgement | None]) -> bool:
        """Whether the verifier says alone what it said in company, of one refused state of each kind.

        It can tell the two apart, and see the accepted state there. Which state is asked about depends on its bytes.
        """
        kinds: dict[str, list[tuple[Asked, Judgement]]] = {}
        for one, verdict in zip(asked, judged, strict=True):
            if verdict is not None and verdict.reward == 0:
                kinds.setdefault(one.ident.partition("/")[0], []).append((one, verdict))
        for refused in kinds.values():
            one, verdict = refused[int(digest(refused[0][0].left.app or b"")[:8], 16) % len(refused)]
            if self.trials.judge(one.left).reward != verdict.reward:
                return False
        return True

    def _keep(
        self, asked: Asked, judged: Judgement, spent: float, work: Work | None = None, *, crashed: bool = False
    ) -> Seen:
        probe = Probe(
            id=asked.ident,
            kind=cast("Kind", asked.ident.partition("/")[0]),
            what=asked.what,
            wanted=wanted_reward(asked.ident),
            reward=judged.reward,
            failed=tuple(check.id for check in judged.checks if check.status in ("fail", "error")),
            crashed=crashed,
            seconds=round(spent, 3),
        )
        seen = Seen(probe, judged, work)
        self.probes.append(probe)
        if probe.kind in WRONG and probe.reward == 1 and not crashed:
            self.wrong.append((probe, asked.left))
        self.facts += self._facts(seen)
        return seen

    @contextmanager
    def _clock(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._spend(time.monotonic() - began)

    def _spend(self, seconds: float) -> None:
        self.seconds += seconds

    def _facts(self, seen: Seen) -> Iterator[Fact]:
        """Oracles and baselines are rows like those of a validation; of the others only refusals are kept."""
        probe, program = seen.probe, seen.work.program if seen.work else None
        whole = probe.kind in ("oracle", "baseline")
        fact = TrialFact(
            stage=STAGE,
            key=self.draft.seed,
            kind=probe.kind if whole else probe.id,
            draft=digest(self.draft),
            round=self.draft.round,
            repeat=sum(other.kind == probe.kind for other in self.probes) - 1 if whole else 0,
            reward=probe.reward,
            exit_code=program.exit_code if program else None,
            seconds=probe.seconds,
        )
        yield fact
        for c in seen.judged.checks:
            if whole or c.id in probe.failed:
                yield CheckFact(
                    trial=fact.fact_id, check=c.id, requirement=c.requirement, status=c.status, message=c.message
                )


@dataclass
class _Beside(Bench):
    """What it spends is spent by the bench that it stands beside, too."""

    of: Bench | None = None

    def _spend(self, seconds: float) -> None:
        super()._spend(seconds)
        if self.of:
            self.of.seconds += seconds


def refusal(reason: Reason, text: str, seen: Seen, *, component: Component | None = None, **evidence: Any) -> Rejection:
    """A rejection with the probe that it rests on as evidence."""
    probe = {"id": seen.probe.id, "what": seen.probe.what, "wanted": seen.probe.wanted, "reward": seen.probe.reward}
    return reject(reason, text, component=component, probe=probe, failed=failing(seen.judged)[:SHOWN], **evidence)
