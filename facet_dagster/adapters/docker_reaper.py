"""Removes what dead processes left on the engine, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from docker.errors import APIError

from facet_dagster.adapters.docker_context import REPOSITORY
from facet_dagster.adapters.docker_engine import CONFLICT, NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_holds import Holds
from facet_dagster.adapters.docker_labels import OWNER, RUN, SUBJECT
from facet_dagster.adapters.docker_removal import remove_container
from facet_dagster.adapters.process_owner import is_dead
from facet_dagster.domain.trial import Reaped


class Reaper:
    """Everything we make carries the label ``facet.owner``; what lacks it is never touched.

    Images are told by their name, not by their labels, which they inherit from their base.
    """

    def __init__(self, engine: Engine, holds: Holds) -> None:
        self._engine, self._holds = engine, holds

    def reap(self, *, images: bool, everything: bool) -> Reaped:
        """Exactly what was removed: containers and networks by id, images and volumes by name."""

        def doomed(labels: Mapping[str, str] | None) -> bool:
            return everything or is_dead((labels or {}).get(OWNER, ""))

        subjects = self._containers(doomed)
        return Reaped(
            containers=tuple(subjects),
            subjects=subjects,
            images=self._images(doomed) if images else (),
            networks=self._networks(doomed),
            volumes=self._volumes(doomed),
        )

    def _containers(self, doomed: Callable[[Any], bool]) -> dict[str, str]:
        with engine_errors("list containers"):
            found = self._engine.api.containers(all=True, filters={"label": OWNER})
        subjects = {c["Id"]: str(c["Labels"].get(SUBJECT, "")) for c in found if doomed(c.get("Labels"))}
        return {ident: subject for ident, subject in subjects.items() if remove_container(self._engine, ident)}

    def _images(self, doomed: Callable[[Any], bool]) -> tuple[str, ...]:
        with engine_errors("list images"):
            found = self._engine.api.images(filters={"reference": f"{REPOSITORY}:*"})
        tags = [
            tag
            for image in found
            if doomed(image.get("Labels"))
            for tag in image.get("RepoTags") or ()
            if tag.startswith(f"{REPOSITORY}:")
        ]
        return tuple(tag for tag in tags if remove_image(self._engine, self._holds, tag))

    def _networks(self, doomed: Callable[[Any], bool]) -> tuple[str, ...]:
        with engine_errors("list networks"):
            found = self._engine.api.networks(filters={"label": OWNER})
        idents = [n["Id"] for n in found if doomed(n.get("Labels"))]
        return _removed(idents, self._engine.api.remove_network, "remove a network")

    def _volumes(self, doomed: Callable[[Any], bool]) -> tuple[str, ...]:
        with engine_errors("list volumes"):
            found = self._engine.api.volumes(filters={"label": OWNER})["Volumes"] or []
        names = [v["Name"] for v in found if doomed(v.get("Labels"))]
        return _removed(names, self._engine.api.remove_volume, "remove a volume")


def remove_own(engine: Engine, run_id: str) -> None:
    """Remove every container of one sandbox, running or not. Raises SandboxError."""
    with engine_errors("list containers"):
        found = engine.api.containers(all=True, filters={"label": f"{RUN}={run_id}"})
    for container in found:
        remove_container(engine, container["Id"])


def _removed(names: Iterable[str], remove: Callable[[str], object], doing: str) -> tuple[str, ...]:
    """Those that could be removed; one in use by a running container stays, one that is gone is not counted."""
    removed = []
    for name in names:
        with engine_errors(doing):
            try:
                remove(name)
            except APIError as error:
                if error.status_code not in (NOT_FOUND, CONFLICT):
                    raise
            else:
                removed.append(name)
    return tuple(removed)


def remove_image(engine: Engine, holds: Holds, image: str) -> bool:
    """Whether the image was removed by this call. One that is gone is as good; one that somebody uses stays."""
    with holds.alone(image) as free:
        return free and bool(_removed([image], engine.api.remove_image, f"remove image {image}"))
