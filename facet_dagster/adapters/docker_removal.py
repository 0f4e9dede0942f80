"""Removing containers, also those of an engine that is away just now."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from docker.errors import APIError

from facet_dagster.adapters.docker_engine import CONFLICT, NOT_FOUND, Engine, engine_errors
from facet_dagster.errors import SandboxError

_SECONDS = 10.0


def remove_container(engine: Engine, ident: str) -> None:
    """Remove a container in any state; one that is gone, or being removed by another, counts once it is gone."""
    deadline = time.monotonic() + _SECONDS
    with engine_errors("remove a container"):
        while True:
            try:
                engine.api.remove_container(ident, force=True, v=True)
            except APIError as error:
                if error.status_code == NOT_FOUND:
                    return
                if error.status_code != CONFLICT or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


class Removals:
    """Containers of one sandbox that could not be removed when their engine was gone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left: deque[str] = deque()

    def remove(self, ident: str) -> None:
        """Now, or else at a later ``catch_up``. Never raises."""
        self._left.append(ident)
        self.catch_up()

    def catch_up(self) -> None:
        """Remove what is left, as far as the engine is back."""
        with contextlib.suppress(SandboxError, IndexError):
            while True:
                ident = self._left.popleft()
                try:
                    remove_container(self._engine, ident)
                except SandboxError:
                    self._left.append(ident)
                    raise
