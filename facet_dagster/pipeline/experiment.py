"""The same seeds under several settings: each arm goes through the ordinary stages, without Dagster.

Results are ordinary stage results, so an arm whose settings ran before, in whatever way, computes nothing, and an
interrupted one goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal
from uuid import uuid4

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Verdict
from facet_dagster.domain.task import Order, Pipeline
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Compute, Stage, current, plan, run_stage
from facet_dagster.pipeline import tasks
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import LLM, ArtifactStore, Ledger, Sandbox
from facet_dagster.settings import Settings

OPEN_LLM = Callable[[Settings, str], LLM]
Last = Literal["task", "certificate"]  # validated, or certified as well
# Stages that wait for containers; all others wait for a model as well.
_DOCKER = frozenset({"first_validation"})


@dataclass(frozen=True)
class Arm:
    """One setting of an experiment, under a name that no other arm has."""

    name: str
    settings: Settings


@dataclass(frozen=True)
class Ports:
    """What arms need of the world; ``llm`` opens a model for the settings and the run id of one stage."""

    ledger: Ledger
    store: ArtifactStore
    sandbox: Sandbox
    llm: OPEN_LLM


@dataclass(frozen=True)
class StageDone:
    """One stage of one arm: results of seeds that came so far, how many of them are new, and what failed of what."""

    arm: str
    stage: str
    settled: int
    computed: int
    failed: dict[str, str]


def orders(settings: Settings, names: Sequence[Order], authors: Sequence[str] = ()) -> list[Arm]:
    """One arm for each order and author. Raises ConfigError where a recording is set, which has no order."""
    if settings.pipeline == "recording":
        raise ConfigError("A recording has an order of its own: set FACET_PIPELINE=facet or direct to compare orders")
    pairs = product(authors or (settings.author,), names)
    return [_arm(settings, author, name, {"order": name, "author": author}, authors) for author, name in pairs]


def pipelines(settings: Settings, names: Sequence[Pipeline], authors: Sequence[str] = ()) -> list[Arm]:
    """One arm for each pipeline and author; all but a recording write in the order that is set."""
    pairs = product(authors or (settings.author,), names)
    arms = []
    for author, name in pairs:
        order = "forward" if name == "recording" else settings.order
        arms.append(_arm(settings, author, name, {"pipeline": name, "order": order, "author": author}, authors))
    return arms


def _arm(settings: Settings, author: str, name: str, update: dict[str, str], authors: Sequence[str]) -> Arm:
    return Arm(f"{author}/{name}" if authors else name, settings.model_copy(update=update))


def chosen_seeds(ledger: Ledger, count: int, batch: str = "") -> list[str]:
    """The first ``count`` seeds by key, that is by day, of the batch when there is one. Raises ConfigError."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact) if batch in ("", fact.batch))
    if len(keys) < count:
        where = f"Batch {batch}" if batch else "This installation"
        raise ConfigError(
            f"{where} has {len(keys)} seeds, not {count}: ask for fewer, or select more with"
            f" `facet run --seeds {count} --until seed`"
        )
    return keys[:count]


def run_arms(
    arms: Sequence[Arm], keys: Sequence[str], ports: Ports, until: Last = "certificate"
) -> Iterator[StageDone]:
    """Settle every stage of every arm for ``keys``, arm after arm; a seed that fails waits for the next run."""
    run = f"experiment-{uuid4().hex[:12]}"
    for arm in arms:
        left = list(keys)
        for stage in seed_stages(arm.settings):
            yield _settle(arm, stage, left, f"{run}/{arm.name}/{stage.name}", ports)
            done = current(stage, left, ports.ledger)
            left = [key for key in left if key in done]
            if stage.name == until:
                break


def _workers(stage: str, settings: Settings) -> int:
    if stage == "certificate":
        return settings.certificate_workers
    return settings.workers if stage in _DOCKER else settings.llm_workers


def _settle(arm: Arm, stage: Stage, keys: Sequence[str], run_id: str, ports: Ports) -> StageDone:
    llm, settings = ports.llm(arm.settings, run_id), arm.settings

    def stop() -> None:
        llm.stop()
        ports.sandbox.stop()

    report = run_stage(
        stage.name,
        plan(stage, keys, ports.ledger).work,
        _compute(stage.name, settings, llm, ports),
        ledger=ports.ledger,
        store=ports.store,
        emit=lambda _: None,
        workers=_workers(stage.name, settings),
        run_id=run_id,
        stop=stop,
    )
    reached = [result for result in report.results if result.verdict is not Verdict.NOT_REACHED]
    computed = sum(not result.cached for result in reached)
    return StageDone(arm.name, stage.name, len(reached), computed, report.failed)


def _compute(name: str, settings: Settings, llm: LLM, ports: Ports) -> Compute:
    ledger, store, sandbox = ports.ledger, ports.store, ports.sandbox
    if name == "seed":
        return tasks.seed(ledger=ledger)
    if name == "scenario":
        return tasks.scenario(settings, ledger=ledger, store=store, llm=llm)
    if name == "first_validation":
        return tasks.first_validation(settings, ledger=ledger, store=store, sandbox=sandbox)
    bound = {
        "first_build": tasks.first_build,
        "environment": tasks.environment,
        "task_draft": tasks.task_draft,
        "task": tasks.task,
        "certificate": tasks.certificate,
    }
    return bound[name](settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
