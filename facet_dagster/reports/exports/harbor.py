"""The certified tasks as a set of Harbor packages, with a row for each, a manifest and a card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from facet_dagster.domain.dataset import Manifest, TaskRow
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.scenario import Scenario
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.tasks import value
from facet_dagster.ports import ArtifactStore, Embedder, Ledger
from facet_dagster.reports.exports.aside import aside, ours
from facet_dagster.reports.exports.chosen import Choice, choose, split
from facet_dagster.reports.exports.folder import finish, write_rows
from facet_dagster.reports.exports.manifest import manifest_of, record
from facet_dagster.reports.tasks import TaskLine
from facet_dagster.settings import Settings
from facet_dagster.stages.task import export


class Pinned(NamedTuple):
    """References to a task's two images, each with the digest of its manifest."""

    environment: str
    verifier: str


# Task, and the bytes of its archive -> where its images are found.
Publish = Callable[[str, bytes], Pinned]
Publishing = Callable[[], AbstractContextManager[Publish]]


def harbor_set(
    folder: Path,
    settings: Settings,
    ledger: Ledger,
    store: ArtifactStore,
    *,
    batch: str = "",
    embedder: Embedder | None = None,
    images: Publishing | None = None,
    images_in: str = "",
) -> Manifest:
    """Write ``folder``, replacing an older export, and return its manifest. Raises ConfigError when no task is left.

    ``images`` publishes what task.toml then names; ``images_in`` says in words where.
    """
    choice = choose(settings, ledger, store, batch=batch, embedder=embedder)
    splits, sides = split(choice.keys, choice, settings)
    seeds = {fact.key for fact in ledger.find(SeedFact)}
    with aside(folder, lambda old: ours(old) or all(path.name in seeds for path in old.iterdir())) as part:
        pinned = _packages(part, choice, store, images)
        rows = [_row(line, choice, pinned, settings, ledger, store) for line in choice.lines]
        files = write_rows(part, rows, sides, TaskRow)
        told = {key: refs._asdict() for key, refs in pinned.items()}
        more = {"images": {"where": images_in, "tasks": told}} if images else {}
        manifest = manifest_of("harbor", rows, files, choice, splits, settings, more=more)
        finish(part, manifest, TaskRow)
    record(manifest, [line.package for line in choice.lines], ledger, store)
    return manifest


def _packages(part: Path, choice: Choice, store: ArtifactStore, images: Publishing | None) -> dict[str, Pinned]:
    for line in choice.lines:
        export(store.get(line.package), part / line.key)
    if images is None:
        return {}
    pinned = {}
    with images() as publish:
        for line in choice.lines:
            pinned[line.key] = publish(line.key, store.get(line.package))
            config = part / line.key / "task.toml"
            config.write_text(with_images(config.read_text(encoding="utf-8"), pinned[line.key]), encoding="utf-8")
    return pinned


def with_images(task_toml: str, pinned: Pinned) -> str:
    """The same task with images that need no build.

    The verifier's environment is stated whole, since one that is stated takes nothing from the agent's. Its user is
    the image's own, root, and not named: not every consumer can set one.
    """
    table: Any = tomlkit.parse(task_toml)
    environment, verifier = table["environment"], table["verifier"]
    environment["docker_image"] = pinned.environment
    stated = {name: environment[name] for name in ("network_mode", "build_timeout_sec", "cpus", "memory_mb")}
    verifier.pop("user", None)
    verifier["environment"] = {**stated, "docker_image": pinned.verifier}
    return tomlkit.dumps(table)


def _row(
    line: TaskLine,
    choice: Choice,
    pinned: Mapping[str, Pinned],
    settings: Settings,
    ledger: Ledger,
    store: ArtifactStore,
) -> dict[str, Any]:
    scenario = value(Scenario, seed_stages(settings).scenario, line.key, ledger, store)
    refs = pinned.get(line.key, Pinned("", ""))
    return {
        "task": line.key,
        "path": line.key,
        "title": line.title,
        "instruction": choice.texts[line.key].instruction,
        "family": scenario.references.family.value,
        "families": list(line.families),
        "skills": list(choice.skills[line.key]),
        "licences": sorted({name or "none stated" for name in line.licences}),
        "share_alike": line.share_alike,
        "level": line.level,
        "checks": line.checks,
        "package": line.package,
        "image": refs.environment,
        "verifier_image": refs.verifier,
    }
