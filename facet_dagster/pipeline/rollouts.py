"""Stage 5, bound to ports: agents on certified tasks, and what of their trajectories may be trained on."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import NamedTuple

from facet_dagster.domain.facts import ArtifactFact, AttemptFact, CheckFact, TrialFact
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.outcome import reject
from facet_dagster.domain.rollout import Attempt, RawAttempt, RolloutProtocol, Rollouts, Trajectories
from facet_dagster.domain.task import Certificate
from facet_dagster.domain.trial import read_checks
from facet_dagster.errors import ConfigError, InvariantError, SandboxError
from facet_dagster.funnel import Compute, Outcome, Stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.quarantine import barred
from facet_dagster.pipeline.tasks import value
from facet_dagster.ports import ArtifactStore, Harness, Ledger, Order, TokenCounter
from facet_dagster.settings import Settings
from facet_dagster.stages import rollout as rollouts_
from facet_dagster.stages.task import export

VERSION = "1"
GATHER_SECONDS = 0.5
TRIES = 3
WORKERS = 64  # keys that wait for one job of the harness


class RolloutStages(NamedTuple):
    """Stages over seeds after their certificate."""

    rollouts: Stage
    trajectories: Stage


def protocol_of(settings: Settings) -> RolloutProtocol:
    return RolloutProtocol(
        agent=settings.agent,
        model=settings.teacher,
        temperature=settings.teacher_temperature,
        max_turns=settings.max_turns,
        context_tokens=settings.context_tokens,
    )


def rollout_stages(settings: Settings, tokenizer: str) -> RolloutStages:
    """``tokenizer`` is the name of what counts tokens."""
    parts = (protocol_of(settings), settings.attempts)
    made = Stage("rollouts", VERSION, (seed_stages(settings).certificate,), parts, barred=barred)
    judged = Stage("trajectories", rollouts_.VERSION, (made,), (tokenizer, settings.trajectory_tokens))
    return RolloutStages(made, judged)


class Jobs:
    """Gathers keys that are claimed at about the same time into one job of the harness.

    Each attempt goes to the ledger, under ``stage``, as soon as it ends, so that a killed run has lost only what was
    in flight. ``write`` puts a package into a folder; without it a package is an archive in the store.
    """

    def __init__(
        self,
        harness: Harness,
        protocol: RolloutProtocol,
        attempts: int,
        ledger: Ledger,
        store: ArtifactStore,
        *,
        stage: str = "rollouts",
        write: Callable[[str, Path], None] | None = None,
    ):
        self._harness, self._protocol, self._attempts = harness, protocol, attempts
        self._ledger, self._store, self._stage = ledger, store, stage
        self._write = write or self._export
        self._waiting: dict[str, tuple[str, Future[list[Attempt]]]] = {}
        self._guard, self._busy = threading.Condition(), False

    def attempts(self, key: str, package: str) -> list[Attempt]:
        """All attempts on ``key``; waits for a job. Raises SandboxError, ConfigError."""
        future: Future[list[Attempt]] = Future()
        with self._guard:
            self._waiting[key] = (package, future)
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, daemon=True).start()
        return future.result()

    def _work(self) -> None:
        while True:
            threading.Event().wait(GATHER_SECONDS)
            with self._guard:
                batch, self._waiting = self._waiting, {}
                if not batch:
                    self._busy = False
                    return
            self._job(batch)

    def _job(self, batch: Mapping[str, tuple[str, Future[list[Attempt]]]]) -> None:
        try:
            for left in reversed(range(TRIES)):
                orders = [order for key, (package, _) in batch.items() if (order := self._order(key, package))]
                if not orders:
                    break
                spoilt = _Spoilt(final=left == 0)
                self._harness.run(orders, self._protocol, partial(self._done, batch, spoilt))
        except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
            for _, future in batch.values():
                future.set_exception(error)
            return
        for key, (package, future) in batch.items():
            made = self._made(key, package)
            if len(made) < self._attempts:
                why = spoilt.errors.get(key, "Harbor told nothing of them")
                text = f"{self._attempts - len(made)} rollouts of {key} gave no result: {why}"
                future.set_exception(SandboxError(text, transient=True))
            else:
                future.set_result(made[: self._attempts])

    def _order(self, key: str, package: str) -> Order | None:
        missing = self._attempts - len(self._made(key, package))
        return Order(key, partial(self._write, package), missing) if missing > 0 else None

    def _export(self, package: str, folder: Path) -> None:
        export(self._store.get(package), folder)

    def _kind(self, package: str) -> str:
        return f"rollout.{digest([package, self._protocol])[:32]}"

    def _made(self, key: str, package: str) -> list[Attempt]:
        kind = self._kind(package)
        found = [fact for fact in self._ledger.find(AttemptFact, stage=self._stage, key=key) if fact.kind == kind]
        stored = [Attempt.model_validate_json(self._store.get(fact.artifact)) for fact in found if fact.artifact]
        return sorted(stored, key=lambda attempt: attempt.number)

    def _done(self, batch: Mapping[str, tuple[str, Future[list[Attempt]]]], spoilt: _Spoilt, raw: RawAttempt) -> None:
        """Keep an attempt that says something about the agent, and on the last try also one that never does."""
        if raw.key not in batch:
            raise InvariantError(f"Harbor told of task {raw.key}, which nobody ordered")
        if raw.again and not (raw.judge_failed and spoilt.final):
            spoilt.errors[raw.key] = raw.error or "no valid reward"
            return
        package, _ = batch[raw.key]
        number = len(self._made(raw.key, package)) + 1
        self._keep(raw.key, package, attempt_of(raw, number, self._store))

    def _keep(self, key: str, package: str, attempt: Attempt) -> None:
        data = to_json(attempt).encode()
        sha = self._store.put(data)
        trial = TrialFact(
            stage=self._stage,
            key=key,
            kind=f"{self._protocol.agent}:{self._protocol.model}" if self._stage == "rollouts" else self._kind(package),
            draft=package,
            round=0,
            repeat=attempt.number,
            reward=attempt.reward,
            exit_code=None,
            seconds=attempt.seconds,
        )
        self._ledger.append(
            [
                ArtifactFact(sha256=sha, kind="rollout", size=len(data)),
                AttemptFact(
                    stage=self._stage,
                    key=key,
                    kind=self._kind(package),
                    round=attempt.number,
                    ok=attempt.reward == 1,
                    component="rollout",
                    summary=(attempt.error or f"{attempt.turns} turns, checks not passed: {len(attempt.missed)}")[
                        :1000
                    ],
                    artifact=sha,
                ),
                trial,
                *(
                    CheckFact(
                        trial=trial.fact_id, check=c.id, requirement=c.requirement, status=c.status, message=c.message
                    )
                    for c in attempt.checks
                ),
            ]
        )


class _Spoilt:
    """What kept attempts of one job from a result; ``final``: there is no further job."""

    def __init__(self, *, final: bool) -> None:
        self.final, self.errors = final, dict[str, str]()


def attempt_of(raw: RawAttempt, number: int, store: ArtifactStore) -> Attempt:
    """The record of a finished rollout; its trajectory goes to the store."""
    said, problem = None, raw.problem
    if raw.trajectory is not None:
        try:
            said = rollouts_.conversation(raw.trajectory)
        except ValueError as error:
            problem = str(error)
    reward = {0.0: 0, 1.0: 1}.get(raw.reward) if raw.reward is not None else None
    odd = f"The verifier's reward is {raw.reward:g}, neither 0 nor 1." if raw.reward not in (None, 0, 1) else ""
    return Attempt.model_validate(
        {
            "number": number,
            "trial": raw.trial,
            "reward": reward,
            "checks": read_checks(raw.checks),
            "turns": sum(message.role == "assistant" for message in said.messages) if said else 0,
            "commands": len(said.keystrokes) if said else 0,
            "prompt_tokens": raw.prompt_tokens,
            "completion_tokens": raw.completion_tokens,
            "cost": raw.cost,
            "seconds": round(raw.seconds, 3),
            "error": odd or raw.error,
            "trajectory": store.put(raw.trajectory) if raw.trajectory is not None else "",
            "problem": problem[:1000],
        }
    )


def rollouts(settings: Settings, *, ledger: Ledger, store: ArtifactStore, harness: Harness) -> Compute:
    """Seed key -> Rollouts. What a killed run made is not made again. Raises ConfigError without a teacher."""
    if not settings.teacher:
        raise ConfigError("Rollouts need a teacher: set FACET_TEACHER to any model of litellm's")
    certificate, protocol = seed_stages(settings).certificate, protocol_of(settings)
    jobs = Jobs(harness, protocol, settings.attempts, ledger, store)

    def compute(key: str) -> Outcome:
        package = value(Certificate, certificate, key, ledger, store).package
        made = jobs.attempts(key, package)
        found = Rollouts(seed=key, package=package, protocol=protocol, attempts=tuple(made))
        return Outcome(found, numbers=_numbers(made), parents=((package, "package"),))

    return compute


def _numbers(made: Sequence[Attempt]) -> dict[str, float]:
    costs = [attempt.cost for attempt in made]
    judged = [attempt for attempt in made if attempt.reward is not None]
    return {
        "attempts": len(made),
        "judged": len(judged),
        "solved": sum(attempt.reward == 1 for attempt in judged),
        "checks": sum(len(attempt.checks) for attempt in judged),
        "checks_passed": sum(len(attempt.checks) - len(attempt.missed) for attempt in judged),
        "turns": sum(attempt.turns for attempt in made),
        "commands": sum(attempt.commands for attempt in made),
        "prompt_tokens": sum(attempt.prompt_tokens for attempt in made),
        "completion_tokens": sum(attempt.completion_tokens for attempt in made),
        **({} if None in costs else {"cost": sum(cost for cost in costs if cost is not None)}),
    }


def trajectories(settings: Settings, *, ledger: Ledger, store: ArtifactStore, tokens: TokenCounter) -> Compute:
    """Seed key -> Trajectories; rejected when none of them may be trained on."""
    made = rollout_stages(settings, tokens.name).rollouts

    def compute(key: str) -> Outcome:
        found = value(Rollouts, made, key, ledger, store)
        judged = []
        for attempt in found.attempts:
            said = rollouts_.conversation(store.get(attempt.trajectory)) if _readable(attempt) else None
            judged.append(rollouts_.judge(attempt, said, tokens.count, longest=settings.trajectory_tokens))
        kept = [one for one in judged if one.accepted]
        reasons = defaultdict[str, int](int)
        for one in judged:
            for reason in one.reasons:
                reasons[str(reason)] += 1
        first = next((one for one in judged if not one.accepted), None)
        refusal = None
        if first is not None and not kept:
            refusal = reject(first.reasons[0], first.what[0], attempts={one.number: list(one.what) for one in judged})
        value_ = Trajectories(
            seed=key,
            package=found.package,
            protocol=found.protocol,
            tokenizer=tokens.name,
            longest=settings.trajectory_tokens,
            judged=tuple(judged),
        )
        return Outcome(value_, refusal, numbers={"accepted": len(kept), **reasons})

    return compute


def _readable(attempt: Attempt) -> bool:
    return bool(attempt.trajectory) and not attempt.problem
