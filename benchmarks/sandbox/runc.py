"""The floor below the engine: `runc run` on an overlay mount of an image's layers. Needs root and overlay2."""

from __future__ import annotations

import copy
import ctypes
import glob
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.sandbox.timing import Clock
from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.ports import Run

Spec = dict[str, Any]
_BUNDLES = ("/run/docker/containerd/daemon", "/run/containerd")
_SHM = {
    "destination": "/dev/shm",
    "type": "tmpfs",
    "source": "shm",
    "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
}
_libc = ctypes.CDLL(None, use_errno=True)


class NoFloor(Exception):
    """Why runc cannot be measured here."""


class Runc:
    """Containers of one image without an engine, on the file system that holds the engine's data."""

    def __init__(self, api: Any, image: str, argv: list[str]) -> None:
        if os.geteuid() != 0 or shutil.which("runc") is None:
            raise NoFloor("needs root and runc")
        driver = api.inspect_image(image)["GraphDriver"]
        if driver["Name"] != "overlay2":
            raise NoFloor(f"needs the storage driver overlay2, not {driver['Name']}")
        data = driver["Data"]
        self._lower = ":".join(filter(None, (data["UpperDir"], data.get("LowerDir", ""))))
        self._scratch = Path(tempfile.mkdtemp(prefix="facet-bench-", dir=Path(api.info()["DockerRootDir"]).parent))
        self._argv, self._count = argv, 0

    def close(self) -> None:
        shutil.rmtree(self._scratch)

    def default_spec(self) -> Spec:
        """What `runc spec` writes, with our program."""
        subprocess.run(["runc", "spec"], cwd=self._scratch, check=True)
        spec: Spec = json.loads((self._scratch / "config.json").read_text())
        spec["process"] |= {"args": self._argv, "terminal": False}
        spec["root"]["readonly"] = False
        return spec

    def docker_spec(self, sandbox: DockerSandbox, api: Any, image: str) -> Spec:
        """The engine's own specification of a container of ``sandbox``, with our program."""
        nap = Run(image=image, argv=("sleep", "30"), subject="bench")
        thread = threading.Thread(target=lambda: sandbox.run(nap))
        thread.start()
        try:
            ident = _napping(api, sandbox.run_id)
            spec = _bundle(ident)
            api.kill(ident)
        finally:
            thread.join()
        args = spec["process"]["args"]
        spec["process"]["args"] = [*args[: args.index("sleep")], *self._argv]
        spec["mounts"] = [mount for mount in map(_mount, spec["mounts"]) if mount]
        spec["root"]["path"] = "rootfs"
        spec.pop("hooks", None)
        return spec

    def round_trip(self, clock: Clock, spec: Spec, files: Mapping[str, bytes], result: str) -> bytes:
        """One container: mounted, filled, run, read, removed."""
        self._count += 1
        ident = f"facet-bench-{os.getpid()}-{self._count}"
        bundle = self._scratch / ident
        root = bundle / "rootfs"
        with clock.phase("mount"):
            for name in ("upper", "work", "rootfs"):
                (bundle / name).mkdir(parents=True)
            _mounted(root, f"lowerdir={self._lower},upperdir={bundle}/upper,workdir={bundle}/work")
        try:
            with clock.phase("files"):
                for name, data in files.items():
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_bytes(data)
                (bundle / "config.json").write_text(json.dumps(_named(spec, ident)))
            with clock.phase("run"):
                subprocess.run(
                    ["runc", "run", "--bundle", str(bundle), ident],
                    check=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            with clock.phase("read"):
                return (root / result.lstrip("/")).read_bytes()
        finally:
            with clock.phase("remove"):
                _checked(_libc.umount2(str(root).encode(), 0))
                shutil.rmtree(bundle)


def _napping(api: Any, run_id: str) -> str:
    """The id of the sandbox's container that runs ``sleep 30``, once it runs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for found in api.containers(filters={"label": f"{RUN}={run_id}"}):
            if "sleep 30" in found["Command"]:
                return str(found["Id"])
        time.sleep(0.05)
    raise NoFloor("the hardened container was not seen")


def _bundle(ident: str) -> Spec:
    for root in _BUNDLES:
        for path in glob.glob(f"{root}/io.containerd.runtime.v2.task/*/{ident}/config.json"):
            spec: Spec = json.loads(Path(path).read_text())
            return spec
    raise NoFloor("the engine's config.json of a container was not found")


def _mount(mount: dict[str, Any]) -> dict[str, Any] | None:
    """Without what belonged to the container that has ended; its /dev/shm becomes one of runc's own."""
    if mount["destination"] == "/dev/shm":
        return _SHM
    return mount if mount["type"] != "bind" or Path(mount["source"]).exists() else None


def _named(spec: Spec, ident: str) -> Spec:
    named = copy.deepcopy(spec)
    path = named["linux"].get("cgroupsPath", "")
    named["linux"]["cgroupsPath"] = f"{path.rpartition('/')[0]}/{ident}"
    return named


def _mounted(target: Path, options: str) -> None:
    _checked(_libc.mount(b"overlay", str(target).encode(), b"overlay", 0, options.encode()))


def _checked(code: int) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
