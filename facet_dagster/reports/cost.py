"""What model calls took and cost: in all, and by call, stage, model, run, seed and certified task."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl

from facet_dagster.deployments import Price
from facet_dagster.domain.facts import ModelCallFact, SeedFact
from facet_dagster.domain.outcome import Value
from facet_dagster.ports import Ledger

STAGE_OF = {
    "probe": "probe",
    "hypotheses": "scenario_hypotheses",
    "judge": "seed_candidates",
    "analyse": "scenario",
    "reconstruct": "scenario",
    "references": "scenario",
    "align": "scenario",
    "brief": "scenario",
    "manifest": "first_build",
    "environment": "first_build",
    "repair_environment": "environment",
    "instruction": "task_draft",
    "solution": "task_draft",
    "verifier": "task_draft",
    "joint": "task_draft",
    "session": "task_draft",
    "session_instruction": "task_draft",
    "session_verifier": "task_draft",
    "repair_task": "task",
    "semantic_mutants": "certificate",
    "second_solution": "certificate",
    "triage_refusal": "certificate",
    "blind_verifier": "certificate",
}


class Spent(Value):
    """Calls (``paid`` of them went to a model), tokens, USD. ``unpriced`` paid calls have no known price."""

    name: str
    calls: int
    paid: int
    malformed: int
    retries: int
    waited: float
    prompt_tokens: int
    completion_tokens: int
    cost: float
    unpriced: int


class Cost(Value):
    """``per_task`` in USD: everything spent over the certified tasks, None while a price is unknown.

    ``seeds``: what each seed alone took.
    """

    total: Spent
    calls: tuple[Spent, ...]
    stages: tuple[Spent, ...]
    models: tuple[Spent, ...]
    runs: tuple[Spent, ...]
    seeds: tuple[Spent, ...]
    certified: int
    per_task: float | None


def cost(ledger: Ledger, certified: int, price: Price | None = None) -> Cost:
    """The report over all calls of the ledger. With ``price`` all tokens, also replayed ones, cost that much."""
    frame = _frame(ledger.find(ModelCallFact), price)
    seeds = {fact.key for fact in ledger.find(SeedFact)}
    total = _spent("total", frame)
    return Cost(
        total=total,
        calls=_by(frame, "call"),
        stages=_by(frame, "stage"),
        models=_by(frame, "model"),
        runs=_by(frame, "run_id"),
        seeds=_by(frame.filter(pl.col("subject").is_in(sorted(seeds))), "subject"),
        certified=certified,
        per_task=round(total.cost / certified, 6) if certified and not total.unpriced else None,
    )


_SCHEMA = {
    "call": pl.String,
    "stage": pl.String,
    "model": pl.String,
    "run_id": pl.String,
    "subject": pl.String,
    "paid": pl.Boolean,
    "malformed": pl.Boolean,
    "retries": pl.Int64,
    "waited": pl.Float64,
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "cost": pl.Float64,
}


def _frame(facts: Iterable[ModelCallFact], price: Price | None) -> pl.DataFrame:
    cost_of = _priced(price) if price else _paid
    rows = [
        (
            fact.call,
            STAGE_OF.get(fact.call, "other"),
            fact.model,
            fact.run_id,
            fact.subject,
            fact.origin == "live",
            fact.malformed,
            fact.retries,
            fact.waited,
            fact.prompt_tokens,
            fact.completion_tokens,
            cost_of(fact),
        )
        for fact in facts
    ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _paid(fact: ModelCallFact) -> float | None:
    return fact.cost


def _priced(price: Price) -> Callable[[ModelCallFact], float]:
    """A hit of the cache costs nothing whatever the price."""

    def cost_of(fact: ModelCallFact) -> float:
        if fact.origin == "cache":
            return 0.0
        return (fact.prompt_tokens * price.input + fact.completion_tokens * price.output) / 1e6

    return cost_of


def _by(frame: pl.DataFrame, column: str) -> tuple[Spent, ...]:
    """One line for each value of ``column``, the dearest first."""
    lines = [_spent(str(name), part) for (name,), part in frame.group_by(column, maintain_order=True)]
    return tuple(sorted(lines, key=lambda line: (-line.cost, -line.completion_tokens, line.name)))


def _spent(name: str, frame: pl.DataFrame) -> Spent:
    row = frame.select(
        calls=pl.len(),
        paid=pl.col("paid").sum(),
        malformed=pl.col("malformed").sum(),
        retries=pl.col("retries").sum(),
        waited=pl.col("waited").sum().round(3),
        prompt_tokens=pl.col("prompt_tokens").sum(),
        completion_tokens=pl.col("completion_tokens").sum(),
        cost=pl.col("cost").sum().round(6),
        unpriced=(pl.col("paid") & pl.col("cost").is_null()).sum(),
    ).row(0, named=True)
    return Spent(name=name, **row)
