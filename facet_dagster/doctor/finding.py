"""What a check says, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from facet_dagster.domain.outcome import Value
from facet_dagster.settings import Settings

State = Literal["ok", "warn", "broken"]


class Finding(Value):
    """One part: ``what`` is how it is, ``mend`` what to do about it (empty when it is ok).

    ``broken``: something that is needed does not work. ``warn``: it works, or nobody needs it yet.
    """

    name: str
    state: State
    what: str
    mend: str = ""


@dataclass(frozen=True)
class Patient:
    """The installation that is looked at. ``live``: models may be asked, which is paid."""

    settings: Settings
    environment: Mapping[str, str]
    live: bool = False


@dataclass(frozen=True)
class Check:
    """``look`` has at most ``seconds``; what takes longer counts as broken."""

    name: str
    look: Callable[[Patient], Finding]
    seconds: float = 30.0


def ok(name: str, what: str) -> Finding:
    return Finding(name=name, state="ok", what=what)


def warn(name: str, what: str, mend: str) -> Finding:
    return Finding(name=name, state="warn", what=what, mend=mend)


def broken(name: str, what: str, mend: str) -> Finding:
    return Finding(name=name, state="broken", what=what, mend=mend)
