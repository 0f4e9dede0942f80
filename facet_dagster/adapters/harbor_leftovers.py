"""What Harbor leaves on the engine."""

from __future__ import annotations

import contextlib

from facet_dagster.adapters.docker_engine import Engine, engine_errors
from facet_dagster.errors import SandboxError

_PROJECT = "com.docker.compose.project"  # a label; Harbor's projects begin with the trial's name


def remove_leftovers(trials: list[str]) -> None:
    """Remove the untagged images that Harbor leaves where two of its trials built the same content."""
    engine = Engine(workers=1)
    try:
        with engine_errors("list the images that Harbor left"):
            found = engine.api.images(filters={"dangling": True, "label": _PROJECT})
        for image in found:
            if image["Labels"][_PROJECT].startswith(tuple(trials)):
                with contextlib.suppress(SandboxError), engine_errors("remove an image that Harbor left"):
                    engine.api.remove_image(image["Id"])
    finally:
        engine.close()
