"""The connection to a Docker Engine, and the one place where its errors become ours."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env

from facet_dagster.errors import SandboxError

CALL_SECONDS = 60
RETRIES = 2
NOT_FOUND = 404
CONFLICT = 409
_CONFLICTS = (409, 429)
_GIB = 1024**3
Result = TypeVar("Result")


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn the vendor's errors into a SandboxError that says what was being done."""
    try:
        yield
    except APIError as error:
        status = error.status_code or 500
        text = f"Docker could not {doing}: {error.explanation or error}"
        raise SandboxError(text, transient=status >= 500 or status in _CONFLICTS) from error
    except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise SandboxError(f"The Docker Engine gave no answer to: {doing} ({error})", transient=True) from error


class Engine:
    """A low-level client, connected on first use by DOCKER_HOST or the default socket.

    With less than ``floor`` GiB free its disk counts as full: what runs then says nothing about a task. A call may be
    silent for ``seconds``.
    """

    def __init__(self, workers: int, floor: float = 0.5, *, seconds: int = CALL_SECONDS) -> None:
        self._workers, self._floor, self._seconds = workers, floor, seconds
        self._guard = threading.Lock()
        self._api: APIClient | None = None
        self._info: dict[str, Any] = {}
        self.stopping = threading.Event()

    @property
    def api(self) -> Any:
        """The client (its calls are only partly typed). Raises SandboxError when no engine answers."""
        with self._guard:
            if self._api is None:
                self._api = _connect(self._workers, self._seconds)
            return self._api

    @property
    def info(self) -> dict[str, Any]:
        """What the engine says about its machine, asked once."""
        if not self._info:
            with engine_errors("describe its machine"):
                self._info = dict(self.api.info())
        return self._info

    @property
    def cpus(self) -> int:
        return int(self.info.get("NCPU") or os.cpu_count() or 1)

    @property
    def renames_users(self) -> bool:
        """True when root in a container is somebody else on the machine (user namespaces, rootless)."""
        return any("userns" in text or "rootless" in text for text in self.info.get("SecurityOptions") or ())

    @property
    def disk_is_full(self) -> bool:
        return self.disk_is_short(self._floor)

    def disk_is_short(self, gib: float) -> bool:
        """True when the engine stores its data on this machine and less than ``gib`` GiB or 2 % of inodes are free."""
        root = self.data_root
        if root is None:
            return False
        stat = os.statvfs(root)
        few_inodes = stat.f_files > 0 and stat.f_favail < stat.f_files * 0.02
        return few_inodes or shutil.disk_usage(root).free < gib * _GIB

    @property
    def data_root(self) -> Path | None:
        """Where the engine keeps its data, None for an engine on another machine."""
        root = Path(self.info.get("DockerRootDir") or "/nonexistent")
        local = self.api.base_url.startswith("http+docker://local")
        return root if local and root.is_dir() else None

    def check_stopping(self) -> None:
        """Raises SandboxError once ``stopping`` is set."""
        if self.stopping.is_set():
            raise SandboxError("The sandbox was stopped: run again to go on", transient=True)

    def wait(self, seconds: float) -> None:
        """Until the engine answers, ``seconds`` at most: one that is being restarted comes back."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(SandboxError), engine_errors("answer"):
                self.api.ping()
                return
            time.sleep(min(0.5, seconds))

    def close(self) -> None:
        with self._guard:
            if self._api is not None:
                self._api.close()
            self._api = None


def retried(engine: Engine, patience: float, work: Callable[[], Result]) -> Result:
    """``work()``, tried again after trouble that may pass; waits up to ``patience`` seconds for the engine."""
    for attempt in range(RETRIES):
        try:
            return work()
        except SandboxError as error:
            engine.check_stopping()
            if not error.transient:
                raise
            time.sleep(0.2 * 2**attempt)
            engine.wait(patience)
    return work()


def _connect(workers: int, seconds: int) -> APIClient:
    settings = kwargs_from_env()
    # Of each worker two containers at once, each with a call that waits for it and one that watches it.
    pools = max(10, 4 * workers + 4)
    try:
        client = APIClient(version="auto", timeout=seconds, num_pools=pools, max_pool_size=pools, **settings)
    except (DockerException, requests.RequestException, OSError) as error:
        where = settings.get("base_url", "unix:///var/run/docker.sock")
        raise SandboxError(f"No Docker Engine answers at {where}: start it or run `make setup`") from error
    if client.base_url.startswith("http+docker://local"):
        # A socket has no proxy; looking for one at every call costs more than the call.
        client.trust_env = False
    return client
