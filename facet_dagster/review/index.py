"""What the list shows: all seeds, kept for some seconds, filtered and cut into pages."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from facet_dagster.domain.facts import AuditFact, SeedFact
from facet_dagster.domain.outcome import Value
from facet_dagster.pipeline.quarantine import quarantined
from facet_dagster.ports import Ledger
from facet_dagster.reports.seeds import SeedLine, seeds
from facet_dagster.settings import Settings

KEEP_SECONDS = 10.0
PAGE = 100
FIELDS = ("verdict", "stage", "reason", "family", "batch", "people")


class Listed(Value):
    """A line with the skills of the seed, and what people said of it: quarantined, audited ok, defect."""

    line: SeedLine
    skills: tuple[str, str]
    people: tuple[str, ...] = ()


class Page(Value):
    """One page of what the filters let through. ``counts``: for each field how often each value is there in all."""

    lines: tuple[Listed, ...]
    found: int
    page: int
    pages: int
    counts: dict[str, dict[str, int]]


class Index:
    """All seeds as the ledger had them some seconds ago: an old list is shown at once and made anew beside it, at most
    a tenth of the time."""

    def __init__(self, load: Callable[[], list[Listed]]) -> None:
        self._load, self._guard, self._making = load, threading.Lock(), False
        self._lines, self._counts = list[Listed](), dict[str, dict[str, int]]()
        self._made, self._keep = 0.0, KEEP_SECONDS

    def page(self, wanted: Mapping[str, str]) -> Page:
        """Filters: the FIELDS (equal), ``skill`` and ``id`` (beginnings), ``from`` and ``to`` (days, yymmdd)."""
        lines, counts = self._current()
        found = [one for one in lines if _fits(one, wanted)]
        pages = max(1, -(-len(found) // PAGE))
        number = wanted.get("page", "1")
        page = min(max(int(number) if number.isdecimal() and len(number) < 9 else 1, 1), pages)
        shown = tuple(found[(page - 1) * PAGE : page * PAGE])
        return Page(lines=shown, found=len(found), page=page, pages=pages, counts=counts)

    def alike(self, reason: str, besides: str, most: int = 12) -> list[str]:
        """Keys of other seeds that ended for the same reason."""
        lines, _ = self._current()
        return [one.line.key for one in lines if one.line.reason == reason and one.line.key != besides][:most]

    def _current(self) -> tuple[list[Listed], dict[str, dict[str, int]]]:
        with self._guard:
            if not self._made:
                self._make()
            elif time.monotonic() - self._made > self._keep and not self._making:
                self._making = True
                threading.Thread(target=self._make_beside, daemon=True).start()
            return self._lines, self._counts

    def _make_beside(self) -> None:
        try:
            began = time.monotonic()
            lines = self._load()
            with self._guard:
                self._take(lines)
                self._keep = max(KEEP_SECONDS, 10 * (self._made - began))
        finally:
            self._making = False

    def warm(self) -> None:
        """Make the first list beside whoever serves, so that nobody waits for it."""
        threading.Thread(target=self._current, daemon=True).start()

    def _make(self) -> None:
        self._take(self._load())

    def _take(self, lines: list[Listed]) -> None:
        self._lines, self._made = lines, time.monotonic()
        self._counts = {
            field: dict(Counter(value for one in lines for value in values(one, field) if value).most_common())
            for field in FIELDS
        }


def load(settings: Settings, ledger: Ledger) -> list[Listed]:
    """Every seed, the latest day first."""
    skills = {fact.key: (fact.first, fact.second) for fact in ledger.find(SeedFact)}
    said = people(ledger)
    lines = reversed(seeds(settings, ledger))
    return [Listed(line=line, skills=skills[line.key], people=tuple(said.get(line.key, ()))) for line in lines]


def people(ledger: Ledger) -> dict[str, list[str]]:
    """Seed -> what people, or checks, said of it last."""
    found = {key: ["quarantined"] for key in quarantined(ledger)}
    for key, ok in dict(ledger.values(AuditFact, "key", "ok")).items():
        found.setdefault(key, []).append("audited ok" if ok else "defect")
    return found


def values(one: Listed, field: str) -> tuple[str, ...]:
    if field == "family":
        return tuple(dict.fromkeys(one.line.families))
    if field == "people":
        return one.people
    return (str(getattr(one.line, field)),)


def _fits(one: Listed, wanted: Mapping[str, str]) -> bool:
    if any(wanted.get(field) and wanted[field] not in values(one, field) for field in FIELDS):
        return False
    if not one.line.key.startswith(wanted.get("id", "")):
        return False
    if not any(skill.startswith(wanted.get("skill", "")) for skill in one.skills):
        return False
    day = one.line.key[:6]
    return (wanted.get("from") or day) <= day <= (wanted.get("to") or day)
