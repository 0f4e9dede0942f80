"""The Docker Engine: does it answer, is it new enough, has it room and the base image, is it clean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import ImageNotFound

from facet_dagster.adapters.docker_engine import Engine, engine_errors
from facet_dagster.adapters.docker_labels import DEPLOYMENT, OWNER, SUBJECT
from facet_dagster.adapters.process_owner import is_dead
from facet_dagster.doctor.finding import Finding, Patient, broken, ok, warn
from facet_dagster.errors import SandboxError
from facet_dagster.setup.images import DEFAULT_BASE, SECOND_BASE
from facet_dagster.setup.standin import STANDIN_LABEL

OLDEST = (20, 10)  # the oldest that the contract of containers was run on
_SECONDS = 10
_SHOWN = 5
_GIB = 1024**3


@contextmanager
def _engine(patient: Patient) -> Iterator[Engine]:
    engine = Engine(1, patient.settings.disk_floor, seconds=_SECONDS)
    try:
        yield engine
    finally:
        engine.close()


def _unseen(name: str) -> Finding:
    return warn(name, "not looked at: no Docker Engine answers", "mend docker first")


def docker(patient: Patient) -> Finding:
    """An engine answers, and is not too old."""
    host = patient.environment.get("DOCKER_HOST", "")
    with _engine(patient) as engine:
        try:
            info = engine.info
        except SandboxError as error:
            mend = f"start the engine at DOCKER_HOST={host}, or unset it" if host else "start it, or run `make setup`"
            return broken("docker", str(error), mend)
    version = str(info.get("ServerVersion") or "unknown")
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return broken("docker", f"Docker Engine {version} is too old", f"install {oldest} or newer")
    return ok("docker", f"Docker Engine {version} answers{' at ' + host if host else ''}")


def disk(patient: Patient) -> Finding:
    """The disk of the engine's data, where it is one of this machine."""
    s = patient.settings
    with _engine(patient) as engine:
        try:
            root = engine.data_root
        except SandboxError:
            return _unseen("engine disk")
        if root is None:
            return ok("engine disk", "the engine keeps its data elsewhere: nothing is known of its disk")
        free = f"{shutil.disk_usage(root).free / _GIB:.1f} GiB free in {root}"
        if engine.disk_is_full:
            return broken("engine disk", f"full: {free}, or few inodes; below {s.disk_floor:g} GiB nothing runs", _FREE)
        if engine.disk_is_short(s.disk_watermark):
            return warn("engine disk", f"{free}: below {s.disk_watermark:g} GiB images go and no build starts", _FREE)
    return ok("engine disk", free)


_FREE = "free disk space there: `facet reap` removes the task images of ended processes; or lower FACET_DISK_WATERMARK"


def base_image(patient: Patient) -> Finding:
    """The image that task images are built from."""
    name = patient.settings.base_image
    with _engine(patient) as engine:
        try:
            with engine_errors(f"look for {name}"):
                found = engine.api.inspect_image(name)
        except SandboxError as error:
            if not isinstance(error.__cause__, ImageNotFound):
                return _unseen("base image")
            ours = name in (DEFAULT_BASE.name, SECOND_BASE.name)
            return broken(
                "base image",
                f"{name} is not on the engine",
                "run `make setup`" if ours else f"run `docker pull {name}`",
            )
    standin = (found["Config"].get("Labels") or {}).get(STANDIN_LABEL) == name
    return ok("base image", f"{name}{' (a stand-in)' if standin else ''}, {found['Id'][:19]}")


def leftovers(patient: Patient) -> Finding:
    """Nothing of this deployment is left of processes that have ended. Task images stay on purpose."""
    mine = {"label": f"{DEPLOYMENT}={patient.settings.deployment}"}
    with _engine(patient) as engine:
        try:
            with engine_errors("list what is left"):
                api = engine.api
                seen = {
                    "container": api.containers(all=True, filters=mine),
                    "network": api.networks(filters=mine),
                    "volume": api.volumes(filters=mine)["Volumes"] or [],
                }
        except SandboxError:
            return _unseen("leftovers")
    left = [
        f"{kind} {str(thing.get('Id') or thing.get('Name'))[:12]}{_of(thing['Labels'])}"
        for kind, things in seen.items()
        for thing in things
        if is_dead((thing.get("Labels") or {}).get(OWNER, ""))
    ]
    if not left:
        return ok("leftovers", "nothing is left of processes that have ended")
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return warn("leftovers", f"processes that have ended left {', '.join(left[:_SHOWN])}{more}", "run `facet reap`")


def _of(labels: dict[str, str]) -> str:
    subject = labels.get(SUBJECT, "")
    return f" ({subject})" if subject else ""
