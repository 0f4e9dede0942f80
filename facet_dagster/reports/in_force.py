"""Which version of a task counts: that of its certificate, else that of its repair, else the one judged first."""

from __future__ import annotations

from facet_dagster.domain.task import Certificate, Task
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import SeedStages
from facet_dagster.ports import ArtifactStore, Ledger


def task_in_force(key: str, graph: SeedStages, ledger: Ledger, store: ArtifactStore, memo: Memo) -> Task | None:
    """The latest version among the current results of a seed; None before its first validation."""
    certificate = _output(graph.certificate.name, key, graph, ledger, memo)
    changed = Certificate.model_validate_json(store.get(certificate)).task if certificate else None
    if changed is not None:
        return changed
    names = (graph.task.name, graph.first_validation.name)
    found = next((output for name in names if (output := _output(name, key, graph, ledger, memo))), None)
    return Task.model_validate_json(store.get(found)) if found else None


def _output(name: str, key: str, graph: SeedStages, ledger: Ledger, memo: Memo) -> str | None:
    result = current(graph._asdict()[name], [key], ledger, memo).get(key)
    return result.output if result else None
