"""The engine by bare docker-py, in the best sequences known: BuildKit, bound folders, a joined network. No policy."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker import APIClient

from benchmarks.sandbox.timing import Clock
from facet_dagster.adapters.docker_labels import OWNER
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.archive import pack

Binds = Mapping[str, str]
REPOSITORY = "facet-bench"
LABELS = {OWNER: current_owner()}


class Bare:
    """A client, idle containers whose networks others join, and names of images; all is removed by ``close``."""

    def __init__(self, image: str) -> None:
        self.api: Any = APIClient(version="auto", timeout=120, num_pools=32, max_pool_size=32)
        self.image = image
        self._mine = threading.local()
        self.made: list[str] = []
        self._free: list[str] = []
        self.tags: set[str] = set()
        self._guard, self._kept = threading.Lock(), dict[str, str]()

    def once(self, name: str, make: Callable[[], str]) -> str:
        """What ``make`` gave the first time."""
        with self._guard:
            if name not in self._kept:
                self._kept[name] = make()
            return self._kept[name]

    @contextmanager
    def joined(self) -> Iterator[None]:
        """In the block the containers of this thread join the network of an idle one that no other thread has."""
        ident = self._free.pop() if self._free else self._idle()
        self._mine.network = f"container:{ident}"
        try:
            yield
        finally:
            self._free.append(ident)

    def _idle(self) -> str:
        host = {"NetworkMode": "none", "Init": True}
        ident = self.create(self.image, ["sleep", "infinity"], host_config=host)
        self.made.append(ident)
        self.api.start(ident)
        return ident

    def create(self, image: str, argv: Sequence[str], **more: Any) -> str:
        """The id of a new container, which `facet reap` would remove were this process killed."""
        made = self.api.create_container(image, entrypoint=list(argv), labels=LABELS, **more)
        return str(made["Id"])

    @property
    def network(self) -> str:
        return str(self._mine.network)

    def new_tag(self) -> str:
        """The name of an image that is removed by ``close`` at the latest."""
        tag = f"{REPOSITORY}:{uuid.uuid4().hex}"
        self.tags.add(tag)
        return tag

    def close(self) -> None:
        for ident in self.made:
            self.api.remove_container(ident, force=True)
        for image in self.api.images(filters={"reference": f"{REPOSITORY}:*"}):
            for tag in self.tags & set(image["RepoTags"] or ()):
                self.api.remove_image(tag)
        self.api.close()

    @contextmanager
    def container(self, clock: Clock, image: str, argv: Sequence[str], host: Mapping[str, Any], **more: Any) -> Any:
        with clock.phase("create"):
            ident = self.create(image, argv, host_config=dict(host), **more)
        try:
            yield ident
        finally:
            with clock.phase("remove"):
                self.api.remove_container(ident, force=True, v=True)

    def execute(self, clock: Clock, ident: str) -> int:
        """Start and wait; the exit code."""
        with clock.phase("start"):
            self.api.start(ident)
        with clock.phase("wait"):
            return int(self.api.wait(ident)["StatusCode"])

    def run(self, clock: Clock, image: str, argv: Sequence[str], binds: Binds, **more: Any) -> None:
        """One container with Docker's defaults, bound folders and the joined network."""
        with self.container(clock, image, argv, self.host(binds), **more) as ident:
            code = self.execute(clock, ident)
        assert code == 0, code

    def host(self, binds: Binds) -> dict[str, Any]:
        return {"NetworkMode": self.network, "Binds": [f"{source}:{target}" for source, target in binds.items()]}

    def get(self, clock: Clock, ident: str, path: str) -> bytes:
        with clock.phase("get"):
            return b"".join(self.api.get_archive(ident, path)[0])

    def build(self, clock: Clock, files: Mapping[str, bytes], *, version: str = "2") -> tuple[str, str]:
        """The tag of a new image and the build's log, by BuildKit (``2``) or the classic builder (``1``)."""
        tag = self.new_tag()
        parameters = {"t": tag, "version": version, "buildid": uuid.uuid4().hex, "rm": "1", "forcerm": "1"}
        with clock.phase("build"):
            answer = self.api._post(
                self.api._url("/build"),
                params=parameters,
                data=pack(files),
                headers={"Content-Type": "application/x-tar"},
                timeout=600,
            )
        assert answer.status_code == 200, answer.text
        assert '"errorDetail"' not in answer.text, answer.text[-2000:]
        return tag, answer.text

    def remove_image(self, clock: Clock, image: str) -> None:
        with clock.phase("remove image"):
            self.api.remove_image(image)


@contextmanager
def folder(clock: Clock, files: Mapping[str, bytes]) -> Iterator[Path]:
    """``files`` below a new folder, removed at the end; folders ``in`` and ``out`` are always there."""
    with clock.phase("files"):
        path = Path(tempfile.mkdtemp(prefix="facet-bench-"))
        for name in ("in", "out"):
            (path / name).mkdir()
        (path / "out").chmod(0o777)
        for name, data in files.items():
            target = path / "in" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        # mkdtemp closes the folder to other users; programs of a container may be one.
        os.chmod(path, 0o755)
    try:
        yield path
    finally:
        with clock.phase("files"):
            shutil.rmtree(path)


def unpacked(archive: bytes, target: Path) -> None:
    """Members with their owners, as root can."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="tar", numeric_owner=True)


def contents(archive: bytes) -> dict[str, bytes]:
    """Regular files of an archive, names relative to its only top folder."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {member.name.partition("/")[2]: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in found.items() if file is not None}
