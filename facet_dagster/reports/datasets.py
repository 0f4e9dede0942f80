"""Training sets in a folder: chosen, split, written aside and renamed when whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from facet_dagster.domain.dataset import Manifest, NearMissRow, SftRow
from facet_dagster.domain.facts import SeedFact, SkillFact
from facet_dagster.domain.scenario import Scenario
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.rollouts import protocol_of
from facet_dagster.pipeline.tasks import value
from facet_dagster.ports import ArtifactStore, Embedder, Ledger
from facet_dagster.reports.exports.aside import aside
from facet_dagster.reports.exports.chosen import choose, split
from facet_dagster.reports.exports.folder import data_name, finish, write_rows
from facet_dagster.reports.exports.manifest import manifest_of, record
from facet_dagster.reports.rollouts import Judgement, judgements, near_miss
from facet_dagster.settings import Settings
from facet_dagster.stages.rollout import conversation, near_miss_row, sft_row
from facet_dagster.stages.rollout.select import select

Kind = Literal["sft", "near-miss"]
DATA = data_name("train", "parquet").removesuffix(".parquet")
MODELS: Mapping[Kind, type[SftRow]] = {"sft": SftRow, "near-miss": NearMissRow}


def dataset(
    kind: Kind,
    folder: Path,
    settings: Settings,
    tokenizer: str,
    ledger: Ledger,
    store: ArtifactStore,
    *,
    batch: str = "",
    limit: int = 0,
    per_skill: int = 0,
    embedder: Embedder | None = None,
) -> dict[str, Any]:
    """Write ``folder``, replacing an older one, and return its manifest. Raises ConfigError when no row is left.

    ``embedder`` also compares what tasks mean with the benchmarks that the settings name.
    """
    found = [one for one in judgements(settings, tokenizer, ledger, store, batch) if _wanted(kind, one)]
    if not found:
        raise ConfigError(f"There is no row for {kind}: `facet rollouts` says what came of the attempts")
    choice = choose(settings, ledger, store, batch=batch, embedder=embedder)
    behind = Counter("an attempt on a task that is left out" for one in found if one.seed not in choice.keys)
    rows = [_row(kind, one, settings, ledger, store) for one in found if one.seed in choice.keys]
    chosen, left = select(rows, limit=limit, per_skill=per_skill) if kind == "sft" else (rows, dict[str, int]())
    if not chosen:
        raise ConfigError(f"No row is left for {kind}: {dict(behind) | left}, {_why(choice.left)}")
    splits, sides = split({str(row["task"]) for row in chosen}, choice, settings)
    with aside(folder) as part:
        files = write_rows(part, chosen, sides, MODELS[kind])
        more = _about_rows(chosen, settings, tokenizer)
        counts = {**left, **behind}
        manifest = manifest_of(kind, chosen, files, choice, splits, settings, left=counts, more=more)
        finish(part, manifest, MODELS[kind])
    _record(manifest, chosen, found, ledger, store)
    return manifest.model_dump(mode="json")


def _why(left: Sequence[Any]) -> str:
    return "; ".join(one.what for one in left[:3]) or "no task is left out"


def _record(
    manifest: Manifest,
    rows: Sequence[Mapping[str, Any]],
    found: Sequence[Judgement],
    ledger: Ledger,
    store: ArtifactStore,
) -> None:
    used = {row["id"] for row in rows}
    names = {f"{one.seed}-{one.attempt.number}": one.attempt.trajectory for one in found}
    record(manifest, [sha for name, sha in names.items() if name in used], ledger, store)


def _wanted(kind: Kind, one: Judgement) -> bool:
    if kind == "sft":
        return one.judged.accepted
    other = {str(reason) for reason in one.judged.reasons} - {"rollout.failed"}
    return near_miss(one.attempt) and bool(one.attempt.trajectory) and not other


def _row(kind: Kind, one: Judgement, settings: Settings, ledger: Ledger, store: ArtifactStore) -> dict[str, Any]:
    seed = ledger.find(SeedFact, key=one.seed)[0]
    skills = [ledger.find(SkillFact, skill=ident)[-1] for ident in (seed.first, seed.second)]
    scenario = value(Scenario, seed_stages(settings).scenario, one.seed, ledger, store)
    about = {
        "family": scenario.references.family.value,
        "skills": [skill.skill for skill in skills],
        "licences": sorted({skill.licence or "none stated" for skill in skills}),
    }
    said = conversation(store.get(one.attempt.trajectory))
    make = sft_row if kind == "sft" else near_miss_row
    return make(one.seed, one.attempt, one.judged, said, protocol_of(settings), about)


def _about_rows(rows: Sequence[Mapping[str, Any]], settings: Settings, tokenizer: str) -> dict[str, Any]:
    tokens = [int(row["tokens"]) for row in rows]
    return {
        "protocol": protocol_of(settings).model_dump(mode="json") | {"attempts": settings.attempts},
        "tokenizer": tokenizer,
        "longest": settings.trajectory_tokens,
        "tokens": {"in_all": sum(tokens), "least": min(tokens), "most": max(tokens)},
    }
