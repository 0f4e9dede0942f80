"""The funnel in the form of the paper's Table 5: counts, retention, recovery and the reason of each loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from facet_dagster.domain.causes import cause_of
from facet_dagster.domain.facts import RawSkillFact, SeedFact
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.domain.outcome import StageResult, Value, Verdict
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages, skill_stages
from facet_dagster.pipeline.skills import curated, judged_candidates
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.settings import Settings


class Row(Value):
    """``count`` of ``of`` (the row compared with); ``losses`` maps reasons, ``causes`` the six causes, to counts."""

    name: str
    label: str
    count: int
    of: str = ""
    losses: dict[str, int] = {}
    causes: dict[str, int] = {}


class Funnel(Value):
    """Rows in order; ``share`` is a row's count over that of the row it is compared with."""

    batch: str
    rows: tuple[Row, ...]

    def count(self, name: str) -> int:
        return next(row.count for row in self.rows if row.name == name)

    def share(self, row: Row) -> float | None:
        whole = self.count(row.of) if row.of else 0
        return row.count / whole if whole else None


IDENTITIES = (
    ("environments", "first_build_ok", "environment_repaired"),
    ("validated", "first_pass_valid", "task_repaired"),
)


def funnel(
    settings: Settings, ledger: Ledger, store: ArtifactStore, batch: str = "", memo: Memo | None = None
) -> Funnel:
    """Counts over the current results; ``batch`` limits the seeds. ``memo``: results of theirs that are known already.

    Raises InvariantError when an identity of Table 5 does not hold.
    """
    report = Funnel(
        batch=batch,
        rows=(*_skill_rows(settings, ledger, store), *_seed_rows(settings, ledger, batch, memo)),
    )
    for whole, *parts in IDENTITIES:
        if report.count(whole) != sum(report.count(part) for part in parts):
            raise InvariantError(f"Funnel: {whole} is not the sum of {' and '.join(parts)}")
    return report


def accepted(settings: Settings, ledger: Ledger, batch: str, stage: str) -> int:
    """How many seeds of ``batch`` the stage accepts now."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact, batch=batch))
    results = current(next(s for s in seed_stages(settings) if s.name == stage), keys, ledger)
    return sum(result.verdict is Verdict.ACCEPTED for result in results.values())


def _skill_rows(settings: Settings, ledger: Ledger, store: ArtifactStore) -> list[Row]:
    items = curated(settings, ledger, store)
    dropped = Counter(str(item.rejection.reason) for item in items if item.rejection)
    judged = judged_candidates(settings, ledger, store)
    refused = Counter(str(item.rejection.reason) for item in judged if item.rejection)
    hypotheses = current(skill_stages(settings, ledger).scenario_hypotheses, bucket_keys(), ledger).values()
    return [
        Row(name="collected", label="Skills collected", count=len(ledger.values(RawSkillFact, "skill"))),
        Row(name="skills", label="Skills kept", count=_count(items, "skill"), of="collected", losses=dropped),
        Row(
            name="hypotheses",
            label="Scenario hypotheses",
            count=int(sum(result.numbers.get("hypotheses", 0) for result in hypotheses)),
        ),
        Row(name="candidates", label="Candidate pairs", count=len(judged)),
        Row(
            name="accepted_candidates",
            label="Pairs accepted by the judge",
            count=len(judged) - sum(refused.values()),
            of="candidates",
            losses=refused,
        ),
    ]


def _count(items: Iterable[object], attribute: str) -> int:
    return sum(getattr(item, attribute) is not None for item in items)


def _seed_rows(settings: Settings, ledger: Ledger, batch: str, memo: Memo | None) -> list[Row]:
    keys = sorted(fact.key for fact in ledger.find(SeedFact) if batch in ("", fact.batch))
    memo = Memo() if memo is None else memo
    results = {stage.name: current(stage, keys, ledger, memo) for stage in seed_stages(settings)}
    seeds = Row(name="seeds", label="Scenario-skill seeds", count=len(keys))
    return [seeds, *_environment_rows(results), *_task_rows(results, settings.certificate)]


Results = Mapping[str, Mapping[str, StageResult]]


def _environment_rows(results: Results) -> list[Row]:
    first, built = results["first_build"], results["environment"]
    good = _accepted(built)
    mended = [key for key in good if built[key].numbers.get("repairs", 0) > 0]
    lost = _losses(results["seed"], results["scenario"], first)
    return [
        _row("first_builds", "First-build logs", _reached(first), "seeds", lost),
        _row("first_build_ok", "Initial environment success", set(good) - set(mended), "first_builds"),
        _row("environment_repaired", "Environment repair recovery", mended, "first_builds"),
        _row("environments", "Successful environments", good, "first_builds", _losses(built)),
    ]


def _task_rows(results: Results, level: str) -> list[Row]:
    checked, final, certified = results["first_validation"], results["task"], results["certificate"]
    good = _accepted(final)
    first_pass = [key for key in good if checked[key].numbers.get("valid", 0) > 0]
    shown = _accepted(certified)
    mended = [key for key in shown if certified[key].numbers.get("certificate_repairs", 0) > 0]
    drafts = _losses(results["task_draft"])
    return [
        _row("entering_validation", "Entering validation", _reached(checked), "environments", drafts),
        _row("first_pass_valid", "First-pass valid", first_pass, "entering_validation"),
        _row("task_repaired", "Task repair recovery", set(good) - set(first_pass), "entering_validation"),
        _caused(_row("validated", "Final validated tasks", good, "entering_validation", _losses(final)), final),
        _row("certificate_repaired", "Certificate repair recovery", mended, "validated"),
        _caused(_row("certified", f"Certified ({level})", shown, "validated", _losses(certified)), certified),
    ]


def _caused(row: Row, results: Mapping[str, StageResult]) -> Row:
    """The row with the causes of what was lost in it."""
    rejected = [r.rejection for r in results.values() if r.verdict is Verdict.REJECTED and r.rejection]
    causes = Counter(str(cause) for cause in map(cause_of, rejected) if cause)
    return row.model_copy(update={"causes": dict(causes)})


def _row(name: str, label: str, keys: Collection[str], of: str, losses: dict[str, int] | None = None) -> Row:
    return Row(name=name, label=label, count=len(keys), of=of, losses=losses or {})


def _accepted(results: Mapping[str, StageResult]) -> list[str]:
    return [key for key, result in results.items() if result.verdict is Verdict.ACCEPTED]


def _reached(results: Mapping[str, StageResult]) -> list[str]:
    """Keys that have an output of this stage: a log exists."""
    return [key for key, result in results.items() if result.output is not None]


def _losses(*stages: Mapping[str, StageResult]) -> dict[str, int]:
    rejected = [r for results in stages for r in results.values() if r.verdict is Verdict.REJECTED]
    return dict(Counter(str(r.rejection.reason) for r in rejected if r.rejection))


def share_text(report: Funnel, row: Row) -> str:
    """``84.6 % of first_builds``, or nothing."""
    share = report.share(row)
    return "" if share is None else f"{100 * share:.1f} % of {row.of}"


def losses_text(row: Row) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(row.losses.items()))
