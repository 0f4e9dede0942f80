"""R15: what repair gives, and what an accepted task takes. None of it is in the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Reason, StageResult, Verdict
from facet_dagster.reports.page import draw
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Part, Section, Table, cell, percent, table


def section(home: Home) -> Section:
    """Yield by round and component, and tokens, dollars and seconds by stage and accepted task."""
    results = home.memo["task"]
    parts: list[Part] = []
    if results:
        parts = [*_picture(results), _by_round(home), *_by_component(home), _spent(home), _trouble(home)]
    return Section(
        "repairs",
        "What repair gives, and what a task takes",
        "not in the paper; section 3.4 and Table 8 say how it repairs",
        "replies out of the cache or a tape count with their tokens and cost nothing; seconds are those of stages;"
        f" {home.made}",
        "",
        tuple(parts),
        "" if results else "No task was repaired yet: `facet run` makes them.",
    )


def _rounds(results: Mapping[str, StageResult]) -> tuple[Counter[int], Counter[int]]:
    """Tasks by the repair rounds that they took: those that became valid, and those that did not."""
    good, bad = Counter[int](), Counter[int]()
    for result in results.values():
        if result.verdict is not Verdict.NOT_REACHED:
            where = good if result.verdict is Verdict.ACCEPTED else bad
            where[int(result.numbers.get("repairs", 0))] += 1
    return good, bad


def _picture(results: Mapping[str, StageResult]) -> list[Part]:
    good, bad = _rounds(results)
    names = [str(n) for n in range(max([*good, *bad], default=0) + 1)]
    groups = {
        "valid after": [float(good[int(name)]) for name in names],
        "given up after": [float(bad[int(name)]) for name in names],
    }
    alt = "; ".join(f"after {n} rounds {good[int(n)]} valid, {bad[int(n)]} given up" for n in names)
    return [draw.columns("Tasks by repair rounds", alt, names, groups, unit="tasks", note="repair rounds")]


def _by_round(home: Home) -> Table:
    good, bad = _rounds(home.memo["task"])
    built, lost = _rounds(home.memo["environment"])
    most = max([*good, *bad, *built, *lost], default=0)
    tried = good.total() + bad.total()
    rows, valid = [], 0
    for n in range(most + 1):
        valid += good[n]
        rows.append((n, built[n], lost[n], good[n], bad[n], percent(valid / tried if tried else None)))
    names = ("Rounds", "Environments built", "given up", "Tasks valid", "given up", "Valid so far")
    return table("Yield by repair round", names, rows)


def _by_component(home: Home) -> list[Table]:
    """Every repair round of the tasks: what was blamed, and whether the task was valid after it."""
    facts = home.ledger.values(AttemptFact, "key", "component", "ok", stage="task", kind="repair")
    facts = [(component, ok) for key, component, ok in facts if key in home.seeds]
    tried, good = Counter(c for c, _ in facts), Counter(c for c, ok in facts if ok)
    rows = [(name, count, good[name], percent(good[name] / count)) for name, count in tried.most_common()]
    names = ("Blamed", "Rounds", "Valid after", "Yield")
    return [table("Repair rounds by blamed component, over all settings", names, rows)] if rows else []


def _spent(home: Home) -> Table:
    """Tokens, dollars and seconds of each stage, and a certified task's share of them."""
    done = max(len(home.accepted("certificate")), 0)
    frame = home.calls.group_by("stage").agg(
        calls=pl.len(),
        tokens=pl.col("prompt_tokens").sum() + pl.col("completion_tokens").sum(),
        malformed=pl.col("malformed").sum(),
        cost=pl.col("cost").sum(),
        unpriced=pl.col("cost").is_null().sum(),
    )
    known = {row["stage"]: row for row in frame.iter_rows(named=True)}
    rows = []
    for name in [*home.memo, "other"]:
        of, seconds = known.get(name), sum(r.seconds for r in home.memo.get(name, {}).values())
        if of or seconds:
            rows.append(_stage(name, of or {}, seconds, done))
    total: dict[str, float] = {
        field: sum(of[field] for of in known.values()) for field in ("calls", "tokens", "malformed", "cost", "unpriced")
    }
    every = sum(result.seconds for results in home.memo.values() for result in results.values())
    rows.append(_stage("in all", total, every, done))
    names = ("Stage", "Calls", "Malformed", "Tokens", "USD", "Seconds", "Tokens a certified task", "USD", "Seconds")
    return table("What a certified task takes, lost ones included", names, rows)


def _stage(name: str, of: Mapping[str, float], seconds: float, done: int) -> tuple[object, ...]:
    cost = None if of.get("unpriced") else of.get("cost", 0.0)
    each = (
        (
            cell(round(of.get("tokens", 0) / done)),
            None if cost is None else f"{cost / done:.4f}",
            f"{seconds / done:,.1f}",
        )
        if done
        else ("", "", "")
    )
    price = "unknown" if cost is None else f"{cost:.4f}"
    return (
        name,
        int(of.get("calls", 0)),
        int(of.get("malformed", 0)),
        int(of.get("tokens", 0)),
        price,
        f"{seconds:,.1f}",
        *each,
    )


def _trouble(home: Home) -> Note:
    """Rounds that led nowhere, flaky tasks, rollouts that the machine spoilt."""
    good, bad = _rounds(home.memo["task"])
    rounds = sum(n * count for n, count in (good + bad).items())
    wasted = sum(n * count for n, count in bad.items())
    ends = [*home.memo["task"].values(), *home.memo["certificate"].values()]
    refused = [r.rejection for r in ends if r.rejection and r.verdict is Verdict.REJECTED]
    flaky = sum(Reason.TASK_FLAKY in (one.reason, one.evidence.get("last_reason")) for one in refused)
    unjudged = sum(row.reward is None for row in home.rows)
    share = percent(wasted / rounds if rounds else None) or "none"
    return Note(
        f"{wasted} of {rounds} repair rounds went into tasks that were given up ({share}). {flaky} tasks were refused"
        f" as flaky. {unjudged} of {len(home.rows)} attempts have no valid reward. What is left on an engine is what"
        " `facet reap` finds."
    )
