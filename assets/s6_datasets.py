"""Stage 6: what is handed out, as versions that stay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from assets._dagster import own, owner_of
from facet_dagster.errors import ConfigError
from facet_dagster.ports import ArtifactStore, Embedder, Ledger, TokenCounter
from facet_dagster.reports.versions import new_version
from facet_dagster.settings import Settings


@dg.asset(deps=["trajectories"], group_name="s6_datasets", owners=[owner_of("s6_datasets")], kinds={"parquet", "json"})
def sft_dataset(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    embedder: dg.ResourceParam[Embedder],
    tokens: dg.ResourceParam[TokenCounter],
) -> dg.MaterializeResult[None]:
    """All accepted trajectories as a dataset for supervised fine-tuning; equal rows are one version."""
    own(context)
    try:
        folder, made = new_version("sft", settings, tokens.name, ledger, store, embedder)
    except ConfigError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    return dg.MaterializeResult(metadata=_shown(folder, made), data_version=dg.DataVersion(made["version"][:32]))


def _shown(folder: Path, made: Mapping[str, Any]) -> Mapping[str, dg.MetadataValue]:
    """Of the manifest, what one looks for first."""
    tables = ("left_out", "families", "licences", "tokens", "contamination")
    return {
        "folder": dg.MetadataValue.path(folder),
        "rows": dg.MetadataValue.int(made["rows"]),
        "tasks": dg.MetadataValue.int(made["tasks"]),
        "held_out": dg.MetadataValue.int(len(made["splits"]["held_out"])),
        **{name: dg.MetadataValue.json(made[name]) for name in tables},
    }
