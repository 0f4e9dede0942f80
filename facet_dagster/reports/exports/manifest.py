"""The manifest of an export, and its record in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from facet_dagster import __version__
from facet_dagster.domain.dataset import ExportKind, LeftOut, Manifest, Splits
from facet_dagster.domain.facts import ArtifactFact, DatasetFact, EdgeFact
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.pipeline.policy import policy_of
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.exports.chosen import Choice
from facet_dagster.settings import Settings

# What of the settings decides what the tasks are.
_TOLD = (
    "pipeline",
    "order",
    "author",
    "model",
    "base_image",
    "task_repairs",
    "environment_repairs",
    "certificate",
    "certificate_mutants",
    "certificate_equivalents",
    "certificate_reseeds",
    "benchmark_cosine",
    "held_out",
    "split_number",
)


def manifest_of(
    kind: ExportKind,
    rows: Sequence[Mapping[str, Any]],
    files: Mapping[str, str],
    choice: Choice,
    splits: Splits,
    settings: Settings,
    *,
    left: Mapping[str, int] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Manifest:
    """``left`` counts what else was left out than whole tasks, ``more`` are fields of this kind of export."""
    policy = policy_of(settings)
    texts = {name: sha for name, sha in files.items() if name.endswith(".jsonl")}
    told = settings.model_dump(mode="json", include=set(_TOLD))
    keys = {str(row["task"]) for row in rows}
    return Manifest.model_validate(
        {
            "kind": kind,
            "version": digest([kind, texts, splits, choice.contamination.digest]),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "project": __version__,
            "rows": len(rows),
            "tasks": len(keys),
            "left_out": {**Counter(one.reason for one in choice.left), **(left or {})},
            "refused": [one.model_dump(mode="json") for one in choice.left],
            "families": dict(Counter(str(row["family"]) for row in rows).most_common()),
            "licences": dict(Counter(name for row in rows for name in row["licences"]).most_common()),
            "licence_policy": {"allowed": sorted(policy.licences), "unknown_licence": policy.unknown_licence},
            "splits": splits.model_dump(mode="json"),
            "contamination": choice.contamination.model_dump(mode="json"),
            "settings": told,
            "files": dict(files),
            "standin": sum(line.standin for line in choice.lines if line.key in keys),
            **(more or {}),
        }
    )


def record(manifest: Manifest, parents: Iterable[str], ledger: Ledger, store: ArtifactStore) -> None:
    """Keep the manifest, and what the dataset was made from (addresses of trajectories or packages), in the ledger."""
    data = to_json(manifest).encode()
    fact = DatasetFact(
        kind=manifest.kind,
        version=manifest.version,
        rows=manifest.rows,
        tasks=manifest.tasks,
        manifest=store.put(data),
    )
    child = f"dataset:{manifest.version}"
    edges = [EdgeFact(child=child, parent=parent, kind="dataset") for parent in sorted(set(parents))]
    ledger.append([ArtifactFact(sha256=fact.manifest, kind="dataset.manifest", size=len(data)), fact, *edges])


def left_text(left: Sequence[LeftOut]) -> list[str]:
    """One sentence for each task that stays behind."""
    return [f"{one.task} is left out: {one.what}" for one in left]
