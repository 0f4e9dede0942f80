"""Read me first: everything the funnel needs from the outside world.

Nine protocols. Stages take them as keyword arguments; ``adapters/`` holds one class a file, named
<Vendor><Port>; ``adapters/memory.py`` holds an in-memory twin of each, for tests. Every method raises
the PortError of its port when the service fails, and nothing else.
"""

from __future__ import annotations

from facet_dagster.ports.harness import Harness, Order
from facet_dagster.ports.models import LLM, Embedder, Reply, TokenCounter, Vectors
from facet_dagster.ports.records import AnyFact, ArtifactStore, Ledger
from facet_dagster.ports.sandbox import BuildContext, BuildFailed, Built, Put, Run, RunOutcome, Sandbox, Session
from facet_dagster.ports.sources import SourceTree
from facet_dagster.ports.vectors import Hit, Point, VectorStore

__all__ = [
    "LLM",
    "AnyFact",
    "ArtifactStore",
    "BuildContext",
    "BuildFailed",
    "Built",
    "Embedder",
    "Harness",
    "Hit",
    "Ledger",
    "Order",
    "Point",
    "Put",
    "Reply",
    "Run",
    "RunOutcome",
    "Sandbox",
    "Session",
    "SourceTree",
    "TokenCounter",
    "VectorStore",
    "Vectors",
]
