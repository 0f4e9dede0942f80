"""Idle containers without network, whose network namespace a trial joins.

Making the namespace is the slowest part of starting a container; joining one that exists saves about a
third of a round trip. Trials in one slot follow each other and all their processes are dead in between, so
nothing of one reaches the next.
"""

from __future__ import annotations

from collections.abc import Mapping

from docker.errors import APIError

from facet_dagster.adapters.docker_engine import Engine, engine_errors
from facet_dagster.adapters.docker_limits import host_config
from facet_dagster.adapters.docker_removal import Removals
from facet_dagster.domain.trial import Limits

_NOBODY = "65534:65534"
_LIMITS = Limits(memory=32 * 1024 * 1024, cpus=0.1, pids=8, disk=1024 * 1024)


class PauseNetworks:
    """One pause container for each trial slot, made from a trusted ``image`` when first needed.

    Never from a task's image: what runs here shares the loopback of all later trials of its slot.
    """

    def __init__(self, engine: Engine, image: str | None, labels: Mapping[str, str], removals: Removals) -> None:
        self._engine, self._image, self._labels, self._removals = engine, image, dict(labels), removals
        self._ids: dict[int, str] = {}

    def network(self, slot: int) -> str:
        """Network mode for a trial in ``slot``, which the caller holds: ``container:<id>``, else ``none``."""
        if slot not in self._ids and self._image is not None and self._is_there(self._image):
            self._make(slot, self._image)
        ident = self._ids.get(slot)
        return "none" if ident is None else f"container:{ident}"

    def forget(self, slot: int) -> None:
        """Remove the slot's container, which may be dead; the next trial gets a new one."""
        ident = self._ids.pop(slot, None)
        if ident is not None:
            self._removals.remove(ident)

    def close(self) -> None:
        for slot in list(self._ids):
            self.forget(slot)

    def _is_there(self, image: str) -> bool:
        with engine_errors(f"inspect image {image}"):
            try:
                self._engine.api.inspect_image(image)
            except APIError:
                return False
            return True

    def _make(self, slot: int, image: str) -> None:
        with engine_errors("start a pause container"):
            container = self._engine.api.create_container(
                image,
                entrypoint=["sleep", "infinity"],
                user=_NOBODY,
                labels=self._labels,
                host_config={
                    **host_config(_LIMITS, user=_NOBODY, network="none", cpus=self._engine.cpus),
                    "ReadonlyRootfs": True,
                },
            )
            # Kept before the start, so that a failing one is removed like any other.
            self._ids[slot] = container["Id"]
            self._engine.api.start(container["Id"])
