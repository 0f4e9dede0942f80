"""What is handed out: task sets and training sets, each whole, with a manifest that says how it came to be."""

from __future__ import annotations

from facet_dagster.reports.exports.aside import aside
from facet_dagster.reports.exports.chosen import choose, contaminated, split
from facet_dagster.reports.exports.harbor import Pinned, Publish, harbor_set
from facet_dagster.reports.exports.manifest import left_text, record

__all__ = ["Pinned", "Publish", "aside", "choose", "contaminated", "harbor_set", "left_text", "record", "split"]
