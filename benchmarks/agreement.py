"""Do our trials and the real Harbor tool give the same rewards? Prints one JSON object.

``FACET_HOME=... PYTHONPATH=. python benchmarks/agreement.py [--packages 100] [--folder DIR]``

The certified tasks of the ledger in FACET_HOME (after `make demo` and `make verify-harbor`) are varied: edits
after which a task is still sound, each validated and certified by us and then exported, and one broken task to
five sound ones, which gets one trial of each kind. Then Harbor runs its oracle and its nop agent over all of
them, and each reward is compared with ours. ``--folder`` keeps the packages and Harbor's jobs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.variants import Base, Variant, variant
from facet_dagster import connect, proof
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.domain.trial import TrialKind
from facet_dagster.funnel import Memo
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.skills import kept_skills
from facet_dagster.pipeline.tasks import value
from facet_dagster.ports import BuildContext, BuildFailed, Built, Sandbox
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.tasks import tasks
from facet_dagster.settings import Settings, load_settings
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.images import e0_archive, environment_image
from facet_dagster.stages.task.package import TaskLimits, build_package, export
from facet_dagster.stages.task.validate import failing, first_validation, solve_sh, trials_of

AGENT_OF = {TrialKind.ORACLE: "oracle", TrialKind.BASELINE: "nop"}


@dataclass(frozen=True)
class Judged:
    """A variant with its package and our rewards; ``evidence`` are the checks of the oracle that did not pass."""

    variant: Variant
    package: bytes
    rewards: dict[str, int | None]
    evidence: list[Any]


class Remembering(DockerSandbox):
    """Knows the images that it built, so that none stays."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.built: set[str] = set()

    def build(self, context: BuildContext, **options: Any) -> Built | BuildFailed:
        done = super().build(context, **options)
        if isinstance(done, Built):
            self.built.add(done.image)
        return done

    def close(self) -> None:
        for image in self.built:
            self.remove_image(image)
        super().close()


def certified(settings: Settings) -> list[Base]:
    """Every certified task of the ledger as something to vary."""
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    graph, kept = seed_stages(settings), kept_skills(settings, ledger, store)
    bases = []
    for line in tasks(settings, ledger, store):
        task = task_in_force(line.key, graph, ledger, store, Memo())
        assert task is not None
        scenario = value(Scenario, graph.scenario, line.key, ledger, store)
        (seed,) = ledger.find(SeedFact, key=line.key)
        bases.append(Base(task.draft, task.environment, scenario, (kept[seed.first], kept[seed.second])))
    return bases


def accepted(found: Variant, sandbox: Sandbox, seconds: float) -> Judged | None:
    """The variant through validation and certificate; None when the pipeline rejects it."""
    outcome = first_validation(
        found.draft, found.environment, found.base.scenario, sandbox=sandbox, trial_seconds=seconds
    )
    task, store = outcome.value, MemoryArtifactStore()
    if not isinstance(task, Task) or not task.valid:
        return None
    final = certify(
        task,
        found.base.scenario,
        found.base.skills,
        sandbox=sandbox,
        store=store,
        trial_seconds=seconds,
        day=datetime.now(UTC).date(),
    )
    if not isinstance(final.value, Certificate):
        return None
    (oracle,), (baseline,) = set(final.value.oracle), set(final.value.baseline)
    return Judged(found, store.get(final.value.package), {"oracle": oracle, "nop": baseline}, [])


def tried(found: Variant, sandbox: Sandbox, seconds: float) -> Judged:
    """One trial of each kind, whatever the rules say about the variant."""
    limits = TaskLimits.of(seconds)
    with trials_of(found.draft, found.environment, sandbox=sandbox, limits=limits) as bench:
        trials = {kind: bench.run(kind, solve_sh(found.draft)) for kind in TrialKind}
        with environment_image(found.environment, sandbox, limits) as image:
            e0 = e0_archive(image, sandbox)
    package = build_package(
        found.draft, found.environment, found.base.scenario, found.base.skills, e0_archive=e0, limits=limits
    )
    rewards = {AGENT_OF[kind]: trial.reward for kind, trial in trials.items()}
    return Judged(found, package.tar(), rewards, failing(trials[TrialKind.ORACLE])[:3])


def judge(bases: list[Base], packages: int, sandbox: Sandbox, seconds: float) -> tuple[list[Judged], list[str]]:
    """``packages`` accepted variants and a fifth as many broken ones; and the variants that we rejected."""
    kept: list[Judged] = []
    refused: list[str] = []
    numbers = itertools.count()
    with ThreadPoolExecutor(2) as pool:
        while len(kept) < packages and len(refused) <= packages:
            batch = [variant(bases, next(numbers), sound=True) for _ in range(packages - len(kept))]
            for found, result in zip(batch, pool.map(lambda v: accepted(v, sandbox, seconds), batch), strict=True):
                kept += [result] if result else []
                refused += [] if result else [f"{found.key} {found.kind}"]
        broken = [variant(bases, number, sound=False) for number in range(-(-packages // 5))]
        kept += pool.map(lambda v: tried(v, sandbox, seconds), broken)
    return kept, refused


def compare(judged: Sequence[Judged], folder: Path, home: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row a package: our rewards, Harbor's, and whether they are equal."""
    tool = proof.open_tool(home, environment)
    for item in judged:
        export(item.package, folder / "tasks" / item.variant.key)
    seconds = 600 + 60 * len(judged)
    found = {agent: proof.run_agent(tool, folder / "tasks", agent, folder / "jobs", seconds) for agent in proof.AGENTS}
    return [row_of(item, {agent: trials.get(item.variant.key) for agent, trials in found.items()}) for item in judged]


def row_of(item: Judged, harbor: dict[str, proof.HarborTrial | None]) -> dict[str, Any]:
    theirs = {agent: trial.reward if trial else "no trial" for agent, trial in harbor.items()}
    errors = {agent: trial.error if trial else "no trial" for agent, trial in harbor.items()}
    row = {"key": item.variant.key, "kind": item.variant.kind, "sound": item.variant.sound}
    row |= {"ours": item.rewards, "harbor": theirs, "agree": theirs == item.rewards}
    return row if row["agree"] else {**row, "harbor_errors": errors, "our_checks": item.evidence}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "packages": len(rows),
        "sound": sum(row["sound"] for row in rows),
        "broken": sum(not row["sound"] for row in rows),
        "kinds": dict(Counter(row["kind"] for row in rows)),
        "rewards_compared": sum(len(row["ours"]) for row in rows),
        "agreements": sum(row["ours"][agent] == row["harbor"][agent] for row in rows for agent in row["ours"]),
        "disagreements": [row for row in rows if not row["agree"]],
    }


def measure(settings: Settings, packages: int, folder: Path) -> dict[str, Any]:
    bases = certified(settings)
    if not bases:
        sys.exit(f"{settings.home} holds no certified task: run `make demo` first")
    began = time.monotonic()
    with closing(Remembering(pause_image=settings.base_image)) as sandbox:
        judged, refused = judge(bases, packages, sandbox, settings.trial_seconds)
    between = time.monotonic()
    rows = compare(judged, folder, settings.home, os.environ)  # noqa: TID251 - a composition root
    seconds = {"ours": round(between - began, 1), "harbor": round(time.monotonic() - between, 1)}
    return {**summary(rows), "bases": len(bases), "rejected_by_us": refused, "seconds": seconds, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="keep the packages and Harbor's jobs here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facet-agreement-") as scratch:
        result = measure(load_settings(), options.packages, options.folder or Path(scratch))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
