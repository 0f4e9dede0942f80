"""Images of this engine for others: written into an OCI layout, or pushed to a registry."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from facet_dagster.adapters.docker_engine import Engine, engine_errors
from facet_dagster.adapters.oci_layout import OciLayout
from facet_dagster.errors import SandboxError

_CHUNK = 1024 * 1024


class LayoutPublisher:
    """Writes images into an OCI layout. ``repository`` is the name under which they will be pushed from there."""

    def __init__(self, folder: Path, repository: str, engine: Engine | None = None) -> None:
        self._engine, self._repository = engine or Engine(1), repository
        self._folder, self._layout = folder, OciLayout(folder)

    def __call__(self, image: str, name: str) -> str:
        """The reference of ``image``, pinned by digest. Raises SandboxError."""
        with tempfile.TemporaryFile(dir=self._folder) as saved:
            with engine_errors(f"save {image}"):
                for chunk in self._engine.api.get_image(image, chunk_size=_CHUNK):
                    saved.write(chunk)
            saved.seek(0)
            return f"{self._repository}@{self._layout.add(saved, name)}"

    def close(self) -> None:
        self._engine.close()


class RegistryPublisher:
    """Pushes images to ``repository``, with the credentials that Docker's client configuration has for it."""

    def __init__(self, repository: str, engine: Engine | None = None) -> None:
        self._engine, self._repository = engine or Engine(1), repository

    def __call__(self, image: str, name: str) -> str:
        """The reference of ``image``, pinned by digest; its name for the push is removed. Raises SandboxError."""
        api, pushed = self._engine.api, f"{self._repository}:{name}"
        with engine_errors(f"push {pushed}"):
            api.tag(image, self._repository, tag=name, force=True)
            try:
                digest = _pushed(api.push(self._repository, tag=name, stream=True), pushed)
            finally:
                self._forget(pushed)
        self._forget(f"{self._repository}@{digest}")
        return f"{self._repository}@{digest}"

    def _forget(self, reference: str) -> None:
        """One name of an image, which has others."""
        with contextlib.suppress(SandboxError), engine_errors(f"forget {reference}"):
            self._engine.api.remove_image(reference, noprune=True)

    def close(self) -> None:
        self._engine.close()


def _pushed(lines: Any, name: str) -> str:
    """The digest that a push ends with. Raises SandboxError for one that failed."""
    digest = ""
    for told in _messages(lines):
        if "error" in told:
            raise SandboxError(f"{name} could not be pushed: {told['error']}")
        digest = str((told.get("aux") or {}).get("Digest") or digest)
    if not digest:
        raise SandboxError(f"{name} was pushed, and the engine told no digest")
    return digest


def _messages(lines: Any) -> Iterator[Mapping[str, Any]]:
    for chunk in lines:
        for line in chunk.splitlines():
            if line.strip():
                yield json.loads(line)
