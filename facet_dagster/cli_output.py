"""How every verb of the command speaks: text for people, or one JSON value."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of text.")]


def say(value: object, text: Callable[[], None], *, as_json: bool) -> None:
    """Print ``value`` as JSON, or call ``text``."""
    if as_json:
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        sys.stdout.write(json.dumps(plain, ensure_ascii=False, indent=1) + "\n")
    else:
        text()


def say_left_out(keys: Sequence[str]) -> None:
    """That so many certified tasks are in quarantine, on standard error."""
    if keys:
        what = "task is" if len(keys) == 1 else "tasks are"
        err.print(f"{len(keys)} certified {what} in quarantine and left out: `facet quarantine` lists them")
