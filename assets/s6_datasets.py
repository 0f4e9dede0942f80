"""Stage 6: what is handed out, as versions that stay."""

import dagster as dg

from assets._dagster import own
from facet_dagster.errors import ConfigError
from facet_dagster.ports import ArtifactStore, Embedder, Ledger, TokenCounter
from facet_dagster.reports.versions import new_version
from facet_dagster.settings import Settings


@dg.asset(deps=["trajectories"], group_name="s6_datasets")
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
    shown = {name: made[name] for name in ("left_out", "families", "licences", "tokens", "contamination")}
    return dg.MaterializeResult(
        metadata={
            "folder": dg.MetadataValue.path(folder),
            "rows": made["rows"],
            "tasks": made["tasks"],
            "held_out": len(made["splits"]["held_out"]),
            **{name: dg.MetadataValue.json(value) for name, value in shown.items()},
        },
        data_version=dg.DataVersion(made["version"][:32]),
    )
