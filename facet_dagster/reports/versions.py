"""Datasets that stay: one folder a version, named by what it holds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from facet_dagster.ports import ArtifactStore, Embedder, Ledger
from facet_dagster.reports.datasets import Kind, dataset
from facet_dagster.settings import Settings

NAME = 16  # digits of a version


def new_version(
    kind: Kind, settings: Settings, tokenizer: str, ledger: Ledger, store: ArtifactStore, embedder: Embedder
) -> tuple[Path, dict[str, Any]]:
    """The folder of the current rows below $FACET_HOME/datasets, and its manifest; one that is there stays as it is.

    Raises ConfigError when there is no row.
    """
    below = settings.home / "datasets" / kind
    below.mkdir(parents=True, exist_ok=True)
    part = below / f".new-{os.getpid()}"
    compared = embedder if settings.compared_with else None
    try:
        made = dataset(kind, part, settings, tokenizer, ledger, store, embedder=compared)
        folder = below / made["version"][:NAME]
        if not folder.exists():
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder, made
