"""The one check of every partition: ``accepted``. A rejected partition fails it with severity WARN."""

import warnings

import dagster as dg

# Partitioned checks are a preview in the pinned Dagster; the tests hold what we use of them.
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

CHECK = "accepted"


def accepted(asset: str, partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(
            CHECK, asset=asset, partitions_def=partitions, description="Did this stage accept the partition?"
        )
    ]
