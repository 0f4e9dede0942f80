"""Base images: present, pulled, or built as a labelled local stand-in; recorded in base-images.json."""

from __future__ import annotations

import contextlib
import datetime
import time
from dataclasses import asdict, dataclass

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from facet_dagster.setup import standin
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places, process_env, read_json, write_json
from facet_dagster.setup.steps import Outcome, Say

RECORD_NAME = "base-images.json"
_SILENCE_SECONDS = 20
_PULL_SECONDS = 300.0
_IMPORT_SECONDS = 600


@dataclass(frozen=True)
class BaseImage:
    """A public image that tasks are built from, and the Debian suite that a stand-in of it is made of."""

    name: str
    suite: str


@dataclass(frozen=True)
class BaseImageRecord:
    """What a base image is on this machine."""

    name: str
    image_id: str
    standin: bool
    suite: str
    created: str


DEFAULT_BASE = BaseImage("python:3.11-slim-bookworm", "bookworm")
SECOND_BASE = BaseImage("python:3.13-slim-trixie", "trixie")


class BaseImageStep:
    """Make one base image available to the engine and record what it is."""

    waits_for = "the image"

    def __init__(self, places: Places, base: BaseImage) -> None:
        self._places = places
        self._base = base
        self.name = f"Base image {base.name}"

    def needed(self) -> bool:
        """Whether the image is missing or not recorded as it is. Raises SetupError without an engine."""
        record = inspect(self._base)
        return record is None or asdict(record) not in recorded(self._places)

    def run(self, say: Say) -> Outcome:
        """Use, pull or build the image. Raises SetupError."""
        how = "already here"
        record = inspect(self._base)
        if record is None:
            say(f"a registry ({_SILENCE_SECONDS} s at most)")
            refusal = pull(self._base)
            how = "pulled" if refusal is None else f"stand-in built, since no registry gave it ({refusal})"
            if refusal is not None:
                self._import_standin(say)
            record = inspect(self._base)
        if record is None:
            raise SetupError(f"{self._base.name} vanished while it was being recorded; run this again.")
        others = [entry for entry in recorded(self._places) if entry.get("name") != record.name]
        write_json(self._places.home / RECORD_NAME, [*others, asdict(record)])
        return Outcome("done", f"{how}: {record.image_id[:19]}{', stand-in' if record.standin else ''}")

    def _import_standin(self, say: Say) -> None:
        wanted = standin.recipe(self._base.name, self._base.suite, process_env())
        tar = standin.build_tar(wanted, self._places, say)
        say("docker import")
        repository, _, tag = self._base.name.rpartition(":")
        try:
            with contextlib.closing(_engine(_IMPORT_SECONDS)) as api:
                api.import_image_from_file(str(tar), repository=repository, tag=tag, changes=wanted.changes())
        except (DockerException, requests.RequestException, OSError) as error:
            raise SetupError(
                f"The engine refused the stand-in of {self._base.name} ({error}); delete {tar} and run this again."
            ) from error


def recorded(places: Places) -> list[dict[str, object]]:
    """The entries of base-images.json; none when it is missing or broken."""
    value = read_json(places.home / RECORD_NAME)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def inspect(base: BaseImage) -> BaseImageRecord | None:
    """What the engine has under the image's name, or None. Raises SetupError without an engine."""
    try:
        with contextlib.closing(docker.from_env(timeout=30)) as client:
            attributes = client.images.get(base.name).attrs
    except ImageNotFound:
        return None
    except (DockerException, requests.RequestException) as error:
        raise SetupError(f"The Docker Engine does not answer ({error}); start it and run this again.") from error
    labels = attributes["Config"].get("Labels") or {}
    created = str(attributes.get("Created") or datetime.datetime.now(datetime.UTC).isoformat())
    return BaseImageRecord(
        name=base.name,
        image_id=str(attributes["Id"]),
        standin=labels.get(standin.STANDIN_LABEL) == base.name,
        suite=base.suite,
        created=created,
    )


def pull(base: BaseImage) -> str | None:
    """Pull the image, bounded in silence and in time; None when it is here now, else why not in a few words."""
    repository, _, tag = base.name.rpartition(":")
    deadline = time.monotonic() + _PULL_SECONDS
    try:
        with contextlib.closing(_engine(_SILENCE_SECONDS)) as api:
            for event in api.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in event:
                    return short_refusal(str(event["error"]))
                if time.monotonic() > deadline:
                    return f"not here after {_PULL_SECONDS:.0f} s"
    except APIError as error:
        return short_refusal(str(error.explanation or error))
    except (DockerException, requests.RequestException):
        return f"no answer within {_SILENCE_SECONDS} s"
    return None


def short_refusal(text: str) -> str:
    """The end of a registry's error, which tells the cause; without addresses."""
    last = text.strip().rstrip(".").split(": ")[-1]
    return last[:80] or "no reason given"


def _engine(timeout: int) -> docker.APIClient:
    return docker.from_env(timeout=timeout).api
