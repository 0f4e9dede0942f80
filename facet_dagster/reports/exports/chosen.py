"""Which certified tasks are handed out, which stay behind and why, and which are held out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from facet_dagster.domain.dataset import Contamination, LeftOut, Side, Splits
from facet_dagster.domain.facts import SeedFact
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.benchmarks import benchmark_items, fingerprint
from facet_dagster.pipeline.policy import policy_of
from facet_dagster.ports import ArtifactStore, Embedder, Ledger
from facet_dagster.reports.exports.alike import Texts, near_duplicates, texts_of
from facet_dagster.reports.tasks import TaskLine, left_out, tasks
from facet_dagster.settings import Settings
from facet_dagster.stages.contamination import RUN, WordIndex, by_meaning, neighbours
from facet_dagster.stages.curate.licence import UNKNOWN
from facet_dagster.stages.split import components, held_out


@dataclass(frozen=True)
class Choice:
    """``lines`` are handed out; ``skills`` maps each of them to its two skills."""

    lines: tuple[TaskLine, ...]
    left: tuple[LeftOut, ...]
    contamination: Contamination
    skills: Mapping[str, tuple[str, str]]
    texts: Mapping[str, Texts]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(line.key for line in self.lines)


def choose(
    settings: Settings, ledger: Ledger, store: ArtifactStore, *, batch: str = "", embedder: Embedder | None = None
) -> Choice:
    """Everything certified, but no task in quarantine, of a forbidden licence, of a benchmark, or like another.

    Without ``embedder`` benchmarks are compared by words alone. Raises ConfigError when nothing is left.
    """
    lines = tasks(settings, ledger, store, batch)
    if not lines:
        raise ConfigError("There is no certified task to export: `facet funnel` counts the losses")
    apart = tuple(
        LeftOut(task=key, reason="quarantined", what="it is in quarantine: `facet quarantine` lists why", evidence={})
        for key in left_out(settings, ledger, batch)
    )
    texts = {line.key: texts_of(line.package, store) for line in lines}
    report, left = must_stay(lines, texts, settings, embedder)
    left |= {one.task: one for one in _copies({key: of for key, of in texts.items() if key not in left})}
    kept = tuple(line for line in lines if line.key not in left)
    if not kept:
        raise ConfigError(f"No task is left to export: {_counted(left.values())}. `facet why TASK` tells of one")
    seeds = {fact.key: (fact.first, fact.second) for fact in ledger.find(SeedFact, key=[line.key for line in kept])}
    return Choice(kept, (*(left[key] for key in sorted(left)), *apart), report, seeds, texts)


def must_stay(
    lines: Sequence[TaskLine], texts: Mapping[str, Texts], settings: Settings, embedder: Embedder | None
) -> tuple[Contamination, dict[str, LeftOut]]:
    """Tasks that must not be given to anybody: of a licence that is not allowed, or of a benchmark."""
    report, repeated = contaminated({key: of.instruction for key, of in texts.items()}, settings, embedder)
    return report, {one.task: one for one in (*repeated, *_forbidden(lines, settings))}


def _counted(left: Collection[LeftOut]) -> str:
    reasons = sorted({one.reason for one in left})
    return ", ".join(f"{sum(one.reason == name for one in left)} left out by {name}" for name in reasons)


def _forbidden(lines: Sequence[TaskLine], settings: Settings) -> Iterable[LeftOut]:
    """Tasks of skills whose licence is not among those that are allowed now."""
    policy = policy_of(settings)
    for line in lines:
        stated = [name or UNKNOWN for name in line.licences]
        bad = [n for n in stated if n not in policy.licences and not (n == UNKNOWN and policy.unknown_licence)]
        if bad:
            what = f"the licence {bad[0]} of a skill is not among the allowed ones"
            yield LeftOut(task=line.key, reason="licence", what=what, evidence={"licences": stated})


def contaminated(
    texts: Mapping[str, str], settings: Settings, embedder: Embedder | None
) -> tuple[Contamination, list[LeftOut]]:
    """What of ``texts`` (task -> instruction) repeats the benchmarks that the settings name. Raises ConfigError."""
    folder = settings.compared_with
    if folder is None:
        return Contamination(looked=False), []
    items = benchmark_items(folder)
    index = WordIndex(items)
    words = [match for key, text in texts.items() if (match := index.match(key, text))]
    nearest = neighbours(texts, items, embedder) if embedder else {}
    meant = by_meaning(nearest, settings.benchmark_cosine)
    named = {match.subject for match in (*words, *meant)}
    report = Contamination(
        looked=True,
        folder=folder.name,
        items=len(items),
        digest=fingerprint(items),
        run_words=RUN,
        cosine=settings.benchmark_cosine,
        embedder=embedder.name if embedder else "",
        tasks=len(texts),
        highest=max((cosine for key, (_, cosine) in nearest.items() if key not in named), default=0.0),
        matches=[match.model_dump(mode="json") for match in (*words, *meant)],
    )
    left = []
    for match in {match.subject: match for match in (*meant, *words)}.values():
        what = f"it repeats the benchmark task {match.benchmark} by its {match.how} ({match.score:g})"
        left.append(LeftOut(task=match.subject, reason="contaminated", what=what, evidence={"text": match.evidence}))
    return report, left


def _copies(texts: Mapping[str, Texts]) -> Iterable[LeftOut]:
    for key, alike in near_duplicates(texts).items():
        what = f"its {alike.part} repeats that of {alike.of}, which is kept"
        evidence = {"of": alike.of, "part": alike.part, "similarity": alike.similarity}
        yield LeftOut(task=key, reason="near duplicate", what=what, evidence=evidence)


def split(keys: Collection[str], choice: Choice, settings: Settings) -> tuple[Splits, dict[str, Side]]:
    """The sides of ``keys``: no skill stands on both."""
    skills = {key: choice.skills[key] for key in keys}
    out = held_out(skills, settings.held_out, settings.split_number)
    groups = components(skills)
    sides: dict[str, Side] = {key: "held_out" if key in out else "train" for key in sorted(keys)}
    found = Splits(
        share=settings.held_out,
        number=settings.split_number,
        components=len(groups),
        largest_component=max(map(len, groups), default=0),
        train=[key for key, side in sides.items() if side == "train"],
        held_out=[key for key, side in sides.items() if side == "held_out"],
        train_skills=len({skill for key in keys if key not in out for skill in skills[key]}),
        held_out_skills=len({skill for key in out for skill in skills[key]}),
    )
    return found, sides
