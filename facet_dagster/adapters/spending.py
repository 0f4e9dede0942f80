"""What model calls cost so far, and where to stop: budgets per run, day and seed, counted in the ledger."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from facet_dagster.domain.facts import ModelCallFact
from facet_dagster.errors import BudgetExceeded
from facet_dagster.ports import Ledger

WARN_AT = 0.8
COUNTED = ("calls", "hits", "retries", "waited", "malformed", "prompt_tokens", "completion_tokens", "cost")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budgets:
    """USD; None is no limit. ``run`` counts what one process spends, ``day`` (UTC) and ``seed`` what all did."""

    run: float | None = None
    day: float | None = None
    seed: float | None = None

    @property
    def any(self) -> bool:
        return any(limit is not None for limit in (self.run, self.day, self.seed))


class Purse:
    """What one process spent (USD), over all its adapters: each Dagster run makes a new one. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._spent = 0.0

    def pay(self, cost: float | None) -> None:
        with self._guard:
            self._spent += cost or 0.0

    @property
    def spent(self) -> float:
        with self._guard:
            return self._spent


class Spending:
    """Refuses the next call when a budget is used up. Thread-safe.

    Calls in flight are not known beforehand, so a budget is overrun by at most those.
    """

    def __init__(self, budgets: Budgets, ledger: Ledger, purse: Purse) -> None:
        self._budgets, self._ledger, self._purse = budgets, ledger, purse
        self._guard = threading.Lock()
        self._warned: set[str] = set()

    def check(self, subject: str) -> None:
        """Raises BudgetExceeded, which is not transient: nothing new starts until the budget is raised.

        An empty ``subject`` is a call that nobody pays for alone, such as a probe.
        """
        self._compare("run", self._purse.spent, self._budgets.run)
        if self._budgets.day is not None:
            self._compare("day", self._ledger.total(ModelCallFact, "cost", day=today()), self._budgets.day)
        if self._budgets.seed is not None and subject:
            spent = self._ledger.total(ModelCallFact, "cost", subject=subject)
            self._compare("seed", spent, self._budgets.seed, f" for {subject}")

    def _compare(self, what: str, spent: float, limit: float | None, whose: str = "") -> None:
        if limit is None or spent < WARN_AT * limit:
            return
        said = f"{spent:.4f} of the {limit:.4f} USD that FACET_BUDGET_{what.upper()} allows{whose} are spent"
        if spent >= limit:
            raise BudgetExceeded(f"{said}: raise it and run again; what was paid is kept and nothing is paid twice.")
        with self._guard:
            first = what + whose not in self._warned
            self._warned.add(what + whose)
        if first:
            log.warning("%s.", said)


class Tally:
    """Counters of one adapter: calls, hits, retries, waited (seconds), malformed, tokens, cost (USD). Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._numbers: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))

    def add(self, fact: ModelCallFact) -> None:
        with self._guard:
            self._numbers.update(
                {
                    "calls": 1,
                    "hits": fact.origin != "live",
                    "retries": fact.retries,
                    "waited": fact.waited,
                    "malformed": fact.malformed,
                    "prompt_tokens": fact.prompt_tokens,
                    "completion_tokens": fact.completion_tokens,
                    "cost": fact.cost or 0.0,
                }
            )

    def read(self) -> dict[str, float]:
        with self._guard:
            return {name: round(float(number), 6) for name, number in self._numbers.items()}


def today() -> str:
    """The present day (ISO, UTC)."""
    return datetime.now(UTC).date().isoformat()
