"""Makes containers for runs, fills them, and removes them whatever happens."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from docker.errors import APIError

from facet_dagster.adapters.docker_container import Container, image_faults
from facet_dagster.adapters.docker_engine import NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_exchange import Cargo, Exchange, SharedFolders, sees_our_files
from facet_dagster.adapters.docker_labels import ATTEMPT, SUBJECT
from facet_dagster.adapters.docker_limits import host_config
from facet_dagster.adapters.docker_removal import Removals
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Run


def labels_of(labels: Mapping[str, str], subject: str, attempt: int) -> dict[str, str]:
    """The sandbox's own ``labels`` and what something is made for."""
    return {**labels, SUBJECT: subject, ATTEMPT: str(attempt)}


class Mounts:
    """Whether containers can mount our folders: tried once, with the trusted ``image`` where it is there."""

    def __init__(self, image: str | None, *, wanted: bool) -> None:
        self._image = image
        self._work: bool | None = None if wanted else False
        self._guard = threading.Lock()

    def work(self, engine: Engine, exchange: Exchange, image: str, labels: Mapping[str, str]) -> bool:
        """``image`` serves where there is no trusted one; nothing of it is started."""
        with self._guard:
            if self._work is None:
                found = [name for name in (self._image, image) if name and _is_there(engine, name)]
                self._work = bool(found) and sees_our_files(engine, exchange, found[0], labels)
            return self._work


class Containers:
    """Fresh containers of one sandbox, which carry its ``labels``."""

    def __init__(
        self, engine: Engine, exchange: Exchange, labels: Mapping[str, str], mounts: Mounts, removals: Removals
    ) -> None:
        self._engine, self._exchange, self._labels = engine, exchange, labels
        self._mounts, self._removals = mounts, removals

    @contextlib.contextmanager
    def filled(self, run: Run, cargo: Cargo, network: str) -> Iterator[Container]:
        """A container that is not started yet and holds ``cargo``, mounted or as files of its own."""
        with self._shared(run.image, cargo) as shared, self._made(run, network, shared) as container:
            if shared is None:
                container.put(cargo.members)
            yield container

    def bare(self, run: Run) -> AbstractContextManager[Container]:
        """A container that is not started yet, without network."""
        return self._made(run, "none", None)

    def _shared(self, image: str, cargo: Cargo) -> AbstractContextManager[SharedFolders | None]:
        if not cargo.folders or not self._mounts.work(self._engine, self._exchange, image, self._labels):
            return contextlib.nullcontext()
        return self._exchange.shared(cargo)

    @contextlib.contextmanager
    def _made(self, run: Run, network: str, shared: SharedFolders | None) -> Iterator[Container]:
        """Removed on every way out; a failing removal never hides an earlier error and is made up for later."""
        self._removals.catch_up()
        ident = self._create(run, network, shared.mounts() if shared else [])
        container = Container(self._engine, ident, shared)
        try:
            self._engine.check_stopping()  # a stop looks once: what was made since then ends here
            yield container
        except BaseException:
            self._removals.remove(ident)
            raise
        container.remove()

    def _create(self, run: Run, network: str, mounts: list[dict[str, Any]]) -> str:
        config = host_config(run.limits, user=run.user, network=network, cpus=self._engine.cpus)
        with engine_errors("create a container"), image_faults():
            try:
                created = self._engine.api.create_container(
                    run.image,
                    entrypoint=list(run.argv),
                    user=run.user,
                    working_dir=run.workdir,
                    environment=dict(run.env),
                    use_config_proxy=False,  # else Docker's client adds proxies, which may hold a password
                    labels=labels_of(self._labels, run.subject, run.attempt),
                    healthcheck={"Test": ["NONE"]},
                    host_config={**config, "Mounts": mounts},
                )
            except APIError as error:
                if error.status_code == NOT_FOUND and "image" in str(error.explanation).lower():
                    raise SandboxError(f"Image {run.image} is not on the engine: build it first") from error
                raise
        return str(created["Id"])


def _is_there(engine: Engine, image: str) -> bool:
    with engine_errors(f"inspect image {image}"):
        try:
            engine.api.inspect_image(image)
        except APIError as error:
            if error.status_code in (400, NOT_FOUND):
                return False
            raise
    return True
