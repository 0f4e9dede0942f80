"""Build a local stand-in of a public Python image from Debian's packages, where no registry answers."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from facet_dagster.setup import apt, apt_sources
from facet_dagster.setup.paths import Places
from facet_dagster.setup.process import run_logged
from facet_dagster.setup.steps import Say

PACKAGES = ("ca-certificates", "python3", "python3-pip")
STANDIN_LABEL = "facet.standin"
BASE_LABEL = "facet.base"
# Change this when the recipe below changes, so that a cached tar of the older recipe is not used.
_RECIPE = "1"
_EXTRA_ROOTS = Path("/usr/local/share/ca-certificates")
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)
_MEMORY = Path("/dev/shm")  # noqa: S108 - mmdebstrap makes a private folder there
_SCRATCH_BYTES = 2 * 1024**3
_EXCLUDES = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    # pip in the public image installs into the system's Python.
    "path-exclude=/usr/lib/python3*/EXTERNALLY-MANAGED",
    "force-unsafe-io",
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a stand-in holds."""

    name: str
    suite: str
    sources: tuple[str, ...]
    roots: tuple[Path, ...] = ()

    @property
    def key(self) -> str:
        """A hash of the recipe, for the name of its cached tar."""
        digest = hashlib.sha256("\n".join((_RECIPE, self.suite, *PACKAGES, *_EXCLUDES, *self.sources)).encode())
        for root in self.roots:
            digest.update(hashlib.sha256(root.read_bytes()).digest())
        return digest.hexdigest()[:12]

    def tar(self, cache: Path) -> Path:
        """Where the root file system is cached."""
        return cache / "base-images" / f"{self.suite}-{self.key}.tar"

    def changes(self) -> list[str]:
        """What `docker import` writes into the image's configuration."""
        lines = ["ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "ENV LANG=C.UTF-8"]
        if self.roots:
            lines += [f"ENV {name}={_BUNDLE}" for name in _BUNDLE_VARIABLES]
        return [*lines, f"LABEL {STANDIN_LABEL}={self.name}", f"LABEL {BASE_LABEL}=1", 'CMD ["python3"]']


def recipe(name: str, suite: str, env: Mapping[str, str], roots: Path = _EXTRA_ROOTS) -> Recipe:
    """The recipe on this machine: its mirror and its extra root certificates. Raises SetupError."""
    mirror = apt_sources.read_host(env)
    found = sorted(path for path in roots.glob("*.crt") if path.is_file()) if roots.is_dir() else []
    return Recipe(name, suite, mirror.lines(suite), tuple(found))


def build_tar(wanted: Recipe, places: Places, say: Say) -> Path:
    """The cached tar of a recipe, made by mmdebstrap when it is not there. Raises SetupError."""
    tar = wanted.tar(places.cache)
    if tar.exists():
        return tar
    if shutil.which("mmdebstrap") is None:
        say("apt-get install mmdebstrap")
        apt.install(places, ("mmdebstrap",), purpose=f"A local stand-in of {wanted.name}")
    tar.parent.mkdir(parents=True, exist_ok=True)
    part = tar.with_suffix(f".part{os.getpid()}")
    say(f"mmdebstrap of Debian {wanted.suite} (about a minute, once on a machine)")
    try:
        run_logged(
            mmdebstrap_argv(wanted, part),
            places.logs / f"mmdebstrap-{wanted.suite}.log",
            what=f"Building a stand-in of {wanted.name} by mmdebstrap",
            advice="check that this machine reaches its Debian mirror, or make the image available to Docker",
            env={"TMPDIR": str(scratch_folder(_MEMORY, places.home))},
        )
        part.replace(tar)
    finally:
        part.unlink(missing_ok=True)
    return tar


def mmdebstrap_argv(wanted: Recipe, out: Path) -> list[str]:
    """The command that writes the root file system of a recipe to `out`."""
    argv = ["mmdebstrap", "--quiet", "--variant=apt", "--format=tar", "--skip=check/qemu"]
    argv += [f"--dpkgopt={option}" for option in _EXCLUDES]
    argv += ['--aptopt=Acquire::Languages "none"', f"--include={','.join(PACKAGES)}"]
    if wanted.roots:
        copies = " ".join(f"'{root}'" for root in wanted.roots)
        argv.append(f"--customize-hook=copy-in {copies} {_EXTRA_ROOTS}")
        argv.append('--customize-hook=chroot "$1" update-ca-certificates')
    links = " && ".join(
        f'ln -s /usr/bin/{target} "$1/usr/local/bin/{link}"'
        for link, target in (("python3", "python3"), ("python", "python3"), ("pip", "pip3"), ("pip3", "pip3"))
    )
    return [*argv, f"--customize-hook={links}", wanted.suite, str(out), *wanted.sources]


def scratch_folder(memory: Path, home: Path, mounts: Path = Path("/proc/mounts")) -> Path:
    """The memory file system when a root file system can be made there and fits, else a folder of home."""
    if _usable(memory, mounts):
        return memory
    folder = home / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _usable(memory: Path, mounts: Path) -> bool:
    options: Sequence[str] | None = None
    try:
        for line in mounts.read_text().splitlines():
            words = line.split()
            if len(words) >= 4 and words[1] == str(memory):
                options = words[3].split(",")
        free = shutil.disk_usage(memory).free
    except OSError:
        return False
    return options is not None and not {"noexec", "nodev", "ro"} & set(options) and free >= _SCRATCH_BYTES
