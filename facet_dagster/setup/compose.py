"""`docker compose` version 2: the one that is here, else Debian's, unpacked beside the platform."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from facet_dagster.setup import apt, apt_sources
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places, process_env
from facet_dagster.setup.process import answers, run_logged

# The oldest Debian suite with compose version 2; its program runs on older suites too.
_SUITE = "trixie"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PLUGIN = Path("usr/libexec/docker/cli-plugins/docker-compose")


def compose_version(config: Path | None = None) -> str | None:
    """The version of `docker compose` when it is 2 or newer, looked for in a configuration folder too; else None."""
    env = {"DOCKER_CONFIG": str(config)} if config is not None else {}
    return second_or_newer(answers(("docker", "compose", "version", "--short"), env=env) or "")


def second_or_newer(text: str) -> str | None:
    """The version in what compose prints, or None when it is missing or older than 2."""
    match = re.search(r"\bv?(\d+)\.(\d+)\S*", text)
    return match[0].removeprefix("v") if match and int(match[1]) >= 2 else None


def ensure_compose(places: Places) -> Path | None:
    """Make `docker compose` work; the DOCKER_CONFIG folder it needs, None for the user's. Raises SetupError."""
    if shutil.which("docker") is None:
        raise SetupError("There is no docker command on PATH; install Docker's command line client and run this again.")
    if compose_version() is not None:
        return None
    config = places.home / "docker-config"
    if compose_version(config) is None:
        _unpack(places, config)
        if compose_version(config) is None:
            raise SetupError(f"Debian's docker-compose does not run in {config}; install Docker Compose v2 yourself.")
    return config


def _unpack(places: Places, config: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None or not _KEYRING.exists():
        raise SetupError(
            "`docker compose` v2 is missing and this is no Debian system; install Docker Compose v2 yourself."
        )
    work = places.home / "compose-apt"
    shutil.rmtree(work, ignore_errors=True)
    options = _private_apt(work, apt_sources.read_host(process_env()))
    log = places.logs / "compose.log"
    what = "Fetching docker-compose with a private apt configuration"
    advice = "check that this machine reaches its Debian mirror, or install Docker Compose v2 yourself"
    run_logged(("apt-get", *options, "update"), log, what=what, advice=advice)
    run_logged(("apt-get", *options, "download", "docker-compose"), log, what=what, advice=advice, cwd=work)
    packages = sorted(work.glob("docker-compose_*.deb"))
    if not packages:
        raise SetupError(f"{what} gave no package (log: {log}); {advice}.")
    run_logged(("dpkg-deb", "-x", str(packages[-1]), str(work / "root")), log, what=what, advice=advice)
    plugins = config / "cli-plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    part = plugins / ".docker-compose.part"
    shutil.copy2(work / "root" / _PLUGIN, part)
    part.replace(plugins / "docker-compose")
    shutil.rmtree(work, ignore_errors=True)


def _private_apt(work: Path, mirror: apt_sources.Mirror) -> tuple[str, ...]:
    """Folders and options that leave the system's own package state alone."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {mirror.main} {_SUITE} main\n")
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::Languages": "none",
    }
    if apt.obstacle() is None:
        settings["APT::Sandbox::User"] = "root"
    return tuple(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))
