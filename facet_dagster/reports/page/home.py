"""What the sections read of an installation: each thing once, many rows by one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import polars as pl

from facet_dagster.domain.facts import ModelCallFact, SeedFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.rollouts import protocol_of
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.attempts import AttemptRow, attempt_rows, by_task, tasks_about
from facet_dagster.reports.commands import CommandReport, Reader, Tally
from facet_dagster.reports.cost import STAGE_OF
from facet_dagster.reports.difficulty import Difficulty, TaskAbout, TaskAttempts, difficulty
from facet_dagster.reports.foreign import Classifier, Foreign
from facet_dagster.reports.funnel import Funnel, funnel
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.task_family import MOST
from facet_dagster.settings import Settings
from facet_dagster.stages.rollout import turns
from facet_dagster.stages.task.render import markdown

CALLS = {
    "call": pl.String,
    "subject": pl.String,
    "origin": pl.String,
    "model": pl.String,
    "day": pl.String,
    "malformed": pl.Boolean,
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "seconds": pl.Float64,
    "cost": pl.Float64,
}


class Typings:
    """What agents typed: in the attempts that succeeded, and in all; ``days`` are those of the trajectories."""

    def __init__(self, rows: Sequence[AttemptRow], store: ArtifactStore) -> None:
        reader = Reader()
        solved, every = Tally(reader), Tally(reader)
        days, self.unread = set[str](), 0
        for row in rows:
            try:
                day, typed = turns(store.get(row.trajectory)) if row.trajectory else ("", [])
            except ValueError:
                self.unread += 1
                continue
            if not row.trajectory:
                continue
            days.add(day)
            every.add(typed)
            if row.reward == 1:
                solved.add(typed)
        self.solved: CommandReport = solved.report()
        self.every: CommandReport = every.report()
        self.days = sorted(filter(None, days))


class Home:
    """One installation, or one batch of it. ``tokenizer`` names what counts tokens, ``day`` (ISO) is when we look."""

    def __init__(
        self,
        settings: Settings,
        tokenizer: str,
        ledger: Ledger,
        store: ArtifactStore,
        *,
        batch: str = "",
        day: str = "",
        others: Sequence[Foreign] = (),
        classifier: Classifier | None = None,
    ) -> None:
        self.settings, self.tokenizer, self.ledger, self.store = settings, tokenizer, ledger, store
        self.batch, self.day, self.others = batch, day, tuple(others)
        self._classifier = classifier

    @cached_property
    def seeds(self) -> dict[str, tuple[str, str]]:
        """Key -> its two skills."""
        rows = self.ledger.values(SeedFact, "key", "first", "second", "batch")
        return {key: (first, second) for key, first, second, batch in sorted(rows) if self.batch in ("", batch)}

    @cached_property
    def memo(self) -> Memo:
        """Current results of every seed stage, by its name."""
        memo, keys = Memo(), list(self.seeds)
        for stage in seed_stages(self.settings):
            current(stage, keys, self.ledger, memo)
        return memo

    @cached_property
    def funnel(self) -> Funnel:
        return funnel(self.settings, self.ledger, self.store, self.batch, self.memo)

    def accepted(self, stage: str) -> dict[str, StageResult]:
        return {key: result for key, result in self.memo[stage].items() if result.verdict is Verdict.ACCEPTED}

    @cached_property
    def rows(self) -> list[AttemptRow]:
        """Current attempts of the teacher, by seed and number."""
        memo = Memo(self.memo)  # that of the page is of seed stages alone
        return attempt_rows(self.settings, self.tokenizer, self.ledger, self.store, self.batch, memo)

    @cached_property
    def tasks(self) -> list[TaskAttempts]:
        """Those that were tried."""
        return [task for task in by_task(self.rows) if task.rewards]

    @cached_property
    def about(self) -> dict[str, TaskAbout]:
        """Of every certified task."""
        keys = sorted({*self.accepted("certificate"), *(task.key for task in self.tasks)})
        return tasks_about(keys, self.settings, self.ledger, self.store, self.memo)

    @cached_property
    def difficulty(self) -> Difficulty:
        return difficulty(self.tasks, self.about)

    @cached_property
    def own_families(self) -> dict[str, int]:
        """Certified tasks by what the classifier of other people's tasks says of them; empty without one."""
        if self._classifier is None:
            return {}
        graph = seed_stages(self.settings)
        chosen = sorted(self.accepted("certificate"), key=digest)[:MOST]
        tasks = [task_in_force(key, graph, self.ledger, self.store, self.memo) for key in chosen]
        return self._classifier(markdown(task.draft.instruction) for task in tasks if task)

    @cached_property
    def typings(self) -> Typings:
        return Typings(self.rows, self.store)

    @cached_property
    def calls(self) -> pl.DataFrame:
        """Model calls for these seeds: CALLS, and the stage that each belongs to."""
        rows = self.ledger.values(ModelCallFact, *CALLS)
        frame = pl.DataFrame(rows, schema=CALLS, orient="row")
        stage = pl.col("call").replace_strict(STAGE_OF, default="other", return_dtype=pl.String)
        return frame.filter(pl.col("subject").is_in(list(self.seeds))).with_columns(stage=stage)

    @cached_property
    def made(self) -> str:
        """How the tasks were made, in words."""
        of, models = self.settings, sorted(set(self.calls["model"].to_list()))
        shown = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
        origins = set(self.calls["origin"].to_list())
        replay = " (replayed from a tape)" if origins == {"tape"} else ""
        parts = [
            f"written by {shown or 'no model yet'}{replay}",
            f"pipeline {of.pipeline}" + ("" if of.pipeline == "recording" else f", order {of.order}"),
            f"at most {of.environment_repairs} environment and {of.repair_rounds} task repairs",
            f"certificate {of.certificate}",
            span([day for day in self.calls["day"].to_list() if day]) or self.day,
        ]
        return "; ".join(parts)

    @cached_property
    def tried(self) -> str:
        """How the attempts were made, in words."""
        terms = protocol_of(self.settings)
        per = sorted({len(task.rewards) for task in self.tasks})
        parts = [
            f"{terms.agent} with {terms.model or 'no teacher'}",
            f"temperature {terms.temperature:g}",
            f"{'-'.join(map(str, per[:1] + per[1:][-1:])) or 'no'} judged attempts a task",
            f"at most {terms.max_turns} turns" if terms.max_turns else "no limit of turns but the task's time",
            f"context {terms.context_tokens:,} tokens",
            span(self.typings.days) or self.day,
        ]
        return "; ".join(parts)


def span(days: Sequence[str]) -> str:
    """From the first to the last of some days."""
    if not days:
        return ""
    first, last = min(days), max(days)
    return first if first == last else f"{first} to {last}"


def counted(values: Mapping[str, float]) -> dict[str, float]:
    """Shares in percent, in the order given."""
    total = sum(values.values())
    return {name: 100 * value / total for name, value in values.items()} if total else {}
