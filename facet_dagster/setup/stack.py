"""``python -m facet_dagster.setup.stack``: what docker-compose.yml needs of its host, in .env and deploy/secrets."""

from __future__ import annotations

import contextlib
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import docker
import requests
from docker.errors import DockerException

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import REPO_ROOT, write_aside

SOCKET = Path("/var/run/docker.sock")
PASSWORD = "facet_postgres_password"  # noqa: S105 - the name of a file
# A key that nobody gave is an empty file: docs/deployment.md says what goes into which.
EMPTY = ("facet_api_key", "facet_teacher_key")


def make_secrets(folder: Path) -> list[str]:
    """Make the files that are missing; gives their names. Raises OSError.

    Containers read them as other users, so they are for all; the folder above them is for its owner alone, and what
    mounts ``folder`` is past that.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.chmod(0o700)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    made = [name for name in (PASSWORD, *EMPTY) if not (folder / name).exists()]
    for name in made:
        write_aside(folder / name, secrets.token_urlsafe(32) if name == PASSWORD else "")
        (folder / name).chmod(0o444)
    return made


def with_values(text: str, values: Mapping[str, str]) -> str:
    """The text of a .env file with these values in it; other lines stay."""
    for name, value in values.items():
        line = f"{name}={value}"
        text, found = re.subn(rf"^{name}=.*$", line.replace("\\", r"\\"), text, flags=re.MULTILINE)
        text += "" if found else f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"
    return text


def of_this_host(folder: Path) -> dict[str, str]:
    """Values of the engine at hand. Raises SetupError."""
    try:
        with contextlib.closing(docker.from_env(timeout=30)) as client:
            root = str(client.info()["DockerRootDir"])
        group = SOCKET.stat().st_gid
    except (DockerException, requests.RequestException, OSError) as error:
        raise SetupError(f"The Docker Engine does not answer at {SOCKET} ({error}); start it and run this.") from error
    return {"STACK_SECRETS": str(folder), "STACK_GROUP": str(group), "STACK_ENGINE_ROOT": root}


def main(repo: Path = REPO_ROOT) -> int:
    """Prepare the checkout; 1 and a sentence on standard error when that fails."""
    folder = repo / "deploy" / "secrets" / "files"
    try:
        values = of_this_host(folder)
        made = make_secrets(folder)
        file = repo / ".env"
        write_aside(file, with_values(file.read_text(encoding="utf-8") if file.exists() else "", values))
    except (SetupError, OSError) as error:
        print(f"stack-env failed: {error}", file=sys.stderr)
        return 1
    print(f"{file}: {', '.join(values)}; {folder}: {', '.join(made) or 'nothing new'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
