"""A certificate run again from its package alone, and compared with the one that the package holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from facet_dagster.domain.findings import Probe
from facet_dagster.domain.outcome import Rejection, Value
from facet_dagster.domain.replies import Replies
from facet_dagster.domain.task import Level
from facet_dagster.errors import ConfigError
from facet_dagster.ports import Sandbox
from facet_dagster.stages.task.certificate.bench import Bench
from facet_dagster.stages.task.certificate.carried import Carried, read_carried
from facet_dagster.stages.task.certificate.certify import knowing, tried
from facet_dagster.stages.task.certificate.rebuild import rebuilt
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.images import e0_archive, package_images
from facet_dagster.stages.task.package import CERTIFICATE, Package
from facet_dagster.stages.task.reexamine import examine_again
from facet_dagster.stages.task.trial import Trials

LEVELS: tuple[Level, ...] = ("basic", "standard", "strict")
BY_LEVEL = {"semantic": "standard", "second": "standard", "blind": "strict", "rebuilt": "strict"}
NOT_REACHED = 3


class Again(Value):
    """What a second run found. ``rejection`` is why the task would not be certified now.

    ``differences`` are sentences, one for each probe that came out otherwise, and for files that were changed; of
    probes after the one that decided only the number is told. ``level`` is the lower of the wanted and the stored one.
    """

    seed: str
    level: Level
    probes: tuple[Probe, ...]
    rejection: Rejection | None
    differences: tuple[str, ...]
    seconds: float

    @property
    def agrees(self) -> bool:
        return not self.differences


def run_again(package: Package, *, sandbox: Sandbox, level: Level = "strict") -> Again:
    """Build what the package holds and make every probe up to ``level`` that needs no new reply of a model.

    Raises ConfigError for a package that cannot be run again, and SandboxError.
    """
    carried, kept = read_carried(package)
    stored = stored_certificate(package)
    done = min(level, _level(stored), key=LEVELS.index)
    bench, rejection = _tried(package, carried, kept, done, sandbox)
    probes = tuple(bench.probes)
    changed = [f"{path} is not the file that was certified." for path in carried.altered(package)]
    differences = (*changed, *compared(_probes(stored, done), probes, rejection))
    return Again(
        seed=carried.draft.seed,
        level=done,
        probes=probes,
        rejection=rejection,
        differences=differences,
        seconds=round(bench.seconds, 1),
    )


def _tried(
    package: Package, carried: Carried, kept: Replies, level: Level, sandbox: Sandbox
) -> tuple[Bench, Rejection | None]:
    task, contexts, limits = carried.task(package), Contexts.in_package(package), carried.limits
    services = task.environment.recipe.services
    with package_images(
        contexts.environment, contexts.tests, services, subject=task.seed, sandbox=sandbox, limits=limits
    ) as images:
        draft = task.draft
        files = e0_archive(images.environment, sandbox)
        trials = Trials(images, sandbox, limits, task.seed, draft.collect, draft.round)
        bench = Bench(knowing(trials, files), draft)
        rejection, _ = tried(task, bench, files, contexts, sandbox, carried.effort)
        if rejection is None and level != "basic":
            found = examine_again(task, carried.scenario, kept, trials=bench.trials, strict=level == "strict")
            bench.probes += found.probes
            bench.seconds += sum(probe.seconds for probe in found.probes)
            rejection = found.rejection
        if rejection is None and level == "strict":
            rejection, _ = rebuilt(bench, contexts.environment, files, sandbox)
    return bench, rejection


def stored_certificate(package: Package) -> Mapping[str, Any]:
    """Raises ConfigError when the package holds none."""
    try:
        stored = json.loads(package.files[CERTIFICATE])
        _level(stored)
        _probes(stored, "strict")
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"The package holds no {CERTIFICATE} that can be read: export it again") from error
    return stored if isinstance(stored, dict) else {}


def _level(stored: Mapping[str, Any]) -> Level:
    return LEVELS[LEVELS.index(stored["level"])]


def _probes(stored: Mapping[str, Any], level: Level) -> dict[str, dict[str, Any]]:
    """Those of at most ``level`` that say something: one that crashed was nobody's verdict."""
    wanted = LEVELS[: LEVELS.index(level) + 1]
    return {
        probe["id"]: {"reward": probe["reward"], "failed": tuple(probe["failed"]), "crashed": probe["crashed"]}
        for probe in stored["probes"]
        if BY_LEVEL.get(probe["kind"], "basic") in wanted and not (probe["crashed"] and probe["kind"] in BY_LEVEL)
    }


def compared(
    stored: Mapping[str, Mapping[str, Any]], probes: tuple[Probe, ...], rejection: Rejection | None
) -> list[str]:
    """Probe by probe: rewards, and the checks that failed. Probes that crash say nothing and are left out."""
    found = {probe.id: probe for probe in probes}
    told = [f"Not certified now, {rejection.reason}: {rejection.message}"] if rejection else []
    for ident, before in stored.items():
        if (probe := found.get(ident)) and not (probe.crashed and before["crashed"]):
            told += _changes(before, probe)
    missing = [ident for ident in stored if ident not in found]
    if missing:
        more = f" and {len(missing) - NOT_REACHED} more" if len(missing) > NOT_REACHED else ""
        told.append(f"Not run again: {', '.join(missing[:NOT_REACHED])}{more}.")
    new = [probe.id for probe in probes if probe.id not in stored and not probe.crashed]
    return [*told, *(f"{ident} is not in the certificate." for ident in new)]


def _changes(before: Mapping[str, Any], probe: Probe) -> list[str]:
    if probe.crashed != before["crashed"]:
        return [f"{probe.id}: the program {'fails now' if probe.crashed else 'failed then and does not now'}."]
    if probe.reward != before["reward"]:
        checks = ", ".join(probe.failed) or "none"
        return [f"{probe.id} got reward {before['reward']} and now {probe.reward}; checks that fail now: {checks}."]
    if probe.failed != before["failed"]:
        lists = [", ".join(names) or "none" for names in (before["failed"], probe.failed)]
        return [f"{probe.id}: the checks that failed were {lists[0]} and are {lists[1]}."]
    return []
