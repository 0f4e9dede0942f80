"""Attempts as plain rows, many at once, and what is known of the tasks that they were made on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from facet_dagster.domain.facts import SeedFact, StageFact
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.domain.rollout import Rollouts
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.skills import kept_skills
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.difficulty import Difficulty, Origin, TaskAbout, TaskAttempts, difficulty
from facet_dagster.reports.rollouts import judgements, near_miss
from facet_dagster.settings import Settings


class AttemptRow(NamedTuple):
    """One current attempt without its texts. ``missed`` counts checks that did not pass, ``spoilt`` those of them that
    ended in an error; ``day`` is not known here."""

    seed: str
    number: int
    reward: int | None
    checks: int
    missed: int
    spoilt: int
    near: bool
    turns: int
    commands: int
    tokens: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    seconds: float
    error: str
    reasons: tuple[str, ...]
    trajectory: str


def as_last_tried(settings: Settings, ledger: Ledger, store: ArtifactStore) -> Settings:
    """Settings under which attempts were last made, where no teacher is set: the demo's, or those of another shell."""
    if settings.teacher:
        return settings
    made = ledger.values(StageFact, "result", stage="rollouts", verdict=Verdict.ACCEPTED)
    if not made or not (sha := StageResult.model_validate(made[-1][0]).output):
        return settings
    last = Rollouts.model_validate_json(store.get(sha))
    terms = last.protocol
    return settings.model_copy(
        update={
            "agent": terms.agent,
            "teacher": terms.model,
            "teacher_temperature": terms.temperature,
            "max_turns": terms.max_turns,
            "context_tokens": terms.context_tokens,
            "attempts": len(last.attempts),
        }
    )


def attempt_rows(
    settings: Settings,
    tokenizer: str,
    ledger: Ledger,
    store: ArtifactStore,
    batch: str = "",
    memo: Memo | None = None,
) -> list[AttemptRow]:
    """Every current attempt, by seed and number. ``memo``: results of these seeds that are known already."""
    return [
        AttemptRow(
            seed=one.seed,
            number=one.attempt.number,
            reward=one.attempt.reward,
            checks=len(one.attempt.checks),
            missed=len(one.attempt.missed),
            spoilt=sum(check.status == "error" for check in one.attempt.checks),
            near=near_miss(one.attempt),
            turns=one.attempt.turns,
            commands=one.attempt.commands,
            tokens=one.judged.tokens,
            prompt_tokens=one.attempt.prompt_tokens,
            completion_tokens=one.attempt.completion_tokens,
            cost=one.attempt.cost,
            seconds=one.attempt.seconds,
            error=one.attempt.error,
            reasons=tuple(map(str, one.judged.reasons)),
            trajectory=one.attempt.trajectory,
        )
        for one in judgements(settings, tokenizer, ledger, store, batch, memo)
    ]


def by_task(rows: Iterable[AttemptRow]) -> list[TaskAttempts]:
    """Rows, which are ordered by seed, as tasks with their judged attempts."""
    return [_task(key, list(found)) for key, found in groupby(rows, key=lambda row: row.seed)]


def _task(key: str, rows: Sequence[AttemptRow]) -> TaskAttempts:
    judged = [row for row in rows if row.reward is not None]
    return TaskAttempts(
        key=key,
        rewards=tuple(row.reward or 0 for row in judged),
        missed=tuple(row.missed for row in judged),
        checks=max((row.checks for row in judged), default=0),
    )


def tasks_about(
    keys: Sequence[str], settings: Settings, ledger: Ledger, store: ArtifactStore, memo: Memo | None = None
) -> dict[str, TaskAbout]:
    """Family, tags of the skills, and origin of each seed that has a current scenario."""
    memo = Memo() if memo is None else memo
    graph = seed_stages(settings)
    current(graph.certificate, keys, ledger, memo)
    seeds = {key: (first, second) for key, first, second in ledger.values(SeedFact, "key", "first", "second")}
    tags = tags_of({skill for key in keys for skill in seeds[key]}, settings, ledger, store)
    return {
        key: TaskAbout(
            family=family_of(memo["scenario"][key], store),
            tags=tuple(sorted({tag for skill in seeds[key] for tag in tags.get(skill, ())})),
            origin=origin_of(key, memo),
        )
        for key in keys
        if key in memo["scenario"] and memo["scenario"][key].output
    }


def family_of(scenario: StageResult, store: ArtifactStore) -> str:
    """Of a task; read without the scenario's model, since there are many."""
    assert scenario.output is not None
    return str(json.loads(store.get(scenario.output))["references"]["family"])


def tags_of(
    skills: Iterable[str], settings: Settings, ledger: Ledger, store: ArtifactStore
) -> Mapping[str, tuple[str, ...]]:
    """Skill -> the tags that stage 1 gave it."""
    kept = kept_skills(settings, ledger, store)
    found = {ident: kept.get(ident) for ident in sorted(skills)}
    return {ident: skill.classified.tags for ident, skill in found.items() if skill and skill.classified}


def origin_of(key: str, memo: Memo) -> Origin:
    """By the stages that were settled; a repair on a certificate's finding is one, too."""
    valid = key in memo["first_validation"] and memo["first_validation"][key].numbers.get("valid", 0) > 0
    certified = memo["certificate"].get(key)
    mended = certified is not None and certified.numbers.get("certificate_repairs", 0) > 0
    return Origin.FIRST_PASS if valid and not mended else Origin.REPAIRED


def difficulty_report(
    settings: Settings, tokenizer: str, ledger: Ledger, store: ArtifactStore, batch: str = ""
) -> Difficulty:
    """Of the current attempts."""
    tasks = by_task(attempt_rows(settings, tokenizer, ledger, store, batch))
    return difficulty(tasks, tasks_about([task.key for task in tasks], settings, ledger, store))
