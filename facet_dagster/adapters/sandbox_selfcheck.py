"""Runs the sandbox contract on the engine of this installation and says which promise it breaks."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial

from facet_dagster.adapters.sandbox_contract import BUILD_CHECKS, RUN_CHECKS, SESSION_CHECKS
from facet_dagster.adapters.sandbox_contract_limits import (
    FURTHER_BUILD_CHECKS,
    LIMIT_CHECKS,
    PAIR_CHECKS,
)
from facet_dagster.domain.outcome import Value
from facet_dagster.ports import Sandbox

CHECKS = BUILD_CHECKS + FURTHER_BUILD_CHECKS + RUN_CHECKS + LIMIT_CHECKS + SESSION_CHECKS


class Promise(Value):
    """One property of the contract; ``broken`` is what does not hold, empty when it holds."""

    name: str
    seconds: float
    broken: str = ""

    @property
    def ok(self) -> bool:
        return not self.broken


def selfcheck(first: Sandbox, second: Sandbox, base: str) -> Iterator[Promise]:
    """Every check once, each told as soon as it is done. ``second`` is another sandbox on the same engine."""
    for check in CHECKS:
        yield _promise(check.__name__, partial(check, first, base))
    for pair in PAIR_CHECKS:
        yield _promise(pair.__name__, partial(pair, first, second, base))


def _promise(name: str, check: Callable[[], None]) -> Promise:
    began, broken = time.monotonic(), ""
    try:
        check()
    except AssertionError as error:
        broken = str(error) or str(traceback.extract_tb(error.__traceback__)[-1].line)
    except Exception as error:  # noqa: BLE001 - whatever it is, this property was not shown, and the others are
        broken = f"{type(error).__name__}: {error}"
    return Promise(name=name.replace("_", " "), seconds=round(time.monotonic() - began, 2), broken=broken)
