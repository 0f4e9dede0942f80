"""A package played again at the least price: its verifier must refuse e0 and accept what its solution leaves."""

from __future__ import annotations

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.trial import End, Trial, TrialKind
from facet_dagster.ports import Sandbox
from facet_dagster.stages.task.certificate.carried import SOLUTION, read_carried
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.images import package_images
from facet_dagster.stages.task.package import Package
from facet_dagster.stages.task.trial import Trials

WANTED = {TrialKind.BASELINE: 0, TrialKind.ORACLE: 1}
TRIES = 2


class Replay(Value):
    """Rewards of the last try. ``rotten``: every try was wrong, none of them by a limit; ``what`` says how."""

    baseline: int | None
    oracle: int | None
    what: str = ""
    rotten: bool = False

    @property
    def stands(self) -> bool:
        return self.baseline == WANTED[TrialKind.BASELINE] and self.oracle == WANTED[TrialKind.ORACLE]


def replay(package: Package, *, sandbox: Sandbox) -> Replay:
    """Baseline and oracle trial from the package alone; both again when one is not as wanted.

    A program that hits a limit may have been slowed by the machine: that is no rot. Raises ConfigError for a package
    that carries too little, and SandboxError.
    """
    carried, _ = read_carried(package)
    contexts, draft = Contexts.in_package(package), carried.draft
    services = carried.environment.recipe.services
    with package_images(
        contexts.environment,
        contexts.tests,
        services,
        subject=draft.seed,
        sandbox=sandbox,
        limits=carried.limits,
    ) as images:
        trials = Trials(images, sandbox, carried.limits, draft.seed, draft.collect, draft.round)
        tries = list[list[Trial]]()
        while len(tries) < TRIES and not (tries and _good(tries[-1])):
            tries.append([trials.run(kind, package.files[SOLUTION]) for kind in WANTED])
    baseline, oracle = tries[-1]
    limited = any(_limited(trial) for pair in tries for trial in pair)
    rotten = not _good(tries[-1]) and not limited
    return Replay(baseline=baseline.reward, oracle=oracle.reward, what=_told(tries[-1]), rotten=rotten)


def _good(pair: list[Trial]) -> bool:
    return all(trial.reward == WANTED[trial.kind] for trial in pair)


def _limited(trial: Trial) -> bool:
    """Services that do not come up count too: their time may have been too short here."""
    programs = (trial.solution, trial.verifier)
    late = trial.services is not None and not trial.services.ok
    return late or any(program is not None and program.end is not End.EXITED for program in programs)


def _told(pair: list[Trial]) -> str:
    wrong = [trial for trial in pair if trial.reward != WANTED[trial.kind]]
    return " ".join(_sentence(trial) for trial in wrong)


def _sentence(trial: Trial) -> str:
    failed = ", ".join(check.id for check in trial.checks if check.status != "pass") or "none"
    reward = "no valid one" if trial.reward is None else str(trial.reward)
    text = f"The reward of the {trial.kind} is {reward}, not {WANTED[trial.kind]}"
    return f"{text}; checks that do not pass: {failed[:300]}."
