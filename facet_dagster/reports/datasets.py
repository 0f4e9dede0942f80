"""Training sets in a folder: JSONL and Parquet, a manifest, a card; written aside and renamed when whole."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl

from facet_dagster.domain.facts import SeedFact, SkillFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.rollout import RolloutProtocol
from facet_dagster.domain.scenario import Scenario
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.rollouts import protocol_of
from facet_dagster.pipeline.tasks import value
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.rollouts import Judgement, judgements, near_miss
from facet_dagster.reports.tasks import left_out
from facet_dagster.settings import Settings
from facet_dagster.stages.rollout import conversation, near_miss_row, sft_row
from facet_dagster.stages.rollout.select import select

Kind = Literal["sft", "near-miss"]
DATA = "data/train-00000-of-00001"
_WHAT = {
    "sft": "Successful trajectories of an agent on execution-validated terminal tasks, for supervised fine-tuning.",
    "near-miss": "Failed trajectories that missed one or two checks, with what every check said.",
}


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
) -> dict[str, Any]:
    """Write ``folder``, replacing an older one, and return its manifest. Raises ConfigError when no row is left."""
    found = judgements(settings, tokenizer, ledger, store, batch)
    rows = [_row(kind, one, settings, ledger, store) for one in found if _wanted(kind, one)]
    chosen, left = select(rows, limit=limit, per_skill=per_skill) if kind == "sft" else (rows, dict[str, int]())
    if not chosen:
        raise ConfigError(f"There is no row for {kind}: `facet rollouts` says what came of the attempts")
    text = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in chosen)
    manifest = _manifest(kind, chosen, left, protocol_of(settings), settings, tokenizer)
    manifest["quarantined_tasks"] = len(left_out(settings, ledger, batch))
    with _aside(folder) as part:
        (part / "data").mkdir()
        (part / f"{DATA}.jsonl").write_text(text, encoding="utf-8")
        pl.DataFrame(list(chosen), infer_schema_length=None).write_parquet(part / f"{DATA}.parquet")
        manifest["files"] = {
            path.relative_to(part).as_posix(): digest(path.read_bytes()) for path in sorted((part / "data").iterdir())
        }
        (part / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        (part / "README.md").write_text(_card(kind, manifest), encoding="utf-8")
    return manifest


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


def _manifest(
    kind: Kind,
    rows: Sequence[Mapping[str, Any]],
    left: Mapping[str, int],
    protocol: RolloutProtocol,
    settings: Settings,
    tokenizer: str,
) -> dict[str, Any]:
    tokens = [int(row["tokens"]) for row in rows]
    return {
        "kind": kind,
        "rows": len(rows),
        "tasks": len({row["task"] for row in rows}),
        "left_out": dict(left),
        "protocol": protocol.model_dump(mode="json") | {"attempts": settings.attempts},
        "tokenizer": tokenizer,
        "longest": settings.trajectory_tokens,
        "tokens": {"in_all": sum(tokens), "least": min(tokens), "most": max(tokens)},
        "families": dict(Counter(row["family"] for row in rows).most_common()),
        "licences": dict(Counter(name for row in rows for name in row["licences"]).most_common()),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _card(kind: Kind, manifest: Mapping[str, Any]) -> str:
    licences = "\n".join(f"- {name}: {count} rows" for name, count in manifest["licences"].items())
    families = "\n".join(f"- {name}: {count}" for name, count in manifest["families"].items())
    tokens = manifest["tokens"]
    protocol = ", ".join(f"{name} {value_}" for name, value_ in manifest["protocol"].items())
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: {DATA}.parquet
---

# {kind}

{_WHAT[kind]}

{manifest["rows"]} rows on {manifest["tasks"]} tasks. Made with {protocol}.
Tokens are counted by {manifest["tokenizer"]}: {tokens["in_all"]} in all, at most {tokens["most"]} in one row.

`messages` holds each conversation as it was written, `train` says on which messages a loss is taken, `conversations`
is the same in ShareGPT form. Every task stems from two public skills: what their licences demand holds for these rows.

## Licences of the skills

{licences}

## Families of the tasks

{families}
"""


class _aside:  # noqa: N801 - used like a function
    """A folder beside ``folder`` that takes its place when the block ends well, and is removed when it does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._part = folder.with_name(f".{folder.name}.part-{os.getpid()}")

    def __enter__(self) -> Path:
        if self._folder.exists() and not (self._folder / "manifest.json").is_file():
            raise ConfigError(f"{self._folder} is there and is no dataset of ours: name another folder, or remove it")
        shutil.rmtree(self._part, ignore_errors=True)
        self._part.mkdir(parents=True)
        return self._part

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            old = self._folder.with_name(f".{self._folder.name}.old-{os.getpid()}")
            if self._folder.exists():
                self._folder.rename(old)
            self._part.rename(self._folder)
            shutil.rmtree(old, ignore_errors=True)
        else:
            shutil.rmtree(self._part, ignore_errors=True)
