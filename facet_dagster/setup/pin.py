"""``python -m facet_dagster.setup.pin``: writes the digest of each image in docker-compose.yml, from its registry."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.images import short_refusal
from facet_dagster.setup.paths import REPO_ROOT, write_aside

_SECONDS = 30
# Images by a plain name and version; the platform's own has a variable for a name and comes from no registry.
_LINE = re.compile(r"((?:\bimage|\bBASE):\s+)([\w./:-]+:[\w.-]+)(@sha256:[0-9a-f]{64})?(?=[\s,}])")


def pinned(text: str, digest_of: Callable[[str], str]) -> tuple[str, dict[str, str]]:
    """``text`` with a digest behind each image, and the digests by image. Raises SetupError."""
    found = {image: digest_of(image) for image in dict.fromkeys(match[2] for match in _LINE.finditer(text))}
    return _LINE.sub(lambda match: f"{match[1]}{match[2]}@{found[match[2]]}", text), found


def digest_of(image: str) -> str:
    """What the registry of ``image`` says, asked by the engine; nothing is pulled. Raises SetupError."""
    advice = "run this again where the registry answers; until then the version alone says which image it is"
    try:
        with contextlib.closing(docker.from_env(timeout=_SECONDS)) as client:
            api: Any = client.api  # its calls are only partly typed
            digest = str(api.inspect_distribution(image)["Descriptor"]["digest"])
    except APIError as error:
        raise SetupError(
            f"No digest of {image} ({short_refusal(str(error.explanation or error))}): {advice}."
        ) from error
    except (DockerException, requests.RequestException, KeyError) as error:
        raise SetupError(f"No digest of {image} within {_SECONDS} s: {advice}.") from error
    return digest


def main(file: Path = REPO_ROOT / "docker-compose.yml") -> int:
    """Pin all or nothing; 1 and a sentence on standard error when a digest is missing."""
    try:
        text, found = pinned(file.read_text(encoding="utf-8"), digest_of)
    except SetupError as error:
        print(f"pin failed, {file.name} is as it was: {error}", file=sys.stderr)
        return 1
    write_aside(file, text)
    for image, digest in found.items():
        print(f"{image}@{digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
