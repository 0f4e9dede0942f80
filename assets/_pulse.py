"""A run of a stage while it goes on: how far it is, and whether it was called off."""

import time
from contextlib import suppress

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.storage.tags import BACKFILL_ID_TAG

from facet_dagster.domain.outcome import Verdict
from facet_dagster.funnel import StageReport

LOOK_SECONDS = 2.0
SAY_SECONDS = 30.0
_GONE = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)
_ENDED = (BulkActionStatus.CANCELING, BulkActionStatus.CANCELED)


class Pulse:
    """Asked about once a second: logs progress now and then, and answers whether the run shall end.

    A backfill that is cancelled goes on to launch the runs it had planned, for a minute and more: each of them
    looks at its backfill before its first partition, and ends.
    """

    def __init__(self, context: dg.AssetExecutionContext, total: int) -> None:
        self._context, self._total = context, total
        self._began = self._said = time.monotonic()
        self._looked = 0.0

    def __call__(self, report: StageReport) -> bool:
        now = time.monotonic()
        if now - self._said >= SAY_SECONDS:
            self._said = now
            self._context.log.info(progress(report, self._total, now - self._began))
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        with suppress(Exception):  # a database that is away says nothing: the next look is soon
            return called_off(self._context.instance, self._context.run)
        return False


def called_off(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether somebody cancelled the run, or the backfill that it is part of."""
    now = instance.get_run_by_id(run.run_id)
    if now is not None and now.status in _GONE:
        return True
    ident = run.tags.get(BACKFILL_ID_TAG)
    backfill = instance.get_backfill(ident) if ident else None
    return backfill is not None and backfill.status in _ENDED


def progress(report: StageReport, total: int, seconds: float) -> str:
    """One line: settled of all, rejected, failed, and how long the rest takes at this pace."""
    settled, failed = len(report.results), len(report.failed)
    rejected = sum(result.verdict is Verdict.REJECTED for result in report.results)
    done = settled + failed
    left = f", about {seconds / done * (total - done) / 60:.0f} min left" if 0 < done < total else ""
    return f"{report.stage}: {settled} of {total} settled, {rejected} rejected, {failed} failed{left}"


def end_cancelled(context: dg.AssetExecutionContext, report: StageReport, total: int) -> None:
    """End the run as cancelled. Raises DagsterExecutionInterruptedError."""
    rest = total - len(report.results) - len(report.failed)
    context.log.info(f"{report.stage}: cancelled with {rest} of {total} partitions not begun; what was settled is kept")
    run = context.instance.get_run_by_id(context.run.run_id)
    if run is not None and run.status not in _GONE:
        context.instance.report_run_canceling(run, "Its backfill was cancelled.")
    raise DagsterExecutionInterruptedError
