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

from facet_dagster.adapters.docker_build_guard import BuildGuard
from facet_dagster.adapters.docker_buildkit_log import BuildLog
from facet_dagster.adapters.docker_engine import CALL_SECONDS, CONFLICT, NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_watchdog import Watchdog
from facet_dagster.domain.trial import Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildFailed

BuildNetwork = Literal["default", "none", "host"]
BuildStop = Literal["timeout", "memory", "processes", "disk", "engine disk", "stop"]
_BUILDKIT, _CLASSIC = "2", "1"
_CLEANING_TRIES, _CLEANING_PAUSE = 40, 0.25
_WATCH_INTERVAL = 0.1
_CHUNK = 64 * 1024
_MIB = 1024 * 1024
_KILLED = 128 + 9
# A line that was cut in the middle is a ValueError.
_BROKEN_OFF = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)


@dataclass(frozen=True)
class BuildOrder:
    """What to build: ``tar`` in GNU format with ``dockerfile`` in it, the image's ``tag`` and labels.

    ``limits.seconds`` are for the whole build; memory, processes, disk and CPUs for each step. ``fresh``: no caches.
    """

    tag: str
    tar: bytes
    dockerfile: str
    labels: Mapping[str, str]
    network: BuildNetwork
    limits: Limits
    fresh: bool = False


class Builder:
    """Builds on one engine and remembers whether it knows BuildKit."""

    def __init__(self, engine: Engine, *, classic: bool = False) -> None:
        self._engine = engine
        self._version = _CLASSIC if classic else _BUILDKIT

    @property
    def name(self) -> str:
        """The builder in use; known after the first build."""
        return "BuildKit" if self._version == _BUILDKIT else "classic builder"

    def build(self, order: BuildOrder) -> int | BuildFailed:
        """How many instructions ran for ``order.tag``. Raises SandboxError on engine trouble."""
        began = time.monotonic()
        log = BuildLog()
        guard = BuildGuard(order.dockerfile, order.limits, self._engine.data_root)
        try:
            response = self._post(order)
        except APIError as error:
            return _refused(error, time.monotonic() - began)
        try:
            with contextlib.closing(response):
                stopped = self._follow(response, log, guard, order.limits.seconds)
        except SandboxError:
            guard.wait_until_gone()
            self._clean(log, failed=True)
            raise
        if stopped:
            guard.wait_until_gone()
        self._clean(log, failed=bool(stopped or log.error))
        if stopped != "timeout":
            self._engine.check_stopping()
        # A step that fails of a full disk may end before the watchdog looks.
        if stopped == "engine disk" or (log.error and not stopped and self._engine.disk_is_full):
            raise SandboxError("A build used up the free disk space of the Docker Engine and was stopped: free some")
        if log.exit_code == _KILLED and guard.was_out_of_memory():
            stopped = "memory"
        if not stopped and not log.error:
            return log.executed
        if not stopped and log.engine_trouble:
            raise SandboxError(f"The Docker Engine failed during a build: {log.error}", transient=True)
        return _failed(log, stopped, order.limits, time.monotonic() - began)

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
                params=_parameters(order, self._version, api._proxy_configs.get_environment()),
                data=order.tar,
                headers={"Content-Type": "application/x-tar"},
                stream=True,
                timeout=(CALL_SECONDS, order.limits.seconds + CALL_SECONDS),
            )
        try:
            api._raise_for_status(response)
        except APIError:
            response.close()
            raise
        return response

    def _follow(
        self, response: requests.Response, log: BuildLog, guard: BuildGuard, seconds: float
    ) -> BuildStop | None:
        """Read to the end, or until a limit is passed the engine's disk is short or we are stopped;
        gives which."""

        def check(elapsed: float) -> BuildStop | None:
            if elapsed >= seconds:
                return "timeout"
            if self._engine.stopping.is_set():
                return "stop"
            return guard.check(log.container) or ("engine disk" if self._engine.disk_is_full else None)

        with Watchdog[BuildStop](seconds, check, lambda: _hang_up(response), interval=_WATCH_INTERVAL) as dog:
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

    def _clean(self, log: BuildLog, *, failed: bool) -> None:
        """Remove the layers that the classic builder left as images, with their untagged parents.

        Those are the last one of a build that failed, which may run on for a moment on top of it, and those of
        stages from which files were only copied.
        """
        if failed and log.last_layer:
            for _ in range(_CLEANING_TRIES):
                if self._is_removed(log.last_layer):
                    break
                time.sleep(_CLEANING_PAUSE)
        for layer in reversed(log.stage_layers):
            self._is_removed(layer)

    def _is_removed(self, layer: str) -> bool:
        """False while something is built upon the layer; a tagged image stays and is as good."""
        with contextlib.suppress(SandboxError), engine_errors("remove the layers of a build"):
            try:
                if not self._engine.api.inspect_image(layer).get("RepoTags"):
                    self._engine.api.remove_image(layer)
            except APIError as error:
                return error.status_code != CONFLICT
        return True


def _parameters(order: BuildOrder, version: str, proxies: Mapping[str, str] | None) -> dict[str, str]:
    """``proxies`` are those of Docker's client configuration: predefined arguments, which reach no image."""
    return {
        **({"buildargs": json.dumps(proxies)} if proxies and order.network != "none" else {}),
        "t": order.tag,
        "nocache": "1" if order.fresh else "",
        "version": version,
        "buildid": uuid.uuid4().hex,
        "rm": "1",
        "forcerm": "1",
        "networkmode": order.network,
        "labels": json.dumps(dict(order.labels)),
        # Obeyed by the classic builder alone; BuildKit has no such limits in this API.
        "memory": str(order.limits.memory),
        "memswap": str(order.limits.memory),
        "cpuperiod": "100000",
        "cpuquota": str(int(order.limits.cpus * 100_000)),
    }


def _failed(log: BuildLog, stopped: BuildStop | None, limits: Limits, seconds: float) -> BuildFailed:
    if stopped is None:
        return BuildFailed(log.step, log.exit_code, log.tail, seconds)
    why = {
        "timeout": f"The build took more than {limits.seconds:g} s",
        "memory": f"A step of the build took more than {limits.memory // _MIB} MiB of memory",
        "processes": f"A step of the build had more than {limits.pids} processes and threads at once",
        "disk": f"A step of the build wrote more than {limits.disk // _MIB} MiB",
    }[stopped]
    where = log.running or log.step
    return BuildFailed(stopped, None, f"{log.tail}\n{why} and was stopped in: {where}".strip(), seconds)


def _messages(response: requests.Response) -> Iterator[Mapping[str, Any]]:
    for line in response.iter_lines(chunk_size=_CHUNK):
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
