"""Dated releases: certified packages and training sets in a folder of their own, with what changed since the last.

A release is written aside and renamed when it is whole. One that stands is never changed: what comes later is another
release. Tasks whose certificate is stale, since a prompt or a setting changed, stay: their packages were shown to hold.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from facet_dagster import __version__
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Verdict
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.quarantine import decided_by, quarantined
from facet_dagster.pipeline.rollouts import protocol_of, rollout_stages
from facet_dagster.ports import ArtifactStore, Embedder, Ledger
from facet_dagster.reports.datasets import Kind, dataset
from facet_dagster.reports.exports.alike import texts_of
from facet_dagster.reports.exports.chosen import must_stay
from facet_dagster.reports.releases import MANIFEST, Diff, Manifest, Release, Released, readme, releases
from facet_dagster.reports.tasks import tasks
from facet_dagster.reports.yields import Yields
from facet_dagster.settings import Settings
from facet_dagster.stages.task import export

CLAIM = "release"
_KINDS: tuple[Kind, ...] = ("sft", "near-miss")


def release(
    settings: Settings,
    tokenizer: str,
    ledger: Ledger,
    store: ArtifactStore,
    *,
    day: str,
    night: str = "",
    found: Yields | None = None,
    embedder: Embedder | None = None,
) -> Release:
    """Write a release named after ``day`` (ISO) unless nothing changed. Processes wait for each other.

    Without ``embedder`` tasks are compared with benchmarks by words alone.

    Raises ConfigError, LedgerError.
    """
    folder = settings.releases
    with ledger.claim(CLAIM):
        _sweep(folder)
        last = next(reversed(releases(folder)), None)
        refused = barred(settings, ledger, store, embedder)
        listed = released(settings, ledger, store, last, refused)
        training = _training(settings, tokenizer, ledger)
        diff = _diff(last, listed, training, refused, settings, ledger)
        if diff.empty:
            name = last.name if last else ""
            return Release(name=name, folder=str(folder / name), written=False, diff=diff, tasks=len(listed))
        manifest = Manifest(
            name=_free_name(folder, day),
            number=last.number + 1 if last else 1,
            previous=last.name if last else "",
            night=night,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            version=__version__,
            tasks=listed,
            training=training,
            diff=diff,
            yields=found,
        )
        _write(folder, manifest, settings, tokenizer, ledger, store, embedder)
    target = folder / manifest.name
    return Release(name=manifest.name, folder=str(target), written=True, diff=diff, tasks=len(listed))


def barred(
    settings: Settings, ledger: Ledger, store: ArtifactStore, embedder: Embedder | None = None
) -> dict[str, str]:
    """Certified task -> why it must not be given away: its licence, or a benchmark that it repeats."""
    lines = tasks(settings, ledger, store)
    texts = {line.key: texts_of(line.package, store) for line in lines}
    return {key: left.what for key, left in must_stay(lines, texts, settings, embedder)[1].items()}


def released(
    settings: Settings, ledger: Ledger, store: ArtifactStore, last: Manifest | None, refused: Collection[str]
) -> dict[str, Released]:
    """Key -> task: what is certified now and may be given away, and of the ``last`` release what is merely stale.

    Near duplicates stay: which of them an export keeps may change, and a release stands.
    """
    listed = {
        line.key: Released(
            package=line.package,
            title=line.title,
            families=line.families,
            licences=line.licences,
            level=line.level,
        )
        for line in tasks(settings, ledger, store)
        if line.key not in refused
    }
    if last is not None:
        gone = sorted(set(last.tasks) - set(listed) - set(refused))
        reasons = lost(gone, settings, ledger)
        listed |= {key: last.tasks[key].model_copy(update={"stale": True}) for key in gone if key not in reasons}
    return dict(sorted(listed.items()))


def lost(keys: list[str], settings: Settings, ledger: Ledger) -> dict[str, str]:
    """Why tasks that are not certified now must not be released; those that are only stale are left out."""
    known = {fact.key for fact in ledger.find(SeedFact, key=keys)} if keys else set()
    found = {key: "not in this ledger" for key in keys if key not in known}
    for key, result in current(seed_stages(settings).certificate, sorted(known), ledger).items():
        if result.verdict is not Verdict.ACCEPTED and result.rejection is not None:
            found[key] = f"{result.rejection.reason} at {result.rejected_at or result.stage}"
    apart = {key: fact for key, fact in quarantined(ledger).items() if key in keys}
    return found | {key: f"in quarantine, by {decided_by(fact)}: {fact.note}" for key, fact in apart.items()}


def _training(settings: Settings, tokenizer: str, ledger: Ledger) -> str:
    """Digest of the trajectories that datasets are made from; empty when there are none."""
    keys = sorted(key for (key,) in ledger.values(SeedFact, "key"))
    found = current(rollout_stages(settings, tokenizer).trajectories, keys, ledger) if keys else {}
    outputs = [(key, result.output) for key, result in sorted(found.items()) if result.output]
    return digest([protocol_of(settings), outputs]) if outputs else ""


def _diff(
    last: Manifest | None,
    listed: Mapping[str, Released],
    training: str,
    refused: Mapping[str, str],
    settings: Settings,
    ledger: Ledger,
) -> Diff:
    before = last.tasks if last else {}
    gone = sorted(set(before) - set(listed))
    return Diff(
        new=tuple(sorted(set(listed) - set(before))),
        changed=tuple(key for key in listed if key in before and listed[key].package != before[key].package),
        lost={**{key: refused[key] for key in gone if key in refused}, **lost(gone, settings, ledger)},
        training=training != (last.training if last else ""),
    )


def _free_name(folder: Path, day: str) -> str:
    """``day``, or the first of ``day.2``, ``day.3``, ... that is not there."""
    name, number = day, 1
    while (folder / name).exists():
        number += 1
        name = f"{day}.{number}"
    return name


def _sweep(folder: Path) -> None:
    """What killed processes left: under the claim nobody else is writing here."""
    for left in folder.glob(".*.part"):
        shutil.rmtree(left, ignore_errors=True)


def _write(
    folder: Path,
    manifest: Manifest,
    settings: Settings,
    tokenizer: str,
    ledger: Ledger,
    store: ArtifactStore,
    embedder: Embedder | None,
) -> None:
    part = folder / f".{manifest.name}.part"
    try:
        part.mkdir(parents=True)
        for key, task in manifest.tasks.items():
            export(store.get(task.package), part / "tasks" / key)
        rows = _datasets(part, settings, tokenizer, ledger, store, embedder) if manifest.training else {}
        whole = manifest.model_copy(update={"datasets": rows})
        text = json.dumps(whole.model_dump(mode="json"), ensure_ascii=False, indent=1, sort_keys=True)
        (part / MANIFEST).write_text(text + "\n", encoding="utf-8")
        (part / "README.md").write_text(readme(whole), encoding="utf-8")
        part.rename(folder / manifest.name)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise ConfigError(
            f"No release can be written into {folder} ({error.strerror}): mend that, run again"
        ) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _datasets(
    part: Path,
    settings: Settings,
    tokenizer: str,
    ledger: Ledger,
    store: ArtifactStore,
    embedder: Embedder | None,
) -> dict[str, int]:
    rows = dict[str, int]()
    for kind in _KINDS:
        try:
            made = dataset(kind, part / "datasets" / kind, settings, tokenizer, ledger, store, embedder=embedder)
        except ConfigError:  # there is no row of this kind
            continue
        rows[kind] = int(made["rows"])
    return rows
