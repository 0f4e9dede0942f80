"""The one exception of set-up; standard library only."""

from __future__ import annotations


class SetupError(Exception):
    """The machine cannot be made ready: one sentence on what is wrong and what to do about it."""
