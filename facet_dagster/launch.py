"""Drives the asset graph stage by stage: one run per stage and range of partitions, in this process.

``python -m facet_dagster.launch --batch LABEL [--count N] [--until ASSET]``. Every run is an ordinary run
of the instance in DAGSTER_HOME, with the events that the web UI shows. A stage whose run failed for some
partitions does not stop the others; the exit code is 1 when anything failed.
"""

import argparse
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)
from rich.console import Console
from rich.markup import escape

from assets._dagster import OWNER_TAG
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.child import INTERRUPTED
from facet_dagster.connect import full_disk, open_counter, open_ledger, open_store, probe_llm
from facet_dagster.definitions import defs
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.domain.outcome import Verdict
from facet_dagster.errors import FacetError
from facet_dagster.funnel import current
from facet_dagster.pipeline.graph import SeedStages, SkillStages, seed_stages
from facet_dagster.pipeline.rollouts import RolloutStages, rollout_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings, load_settings
from sensors.dead_runs import release_dead_runs

SKILL_ASSETS = SkillStages._fields
WITHOUT_MODEL = ("skills", "skill_index")
SELECTION = "seed_selection"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
WATCH_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
console = Console(highlight=False)


class Ran(NamedTuple):
    """One stage as it went: partitions settled, how many of them were read back, and what failed.

    ``report`` is what an asset without partitions says as JSON under that name.
    """

    asset: str
    settled: int
    cached: int
    rejected: int
    error: str
    report: Any = None


def materialize(
    instance: dg.DagsterInstance, asset: str, keys: Sequence[str], config: dict[str, Any] | None = None
) -> Ran:
    """Run one asset over ``keys``, one run per contiguous range; no keys: an asset without partitions."""
    key = dg.AssetKey(asset)
    job = defs.get_repository_def().get_implicit_job_def_for_assets([key])
    assert job is not None
    settled = cached = rejected = 0
    errors, report = [], None
    for first, last in _ranges(instance, asset, keys) if keys else [("", "")]:
        tags = {OWNER_TAG: current_owner()}
        tags |= {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last} if first else {}
        result = job.execute_in_process(
            instance=instance,
            tags=tags,
            asset_selection=[key],
            run_config={**QUIET, **(config or {})},
            raise_on_error=False,
        )
        events = _materializations(instance, result.run_id)
        settled += len(events)
        report = next((e.metadata["report"].value for e in reversed(events) if "report" in e.metadata), report)
        cached += sum(_is(event, "cached", value=True) for event in events)
        rejected += sum(_is(event, "verdict", value=Verdict.REJECTED.value) for event in events)
        errors += [] if result.success else [_first_error(result)]
    if any(dg.DagsterExecutionInterruptedError.__name__ in error for error in errors):
        raise KeyboardInterrupt  # Dagster makes a failed run of it
    return Ran(asset, settled, cached, rejected, errors[0] if errors else "", report)


def _materializations(instance: dg.DagsterInstance, run_id: str) -> list[dg.AssetMaterialization]:
    """What the run logged for its partitions, from storage: such events are not in the result."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    found = [record.asset_materialization for record in records]
    return [event for event in found if event is not None]


def _is(event: dg.AssetMaterialization, name: str, *, value: object) -> bool:
    entry = event.metadata.get(name)
    return entry is not None and entry.value == value


def _first_error(result: dg.ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            if data.user_failure_data is not None and data.user_failure_data.description:
                return str(data.user_failure_data.description)
            if data.error is not None:
                cause = data.error.cause or data.error
                return cause.message.strip().splitlines()[0]
    return "the run failed before its step started; its log in the web UI says why"


def _ranges(instance: dg.DagsterInstance, asset: str, keys: Sequence[str]) -> list[tuple[str, str]]:
    """Contiguous stretches of ``keys`` in the order in which Dagster keeps them."""
    order = bucket_keys() if asset in SKILL_ASSETS else list(instance.get_dynamic_partitions("seed"))
    wanted, ranges = set(keys), list[tuple[str, str]]()
    previous = None
    for key in order:
        if key in wanted:
            ranges[-1:] = [(ranges[-1][0], key)] if previous in wanted and ranges else [*ranges[-1:], (key, key)]
        previous = key
    return ranges


def run_funnel(
    settings: Settings, ledger: Ledger, instance: dg.DagsterInstance, *, batch: str, count: int, until: str, tasks: int
) -> list[Ran]:
    """All stages in order up to ``until``. Seeds whose stage failed are left out of the later ones.

    Agents try the first ``tasks`` that are certified (0: all).
    """
    history: list[Ran] = []
    for asset in SKILL_ASSETS:
        history.append(reported(materialize, instance, asset, bucket_keys()))
        if history[-1].error or asset == until:
            return history
    config = {"ops": {SELECTION: {"config": {"batch": batch, "count": count}}}}
    history.append(reported(materialize, instance, SELECTION, [], config))
    if history[-1].error:
        return history
    keys = sorted(fact.key for fact in ledger.find(SeedFact, batch=batch))
    return [*history, *carry(settings, ledger, instance, keys, until=until, tasks=tasks)]


def carry(
    settings: Settings,
    ledger: Ledger,
    instance: dg.DagsterInstance,
    keys: Sequence[str],
    *,
    until: str,
    tasks: int = 0,
    over: Callable[[], bool] = lambda: False,
) -> list[Ran]:
    """Seeds through the stages up to ``until``; after a stage that failed for some, ``over`` may end it."""
    history: list[Ran] = []
    for stage in (*seed_stages(settings), *rollout_stages(settings, open_counter(settings).name)):
        if stage.name == RolloutStages._fields[0] and tasks:
            certified = current(seed_stages(settings).certificate, keys, ledger)
            keys = [key for key in keys if certified[key].verdict is Verdict.ACCEPTED][:tasks]
        history.append(reported(materialize, instance, stage.name, keys))
        keys = sorted(current(stage, keys, ledger))
        if stage.name == until or not keys or (history[-1].error and over()):
            break
    return history


def reported(run: Any, instance: dg.DagsterInstance, asset: str, *rest: Any) -> Ran:
    began = time.monotonic()
    with console.status(f"{asset} ..."):
        ran: Ran = run(instance, asset, *rest)
    text = f"{ran.settled - ran.cached} computed, {ran.cached} read back"
    if ran.rejected:
        text += f", {ran.rejected} rejected"
    console.print(f"  {asset:<20} {text}  [dim]{time.monotonic() - began:.1f} s[/dim]")
    if ran.error:
        console.print(f"  [red]{asset} failed:[/red] {escape(ran.error)}", soft_wrap=True)
    return ran


def die_with(parent: int) -> None:
    """Whoever kills the command kills the run too: an orphan would hold its claims against the next one."""
    if sys.platform == "linux" and parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signal.SIGKILL)


def unforeseen(error: Exception, settings: Settings) -> str:
    log = settings.home / "log" / "unforeseen.log"
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    line = next(iter(str(error).strip().splitlines()), "")
    return full_disk(settings) or f"{type(error).__name__}: {line[:300]}. The whole story is in {log}."


@contextmanager
def watching(instance: dg.DagsterInstance) -> Iterator[None]:
    """Look for killed runs now and then: one of them may hold the place in a pool that this process waits for."""
    release_dead_runs(instance)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_SECONDS):
            with suppress(Exception):  # tried again; a database that is gone shows in the run itself
                release_dead_runs(instance)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m facet_dagster.launch", description=__doc__)
    parser.add_argument("--batch", required=True, help="label of the seeds to select and carry through")
    parser.add_argument("--count", type=int, default=0, help="seeds that the batch shall hold (FACET_SEEDS)")
    parser.add_argument(
        "--until",
        default="certificate",
        choices=(*SKILL_ASSETS, *SeedStages._fields, *RolloutStages._fields),
        help="last stage",
    )
    parser.add_argument("--tasks", type=int, default=0, help="how many certified tasks agents try; 0: all")
    parser.add_argument("--parent", type=int, default=0, help="id of the process with which this one shall end")
    options = parser.parse_args(argv)
    die_with(options.parent)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        settings = load_settings()
        ledger = open_ledger(settings)
        if options.until not in WITHOUT_MODEL:
            probe_llm(settings, ledger, open_store(settings))
        with dg.DagsterInstance.get() as instance, watching(instance):
            history = run_funnel(
                settings,
                ledger,
                instance,
                batch=options.batch,
                count=options.count,
                until=options.until,
                tasks=options.tasks,
            )
    except FacetError as error:
        console.print(f"[red]facet:[/red] {escape(str(error))}", soft_wrap=True)
        return 1
    except Exception as error:  # noqa: BLE001 - the last resort: one sentence, and the whole story in a file
        console.print(f"[red]facet:[/red] {escape(unforeseen(error, load_settings()))}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped. Run again to go on: what was computed and paid for is kept.", soft_wrap=True)
        return INTERRUPTED
    return 1 if any(ran.error for ran in history) else 0


if __name__ == "__main__":
    sys.exit(main())
