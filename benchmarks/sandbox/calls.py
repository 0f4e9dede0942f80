"""What is asked of the engine: every call of docker-py in this process, by kind, with its seconds."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from docker import APIClient

from benchmarks.sandbox.timing import Clock

_VERSION = re.compile(r"^/v[\d.]+")
_NAME = re.compile(r"^/(containers|images|exec)/(.+?)(/(?:json|start|wait|logs|archive|kill|attach|resize))?$")


def kind(method: str, url: str) -> str:
    """``POST /containers/*/start`` and the like: names and ids left out."""
    path = _VERSION.sub("", urlsplit(url).path)
    found = _NAME.match(path)
    if found and found[2] not in ("create", "json"):
        path = f"/{found[1]}/*{found[3] or ''}"
    return f"{method} {path}"


@contextmanager
def counted(clock: Clock | None = None) -> Iterator[Counter[str]]:
    """Counts the calls of the block; their seconds, up to the answer's head, become phases of ``clock``."""
    counts: Counter[str] = Counter()
    real = APIClient.request

    def request(self: APIClient, method: str, url: str, *args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return real(self, method, url, *args, **options)
        finally:
            name = kind(method.upper(), url)
            counts[name] += 1
            if clock is not None:
                clock.add(name, time.perf_counter() - began)

    with patch.object(APIClient, "request", request):
        yield counts
