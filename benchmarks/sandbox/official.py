"""The sequence of the paper's official release: the classic builder, and containers that idle.

The initial state is looked at by two containers, one to see that it starts, one to list its files; up to eight more
that a model asks for are left out. A trial is a container on ``sleep infinity`` with a network; files are copied into
it, programs run by exec, results are copied out, and it is removed by force. The release calls the docker command for
each step; the same by docker-py is here, too, because it is faster.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import uuid
from collections.abc import Mapping, Sequence

from docker.errors import APIError

from benchmarks.sandbox.bare import LABELS, Bare, contents, folder
from benchmarks.sandbox.timing import Clock
from facet_dagster.domain.archive import pack

_LAYER = re.compile(r"---(?:>|\\u003e) ([0-9a-f]{12})\b")  # in the stream of the API the sign is escaped


STARTS = ["bash", "-lc", "echo started"]
FILES = ["python3", "-c", "import os\nfor at in os.walk('/app'): print(at)"]


class Official:
    """By docker-py. ``litter`` are the layers that its builds leave: remove them with ``tidy``."""

    def __init__(self, bare: Bare) -> None:
        self._bare, self._api = bare, bare.api
        self.litter: set[str] = set()

    def build(self, clock: Clock, files: Mapping[str, bytes]) -> str:
        tag, log = self._bare.build(clock, files, version="1")
        self.litter |= set(_LAYER.findall(log))
        return tag

    def look(self, clock: Clock, image: str) -> None:
        """Does it start, and which files does it hold: a container for each question."""
        for argv in (STARTS, FILES):
            with clock.phase("look"):
                ident = self._bare.create(image, argv)
                try:
                    self._api.start(ident)
                    assert self._api.wait(ident)["StatusCode"] == 0
                    assert self._api.logs(ident)
                finally:
                    self._api.remove_container(ident, force=True, v=True)

    def trial(
        self, clock: Clock, image: str, steps: Sequence[tuple[Mapping[str, bytes], Sequence[str]]], result: str
    ) -> dict[str, bytes]:
        """Files (absolute path without the first slash) and a program for each step; the files below ``result``."""
        with clock.phase("run"):
            ident = self._bare.create(image, ["sleep", "infinity"])
            self._api.start(ident)
        try:
            for files, argv in steps:
                with clock.phase("cp"):
                    self._api.put_archive(ident, "/", pack(files))
                self._exec(clock, ident, argv)
            with clock.phase("cp"):
                return contents(b"".join(self._api.get_archive(ident, result)[0]))
        finally:
            with clock.phase("rm"):
                self._api.remove_container(ident, force=True, v=True)

    def remove_image(self, clock: Clock, image: str) -> None:
        with clock.phase("rmi"):
            self._api.remove_image(image, force=True)

    def tidy(self) -> None:
        """Remove the untagged layers that no image needs: the classic builder leaves those of earlier stages."""
        for layer in self.litter:
            with contextlib.suppress(APIError):
                if not self._api.inspect_image(layer)["RepoTags"]:
                    self._api.remove_image(layer)
        self.litter.clear()

    def _exec(self, clock: Clock, ident: str, argv: Sequence[str]) -> None:
        with clock.phase("exec"):
            task = self._api.exec_create(ident, list(argv))["Id"]
            self._api.exec_start(task)
            assert self._api.exec_inspect(task)["ExitCode"] == 0


class OfficialCommand(Official):
    """By the docker command, as the release does."""

    def build(self, clock: Clock, files: Mapping[str, bytes]) -> str:
        tag = self._bare.new_tag()
        with folder(clock, files) as path, clock.phase("build"):
            log = _docker("build", "-t", tag, str(path / "in"), DOCKER_BUILDKIT="0")
        self.litter |= set(_LAYER.findall(log.decode()))
        return tag

    def look(self, clock: Clock, image: str) -> None:
        for argv in (STARTS, FILES):
            with clock.phase("look"):
                assert _docker("run", "--rm", image, *argv)

    def trial(
        self, clock: Clock, image: str, steps: Sequence[tuple[Mapping[str, bytes], Sequence[str]]], result: str
    ) -> dict[str, bytes]:
        name = f"facet-bench-{uuid.uuid4().hex}"
        with clock.phase("run"):
            label = "".join(f"{key}={value}" for key, value in LABELS.items())
            _docker("run", "-d", "--name", name, "--label", label, "--network", "bridge", image, "sleep", "infinity")
        try:
            for files, argv in steps:
                self._step(clock, name, files, argv)
            with clock.phase("cp"):
                return contents(_docker("cp", f"{name}:{result}", "-"))
        finally:
            with clock.phase("rm"):
                _docker("rm", "-f", name)

    def remove_image(self, clock: Clock, image: str) -> None:
        with clock.phase("rmi"):
            _docker("rmi", "-f", image)

    def _step(self, clock: Clock, name: str, files: Mapping[str, bytes], argv: Sequence[str]) -> None:
        top = next(iter(files)).partition("/")[0]
        with clock.phase("exec"):
            _docker("exec", name, "mkdir", "-p", f"/{top}")
        with folder(clock, files) as path, clock.phase("cp"):
            _docker("cp", f"{path / 'in' / top}/.", f"{name}:/{top}")
        with clock.phase("exec"):
            _docker("exec", name, *argv)


def _docker(*arguments: str, **environment: str) -> bytes:
    done = subprocess.run(
        ["docker", *arguments],
        env={**os.environ, **environment},  # noqa: TID251 - the command's own settings
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout
