"""Stage 2, selection: which accepted pairs become seeds (paper, section 3.1 and Figure 3b).

Over all batches: no pair twice, no skill in more than its share, no scenario that is there already in other words,
task families in balance, rare kinds of skills first. The same candidates, seeds and number give the same selection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from facet_dagster.domain.ids import digest, seed_key
from facet_dagster.domain.seed import JudgedCandidate, Seed
from facet_dagster.domain.skill import Skill
from facet_dagster.ports import Embedder, Vectors

VERSION = "1"
SHARE = 0.005  # of all seeds that one skill may be in; one seed is always allowed
# Cosine of two scenarios above which they are one. Accepted pairs of the bundled skills stay below 0.72.
SAME_SCENARIO = 0.85


@dataclass(frozen=True)
class History:
    """Seeds that exist: pair ids, how often each skill is used, how many of each task family, and (key, scenario)."""

    pairs: frozenset[str] = frozenset()
    uses: Mapping[str, int] = field(default_factory=dict)
    works: Mapping[str, int] = field(default_factory=dict)
    scenarios: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Chosen:
    """``repeated`` maps refused pairs to the seed key or pair id whose scenario theirs repeats."""

    items: tuple[JudgedCandidate, ...]
    repeated: Mapping[str, str]


Kind = tuple[str, ...]


def select(
    judged: Iterable[JudgedCandidate],
    skills: Mapping[str, Skill],
    *,
    count: int,
    history: History,
    embedder: Embedder,
    share: float = SHARE,
    same: float = SAME_SCENARIO,
    number: int = 0,
) -> Chosen:
    """At most ``count`` accepted pairs; fewer where the rules leave no more. The order of ``judged`` does not matter.

    ``number`` other than 0 draws another order among pairs that are equally verifiable. Raises EmbedderError.
    """
    pairs = _accepted(judged, skills, history, number)
    if count < 1 or not pairs:
        return Chosen((), {})
    most = max(1, int(share * (len(history.scenarios) + count)))
    picking = _Picking(pairs, skills, history, _Sameness(pairs, history, embedder, same), most)
    while len(picking.items) < count and picking.step():
        pass
    return Chosen(tuple(picking.items), picking.repeated)


def _accepted(
    judged: Iterable[JudgedCandidate], skills: Mapping[str, Skill], history: History, number: int
) -> list[JudgedCandidate]:
    """New accepted pairs of known skills, once each, the best first."""

    def merit(item: JudgedCandidate) -> tuple[object, ...]:
        verifiable = item.reply.verifiable if item.reply else 0
        lot = digest([number, item.candidate.id]) if number else ""
        return -verifiable, lot, -item.candidate.score, item.candidate.id, item.candidate.anchor

    best: dict[str, JudgedCandidate] = {}
    for item in sorted(judged, key=merit):
        known = all(ident in skills for ident in item.candidate.skills)
        if item.reply is not None and item.rejection is None and known and item.candidate.id not in history.pairs:
            best.setdefault(item.candidate.id, item)
    return list(best.values())


class _Sameness:
    """Which scenario a new one repeats."""

    def __init__(self, pairs: list[JudgedCandidate], history: History, embedder: Embedder, same: float) -> None:
        self._same = same
        texts = [text for _, text in history.scenarios]
        rows = embedder.encode([*texts, *(_scenario(item) for item in pairs)])
        self._names = [key for key, _ in history.scenarios]
        self._rows: Vectors = np.empty((len(texts) + len(pairs), rows.shape[1]), dtype=np.float32)
        self._rows[: len(texts)] = rows[: len(texts)]
        self._of = {item.candidate.id: row for item, row in zip(pairs, rows[len(texts) :], strict=True)}

    def repeats(self, item: JudgedCandidate) -> str | None:
        if not self._names:
            return None
        cosines = self._rows[: len(self._names)] @ self._of[item.candidate.id]
        return self._names[int(np.argmax(cosines))] if cosines.max() >= self._same else None

    def add(self, item: JudgedCandidate) -> None:
        self._rows[len(self._names)] = self._of[item.candidate.id]
        self._names.append(item.candidate.id)


class _Picking:
    """One pair after the other: from the task family with fewest seeds, of the kinds of skills used least."""

    def __init__(
        self,
        pairs: list[JudgedCandidate],
        skills: Mapping[str, Skill],
        history: History,
        sameness: _Sameness,
        most: int,
    ) -> None:
        self.items: list[JudgedCandidate] = []
        self.repeated: dict[str, str] = {}
        self._sameness, self._most = sameness, most
        self._uses, self._works, self._kinds = Counter(history.uses), Counter(history.works), Counter[str]()
        for ident, uses in history.uses.items():
            if ident in skills:
                self._kinds[_kind(skills[ident])] += uses
        self._open: dict[str, dict[Kind, list[JudgedCandidate]]] = {}
        for item in pairs:
            kind = tuple(sorted(_kind(skills[ident]) for ident in item.candidate.skills))
            self._open.setdefault(_work(item), {}).setdefault(kind, []).append(item)
        self._supply = {(work, kind): len(items) for work, kinds in self._open.items() for kind, items in kinds.items()}

    def step(self) -> bool:
        """Take one pair; False when none is left."""
        while self._open:
            work = min(self._open, key=lambda one: (self._works[one], sum(map(len, self._open[one].values())), one))
            found = self._best_of(work)
            if found is None:
                del self._open[work]
                continue
            kind, item = found
            self.items.append(item)
            self._sameness.add(item)
            self._uses.update(item.candidate.skills)
            self._works[work] += 1
            self._kinds.update(kind)
            return True
        return False

    def _best_of(self, work: str) -> tuple[Kind, JudgedCandidate] | None:
        kinds = self._open[work]
        while kinds:
            kind = min(kinds, key=lambda one: (sum(self._kinds[part] for part in one), self._supply[work, one], one))
            items = kinds[kind]
            while items:
                item = items.pop(0)
                if any(self._uses[ident] >= self._most for ident in item.candidate.skills):
                    continue  # what is used up stays used up
                same = self._sameness.repeats(item)
                if same is None:
                    return kind, item
                self.repeated[item.candidate.id] = same
            del kinds[kind]
        return None


def _kind(skill: Skill) -> str:
    return skill.classified.category if skill.classified else skill.family


def _work(item: JudgedCandidate) -> str:
    return item.reply.family if item.reply else ""


def _scenario(item: JudgedCandidate) -> str:
    return item.reply.scenario if item.reply else ""


def seeds_of(items: Iterable[JudgedCandidate], skills: Mapping[str, Skill], day: date) -> list[Seed]:
    """The seeds of chosen pairs, sorted by key."""
    return sorted((_seed(item, skills, day) for item in items), key=lambda seed: seed.key)


def _seed(item: JudgedCandidate, skills: Mapping[str, Skill], day: date) -> Seed:
    first, second = item.candidate.skills
    return Seed(
        key=seed_key(day, digest([first, second])),
        candidate=item.candidate.id,
        skills=(first, second),
        scenario=_scenario(item),
        families=(skills[first].family.value, skills[second].family.value),
    )
