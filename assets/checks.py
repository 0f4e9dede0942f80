"""The one check of every partition: ``accepted``. A rejected partition fails it with severity WARN."""

import dagster as dg

CHECK = "accepted"


def accepted(asset: str, partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(
            CHECK, asset=asset, partitions_def=partitions, description="Did this stage accept the partition?"
        )
    ]
