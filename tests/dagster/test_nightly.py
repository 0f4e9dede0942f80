"""The nightly schedule keeps its head when the clock does not; failed runs become rows; checks say what dropped."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.nightly import _hold, _stand
from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.definitions import defs
from facet_dagster.domain.facts import FailureFact
from facet_dagster.errors import ConfigError
from facet_dagster.reports.health import Health, Replayed
from facet_dagster.reports.statistics import rate
from facet_dagster.reports.yields import Yield, Yields
from facet_dagster.settings import Settings, load_settings
from facet_dagster.stages.task.certificate.replay import Replay
from sensors.failed_runs import failure, tell
from sensors.nightly import night, nightly_schedule


def tick(instance: dg.DagsterInstance, moment: datetime) -> dg.ScheduleExecutionData:
    schedule = nightly_schedule("0 2 * * *", "UTC", on=False)
    return schedule.evaluate_tick(dg.build_schedule_context(instance, scheduled_execution_time=moment))


def test_it_is_off_until_somebody_turns_it_on() -> None:
    assert defs.resolve_schedule_def("nightly").default_status is dg.DefaultScheduleStatus.STOPPED
    assert nightly_schedule("0 2 * * *", "UTC", on=True).default_status is dg.DefaultScheduleStatus.RUNNING


def test_two_ticks_of_one_night_have_one_run_key_and_name_the_batch() -> None:
    """As after a clock that was set back: Dagster starts one run for one key."""
    moment = datetime.now(UTC)
    with dg.DagsterInstance.local_temp() as instance:
        first, second = (tick(instance, moment).run_requests[0] for _ in range(2))
    assert first.run_key == second.run_key == f"{moment:%y%m%d}"
    assert first.run_config["ops"]["synthesise"]["config"]["batch"] == f"{moment:%y%m%d}"


def test_a_tick_that_comes_days_late_is_left_out() -> None:
    """As after a clock that was set on: missed nights do not come all at once."""
    with dg.DagsterInstance.local_temp() as instance:
        found = tick(instance, datetime.now(UTC) - timedelta(days=2))
    assert not found.run_requests
    assert "too late" in str(found.skip_message)


def test_a_tick_while_a_night_is_at_work_is_left_out() -> None:
    with dg.DagsterInstance.local_temp() as instance:
        run = instance.create_run_for_job(night, status=dg.DagsterRunStatus.STARTED)
        found = tick(instance, datetime.now(UTC))
    assert not found.run_requests
    assert run.run_id in str(found.skip_message)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FACET_NIGHT_CRON", "61 2 * * *", "'61' is no minute"),
        ("FACET_NIGHT_CRON", "every night", "has 2 fields"),
        ("FACET_NIGHT_CRON", "0 2 * * noday", "is no day of the week"),
        ("FACET_NIGHT_CRON", "0 5-2 * * *", "'5-2' is no hour"),
        ("FACET_NIGHT_CRON", "*/0 2 * * *", "'*/0' is no minute"),
        ("FACET_NIGHT_TIMEZONE", "Middle/Earth", "'Middle/Earth' is no time zone"),
        ("FACET_NIGHT_TIMEZONE", "../etc/passwd", "is no time zone"),
        ("FACET_NIGHT_TIMEZONE", "", "is no time zone"),
    ],
)
def test_a_wrong_time_is_refused_with_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="Settings are wrong") as caught:
        load_settings()
    assert name in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("cron", ["0 2 * * *", "*/15 0-6/2 1,15 jan-mar mon-fri", "30 1 * * 7", "0 22 * * SUN"])
def test_what_passes_dagster_takes(monkeypatch: pytest.MonkeyPatch, cron: str) -> None:
    monkeypatch.setenv("FACET_NIGHT_CRON", cron)
    assert nightly_schedule(load_settings().night_cron, "Europe/Berlin", on=False).cron_schedule == cron


def test_a_failed_run_becomes_a_row_with_its_cause() -> None:
    @dg.op
    def broken() -> None:
        raise dg.Failure("The engine\nis gone")

    @dg.job
    def work() -> None:
        broken()

    with dg.DagsterInstance.ephemeral() as instance:
        done = work.execute_in_process(instance=instance, raise_on_error=False)
        event = next(e for e in done.all_events if e.event_type is dg.DagsterEventType.RUN_FAILURE)
        context = dg.build_run_status_sensor_context("failed_runs", event, instance, done.dagster_run)
        fact = failure(context.for_run_failure())
    assert (fact.run, fact.job, fact.message) == (done.run_id, "work", "The engine is gone")
    ledger = MemoryLedger()
    ledger.append([fact, fact.model_copy(update={"moment": "later"})])
    assert ledger.find(FailureFact) == [fact]


def test_a_program_is_told_only_when_one_is_named(tmp_path: Path) -> None:
    assert Settings(home=tmp_path).failure_command == ""
    fact = FailureFact(run="r", job="j", assets=["task"], message="m", moment="now")
    told = tmp_path / "told.json"
    script = tmp_path / "tell.py"
    script.write_text(f"import sys; open({str(told)!r}, 'w').write(sys.stdin.read())")
    assert "code 0" in tell(f"{sys.executable} {script}", fact)
    assert FailureFact.model_validate_json(told.read_text()) == fact
    assert "could not be run" in tell("/no/such/program", fact)
    assert "could not be run" in tell("'unbalanced", fact)


@pytest.mark.parametrize(
    ("dropped", "serious", "severity"),
    [
        (False, False, dg.AssetCheckSeverity.WARN),
        (True, False, dg.AssetCheckSeverity.WARN),
        (True, True, dg.AssetCheckSeverity.ERROR),
    ],
)
def test_a_dropped_yield_fails_its_check(dropped: bool, serious: bool, severity: dg.AssetCheckSeverity) -> None:
    line = Yield(stage="task", now=rate(1, 9), last=rate(0, 0), before=rate(8, 9), dropped=dropped, serious=serious)
    found = _hold(Yields(batch="b", last="a", lines=(line,)))
    assert (found.passed, found.severity) == (not dropped, severity)
    assert ("task" in str(found.description)) is dropped


def test_a_rotten_task_fails_the_check_of_the_release() -> None:
    good = Replayed(key="a", replay=Replay(baseline=0, oracle=1))
    bad = Replayed(key="b", replay=Replay(baseline=0, oracle=0, rotten=True))
    lost = Replayed(key="c", replay=None, trouble="no engine")
    assert _stand(Health(lines=(good,))).passed
    assert _stand(Health(lines=(good, bad))).severity is dg.AssetCheckSeverity.ERROR
    found = _stand(Health(lines=(good, lost)))
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
