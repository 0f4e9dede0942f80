"""How a verdict reads in the web UI: verdict, reason and a ``why`` block first, then the numbers."""

from collections.abc import Mapping

import dagster as dg

from facet_dagster.domain.facts import StageFact
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.ports import Ledger

LOG_TAIL = 2_000
MOST_ALIKE = 5


def page(asset: str, partition: str) -> str:
    return f"/assets/{asset}?view=partitions&partition={partition}"


class Neighbours:
    """Pages of other partitions that ended at the same stage for the same reason, MOST_ALIKE at most."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known = dict[tuple[str, str], list[str]]()

    def links(self, result: StageResult) -> Mapping[str, str]:
        if result.rejection is None:
            return {}
        stage, reason = result.rejected_at or result.stage, result.rejection.reason.value
        if (stage, reason) not in self._known:
            found = self._ledger.values(StageFact, "key", stage=stage, reason=reason)
            self._known[stage, reason] = list(dict.fromkeys(key for (key,) in found))
        keys = [key for key in self._known[stage, reason][: MOST_ALIKE + 1] if key != result.key]
        return {f"alike {key}": page(stage, key) for key in keys[:MOST_ALIKE]}


def metadata(result: StageResult, links: Mapping[str, str]) -> dict[str, dg.MetadataValue]:
    """Metadata of one materialization, in the order in which the UI shows it.

    ``links`` maps labels to pages of the same web UI.
    """
    shown: dict[str, dg.MetadataValue] = {"verdict": dg.MetadataValue.text(result.verdict.value)}
    if result.rejection is not None:
        shown["reason"] = dg.MetadataValue.text(result.rejection.reason.value)
        shown["why"] = dg.MetadataValue.md(why(result, links))
        shown["stage"] = dg.MetadataValue.text(result.rejected_at or result.stage)
        shown["component"] = dg.MetadataValue.text(result.rejection.component.value)
    elif links:
        shown["lineage"] = dg.MetadataValue.md(_links(links))
    shown |= {name: dg.MetadataValue.float(number) for name, number in sorted(result.numbers.items())}
    if result.output:
        shown["artifact"] = dg.MetadataValue.text(result.output)
    shown["seconds"] = dg.MetadataValue.float(result.seconds)
    shown["cached"] = dg.MetadataValue.bool(result.cached)
    return shown


def reason_line(result: StageResult) -> str:
    """One sentence for the check's description."""
    if result.rejection is None:
        return "Accepted."
    return f"Rejected at {result.rejected_at}: {result.rejection.reason} ({result.rejection.message})"


def why(result: StageResult, links: Mapping[str, str]) -> str:
    """Markdown: what was refused, where, who is to blame, the evidence, and where to look next."""
    assert result.rejection is not None
    rejection = result.rejection
    head = "Not reached" if result.verdict is Verdict.NOT_REACHED else "Rejected"
    lines = [
        f"### {head}: {rejection.reason}",
        rejection.message,
        "",
        "| stage | component |",
        "|---|---|",
        f"| {result.rejected_at} | {rejection.component} |",
    ]
    for name, fact in rejection.evidence.items():
        lines += ["", f"**{name}**", "```", _fenced(fact), "```"]
    return "\n".join([*lines, "", _links(links)])


def _fenced(fact: object) -> str:
    text = "\n".join(str(item) for item in fact) if isinstance(fact, list | tuple) else str(fact)
    return text[-LOG_TAIL:].replace("```", "'''")


def _links(links: Mapping[str, str]) -> str:
    return " · ".join(f"[{label}]({target})" for label, target in links.items())
