"""One build on the engine: BuildKit by the raw API, the classic builder where BuildKit is refused."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import requests
import urllib3
from docker.errors import APIError

from facet_dagster.adapters.docker_buildkit_log import BuildLog
from facet_dagster.adapters.docker_engine import CALL_SECONDS, CONFLICT, NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_watchdog import Watchdog
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildFailed

BuildNetwork = Literal["default", "none", "host"]
_BUILDKIT, _CLASSIC = "2", "1"
_CLEANING_TRIES, _CLEANING_PAUSE = 40, 0.25
# A line that was cut in the middle is a ValueError.
_BROKEN_OFF = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)


@dataclass(frozen=True)
class BuildOrder:
    """What to build: ``tar`` in GNU format, the image's ``tag`` and labels, the limits of its steps."""

    tag: str
    tar: bytes
    labels: Mapping[str, str]
    seconds: float
    network: BuildNetwork
    memory: int
    cpus: float


class Builder:
    """Builds on one engine and remembers whether it knows BuildKit."""

    def __init__(self, engine: Engine, *, classic: bool = False, reserve_gib: float = 1.0) -> None:
        self._engine = engine
        self._version = _CLASSIC if classic else _BUILDKIT
        self._reserve_gib = reserve_gib

    @property
    def name(self) -> str:
        """The builder in use; known after the first build."""
        return "BuildKit" if self._version == _BUILDKIT else "classic builder"

    def build(self, order: BuildOrder) -> BuildFailed | None:
        """None when ``order.tag`` was built. Raises SandboxError on engine trouble."""
        began = time.monotonic()
        log = BuildLog()
        try:
            response = self._post(order)
        except APIError as error:
            return _refused(error, time.monotonic() - began)
        try:
            with contextlib.closing(response):
                stopped = self._follow(response, log, order.seconds)
        except SandboxError:
            self._clean(log)
            raise
        seconds = time.monotonic() - began
        if stopped or log.error:
            self._clean(log)
        if stopped == "timeout":
            text = f"{log.tail}\nThe build took more than {order.seconds:g} s and was stopped in: {log.running}".strip()
            return BuildFailed("timeout", None, text, seconds)
        self._engine.check_stopping()
        if stopped:
            raise SandboxError("A build used up the free disk space of the Docker Engine and was stopped: free some")
        if not log.error:
            return None
        if log.engine_trouble:
            raise SandboxError(f"The Docker Engine failed during a build: {log.error}", transient=True)
        return BuildFailed(log.step, log.exit_code, log.tail, seconds)

    def _post(self, order: BuildOrder) -> requests.Response:
        try:
            return self._request(order)
        except APIError as error:
            if self._version == _CLASSIC or "buildkit" not in str(error.explanation).lower():
                raise
            self._version = _CLASSIC
            return self._request(order)

    def _request(self, order: BuildOrder) -> requests.Response:
        api = self._engine.api
        with engine_errors("start a build"):
            response: requests.Response = api._post(
                api._url("/build"),
                params=_parameters(order, self._version),
                data=order.tar,
                headers={"Content-Type": "application/x-tar"},
                stream=True,
                timeout=(CALL_SECONDS, order.seconds + CALL_SECONDS),
            )
        try:
            api._raise_for_status(response)
        except APIError:
            response.close()
            raise
        return response

    def _follow(self, response: requests.Response, log: BuildLog, seconds: float) -> str | None:
        """Read to the end, or until the time is over, the disk is short or we were stopped; gives which."""

        def check(elapsed: float) -> str | None:
            if elapsed >= seconds:
                return "timeout"
            if self._engine.stopping.is_set():
                return "stop"
            return "disk" if self._engine.disk_is_short(self._reserve_gib) else None

        with Watchdog(seconds, check, lambda: _hang_up(response)) as dog:
            try:
                for message in _messages(response):
                    log.feed(message)
            except _BROKEN_OFF as error:
                failure: Exception | None = error
            else:
                failure = None
        if failure is not None and dog.reason is None:
            raise SandboxError(f"The Docker Engine broke off a build: {failure}", transient=True) from failure
        return dog.reason

    def _clean(self, log: BuildLog) -> None:
        """Remove the layers that the classic builder left as an image, with its untagged parents.

        A build that was hung up on still runs for a moment, on top of that image.
        """
        for _ in range(_CLEANING_TRIES if log.last_layer else 0):
            with contextlib.suppress(SandboxError), engine_errors("remove the layers of a failed build"):
                try:
                    if not self._engine.api.inspect_image(log.last_layer).get("RepoTags"):
                        self._engine.api.remove_image(log.last_layer)
                except APIError as error:
                    if error.status_code == CONFLICT:
                        time.sleep(_CLEANING_PAUSE)
                        continue
                    raise
            return


def _parameters(order: BuildOrder, version: str) -> dict[str, str]:
    return {
        "t": order.tag,
        "version": version,
        "buildid": uuid.uuid4().hex,
        "rm": "1",
        "forcerm": "1",
        "networkmode": order.network,
        "labels": json.dumps(dict(order.labels)),
        # Obeyed by the classic builder alone; BuildKit has no such limits in this API.
        "memory": str(order.memory),
        "memswap": str(order.memory),
        "cpuperiod": "100000",
        "cpuquota": str(int(order.cpus * 100_000)),
    }


def _messages(response: requests.Response) -> Iterator[Mapping[str, Any]]:
    for line in response.iter_lines():
        if line:
            message = json.loads(line)
            if isinstance(message, dict):
                yield message


def _hang_up(response: requests.Response) -> bool:
    """Close our end while another thread reads from it: the engine cancels the build and its processes."""
    with contextlib.suppress(ValueError, RuntimeError, OSError):
        response.raw.shutdown()
    return True


def _refused(error: APIError, seconds: float) -> BuildFailed:
    """A Dockerfile that the classic builder does not even start; any other refusal is engine trouble."""
    if error.status_code == 400:
        return BuildFailed("Dockerfile", None, str(error.explanation), seconds)
    raise SandboxError(
        f"Docker could not start a build: {error.explanation}", transient=error.status_code != NOT_FOUND
    ) from error
