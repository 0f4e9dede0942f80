"""What one run of a stage came to: counts, bars, and a table of why partitions were rejected."""

from collections import Counter
from collections.abc import Mapping, Sequence

import dagster as dg

from facet_dagster.domain.outcome import StageResult, Verdict

WIDTH = 40
EXAMPLES = 3
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("reason", "string", "why the stage refused"),
        dg.TableColumn("component", "string", "what is to blame"),
        dg.TableColumn("partitions", "int", "how many in this run"),
        dg.TableColumn("such as", "string", "the first of them"),
    ]
)


def stage_summary(results: Sequence[StageResult]) -> dict[str, dg.MetadataValue]:
    """Counts by verdict, how many were read back, and the reasons of rejections; nothing without results."""
    if not results:
        return {}
    verdicts = Counter(result.verdict.value for result in results)
    shown: dict[str, dg.MetadataValue] = {
        verdict.value.replace("_", " "): dg.MetadataValue.int(verdicts[verdict.value]) for verdict in Verdict
    }
    shown["cached"] = dg.MetadataValue.int(sum(result.cached for result in results))
    shown["seconds"] = dg.MetadataValue.float(round(float(sum(r.seconds for r in results if not r.cached)), 1))
    shown["plot"] = bars({verdict.value.replace("_", " "): verdicts[verdict.value] for verdict in Verdict})
    if rejected := [result for result in results if result.verdict is Verdict.REJECTED]:
        shown["reasons"] = dg.MetadataValue.table(_reasons(rejected), schema=_COLUMNS)
    return shown


def bars(counts: Mapping[str, int]) -> dg.MetadataValue:
    """Counts as a small plot of characters."""
    most = max(1, *counts.values())
    lines = [f"{name:<24} {'█' * round(WIDTH * count / most)} {count:,}" for name, count in counts.items()]
    return dg.MetadataValue.md("\n".join(["```", *lines, "```"]))


def _reasons(rejected: Sequence[StageResult]) -> list[dg.TableRecord]:
    groups: dict[tuple[str, str], list[str]] = {}
    for result in rejected:
        if result.rejection:
            kind = (result.rejection.reason.value, result.rejection.component.value)
            groups.setdefault(kind, []).append(result.key)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        dg.TableRecord(
            {
                "reason": reason,
                "component": component,
                "partitions": len(keys),
                "such as": ", ".join(sorted(keys)[:EXAMPLES]),
            }
        )
        for (reason, component), keys in ordered
    ]
