"""Where the probes of one task are made: trials and judgements, with what each of them found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from facet_dagster.domain.facts import CheckFact, Fact, TrialFact
from facet_dagster.domain.findings import Kind, Probe, wanted_reward
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.task import Draft
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


@dataclass
class Bench:
    """Trials of one draft. ``probes``, ``facts`` and ``seconds`` (of the sandbox) grow with every one.

    ``wrong`` is work that is wrong whatever the verifier says, and that it accepted.
    """

    trials: Trials
    draft: Draft
    probes: list[Probe] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    seconds: float = 0.0
    wrong: list[tuple[Probe, Left]] = field(default_factory=list)

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
        kind = ident.partition("/")[0]
        spent = self.seconds - began + (work.program.seconds if work and work.program else 0.0)
        probe = Probe(
            id=ident,
            kind=cast("Kind", kind),
            what=what,
            wanted=wanted_reward(kind),
            reward=judged.reward,
            failed=tuple(check.id for check in judged.checks if check.status in ("fail", "error")),
            crashed=crashed,
            seconds=round(spent, 3),
        )
        seen = Seen(probe, judged, work)
        self.probes.append(probe)
        if kind in WRONG and probe.reward == 1 and not crashed:
            self.wrong.append((probe, left))
        self.facts += self._facts(seen)
        return seen

    @contextmanager
    def _clock(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - began

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


def refusal(reason: Reason, text: str, seen: Seen, **evidence: Any) -> Rejection:
    """A rejection with the probe that it rests on as evidence."""
    probe = {"id": seen.probe.id, "what": seen.probe.what, "wanted": seen.probe.wanted, "reward": seen.probe.reward}
    return reject(reason, text, probe=probe, failed=failing(seen.judged)[:SHOWN], **evidence)
