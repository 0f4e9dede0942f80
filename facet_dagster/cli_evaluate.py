"""Tries models on a benchmark, and compares them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.domain.evaluation import Endpoint
from facet_dagster.domain.outcome import StageResult
from facet_dagster.errors import ConfigError, SandboxError
from facet_dagster.pipeline import evaluation as pipeline
from facet_dagster.reports.evaluation import EvaluationReport, evaluation_markdown, evaluation_report
from facet_dagster.settings import load_settings

What = Annotated[Path | None, typer.Argument(help="An evaluation.yaml; FACET_EVALUATION when left out.")]
Only = Annotated[bool, typer.Option("--report", help="Run nothing: show what is in the ledger.")]


def evaluate(file: What = None, report: Only = False, json_: Json = False) -> None:  # noqa: FBT002
    """Try endpoints on a folder of Harbor tasks, several times each, and compare them (the paper's Table 2)."""
    settings = load_settings()
    path = file or settings.evaluation
    if path is None:
        raise ConfigError("Name an evaluation.yaml, or set FACET_EVALUATION: docs/evaluation.md shows one")
    what = pipeline.load_evaluation(path)
    pipeline.benchmark_tasks(what.benchmark)
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    evaluators = partial(connect.open_evaluator, settings)
    failed = {} if report else pipeline.evaluate(what, evaluators, ledger=ledger, store=store, emit=_tell)
    found = evaluation_report(what, ledger, store)
    say(found, lambda: _print(found), as_json=json_)
    if failed:
        first, why = next(iter(failed.items()))
        raise SandboxError(f"{len(failed)} tasks have no result and wait for the next run, first {first}: {why}")


def _tell(endpoint: Endpoint, results: Sequence[StageResult]) -> None:
    for result in results:
        numbers = result.numbers
        text = f"{endpoint.name} {result.key}: solved {numbers['solved']:.0f} of {numbers['judged']:.0f}"
        err.print(f"{text}{' (known)' if result.cached else ''}", markup=False, soft_wrap=True)


def _print(found: EvaluationReport) -> None:
    out.print(f"{found.benchmark}: {found.attempts} attempts on each task")
    out.print(evaluation_markdown(found), markup=False, soft_wrap=True)
    for line in found.endpoints:
        if line.missing:
            out.print(f"{line.endpoint} has no result on: {', '.join(line.missing)}", markup=False, soft_wrap=True)
    out.print("The paper's Table 2 (Terminal-Bench 2.1, % solved):")
    out.print("  " + "; ".join(f"{name} {share:.2f}" for name, share in found.table2.items()), soft_wrap=True)
