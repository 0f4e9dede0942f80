"""What a night shows of all that was made: yields against earlier batches, health of released tasks, the release."""

from datetime import datetime
from zoneinfo import ZoneInfo

import dagster as dg

from assets._dagster import own, owner_of
from facet_dagster.ports import ArtifactStore, Embedder, Ledger, Sandbox, TokenCounter
from facet_dagster.reports.health import Health, health_markdown, sample
from facet_dagster.reports.health import health as replay_all
from facet_dagster.reports.release import release as write_release
from facet_dagster.reports.releases import Release, diff_markdown, releases
from facet_dagster.reports.yields import Yields, yields_markdown
from facet_dagster.reports.yields import yields as yields_of
from facet_dagster.settings import Settings

# Beside checks Dagster takes no return type but the bare MaterializeResult.
HOLD, STAND = "yields_hold", "released_tasks_stand"


class YieldsConfig(dg.Config):
    """``batch``: whose yields; the newest batch when empty."""

    batch: str = ""


@dg.asset(
    deps=["certificate", "trajectories"],
    group_name="reports",
    owners=[owner_of("reports")],
    kinds={"postgres"},
    check_specs=[
        dg.AssetCheckSpec(HOLD, asset="yields", description="Does every stage accept about what it accepted before?")
    ],
)
def yields(
    context: dg.AssetExecutionContext,
    config: YieldsConfig,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    tokens: dg.ResourceParam[TokenCounter],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """What each stage accepts of the newest batch, under the prompts and models of now, against all batches before."""
    own(context)
    found = yields_of(settings, tokens.name, ledger, config.batch)
    shown = {
        "yields": dg.MetadataValue.md(yields_markdown(found)),
        "report": dg.MetadataValue.json(found.model_dump(mode="json")),
    }
    return dg.MaterializeResult(metadata=shown, check_results=[_hold(found)])


def _hold(found: Yields) -> dg.AssetCheckResult:
    serious = any(line.serious for line in found.dropped)
    names = ", ".join(line.stage for line in found.dropped)
    text = f"Dropped beyond chance: {names}." if names else "No stage accepts fewer than before, beyond chance."
    return dg.AssetCheckResult(
        check_name=HOLD,
        passed=not found.dropped,
        severity=dg.AssetCheckSeverity.ERROR if serious else dg.AssetCheckSeverity.WARN,
        description=text,
        metadata={"yields": dg.MetadataValue.md(yields_markdown(found))},
    )


class HealthConfig(dg.Config):
    """``tasks``: how many to replay; FACET_NIGHT_REPLAYS when below 0."""

    tasks: int = -1


@dg.asset(
    deps=["certificate"],
    group_name="reports",
    owners=[owner_of("reports")],
    kinds={"docker"},
    pool="docker",
    check_specs=[
        dg.AssetCheckSpec(STAND, asset="release_health", description="Do released tasks still judge as they did?")
    ],
)
def release_health(
    context: dg.AssetExecutionContext,
    config: HealthConfig,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    sandbox: dg.ResourceParam[Sandbox],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Some tasks of the last release replayed: baseline 0, oracle 1. What rotted is quarantined."""
    own(context)
    size = settings.night_replays if config.tasks < 0 else config.tasks
    last = next(reversed(releases(settings.releases)), None)
    packages = {key: task.package for key, task in last.tasks.items()} if last else {}
    chosen = sample(packages, ledger, size)
    found = replay_all(chosen, ledger=ledger, store=store, sandbox=sandbox, workers=settings.workers)
    shown = {
        "health": dg.MetadataValue.md(health_markdown(found)),
        "report": dg.MetadataValue.json(found.model_dump(mode="json")),
    }
    return dg.MaterializeResult(metadata=shown, check_results=[_stand(found)])


def _stand(found: Health) -> dg.AssetCheckResult:
    rotten, unknown = len(found.rotten), len(found.unknown)
    text = f"{len(found.lines)} replayed: {rotten} rotten, {unknown} without a verdict."
    if found.doubted:
        text += " More failed than stand, so the machine is doubted and nothing was quarantined: look at it."
    return dg.AssetCheckResult(
        check_name=STAND,
        passed=not found.rotten and not found.unknown,
        severity=dg.AssetCheckSeverity.ERROR if found.rotten else dg.AssetCheckSeverity.WARN,
        description=text,
    )


class ReleaseConfig(dg.Config):
    """``night``: the night that makes it. ``batch``: whose yields stand beside it; the newest when empty."""

    night: str = ""
    batch: str = ""


@dg.asset(
    deps=["certificate", "trajectories", "release_health"],
    group_name="reports",
    owners=[owner_of("reports")],
    kinds={"parquet", "json"},
)
def release(
    context: dg.AssetExecutionContext,
    config: ReleaseConfig,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    tokens: dg.ResourceParam[TokenCounter],
    embedder: dg.ResourceParam[Embedder],
) -> dg.MaterializeResult[None]:
    """What may be given away of all certified tasks, and training sets: dated, with what is new, changed and lost."""
    own(context)
    day = f"{datetime.now(ZoneInfo(settings.night_timezone)):%Y-%m-%d}"
    found = yields_of(settings, tokens.name, ledger, config.batch)
    made = write_release(
        *(settings, tokens.name, ledger, store),
        day=day,
        night=config.night,
        found=found,
        embedder=embedder if settings.compared_with else None,
    )
    return dg.MaterializeResult(metadata=_told(made, settings))


def _told(made: Release, settings: Settings) -> dict[str, dg.MetadataValue]:
    before = [manifest.name for manifest in releases(settings.releases) if manifest.name != made.name]
    return {
        "release": dg.MetadataValue.text(made.name),
        "folder": dg.MetadataValue.path(made.folder),
        "written": dg.MetadataValue.bool(made.written),
        "diff": dg.MetadataValue.md(diff_markdown(made.diff, before[-1] if before else "")),
        "report": dg.MetadataValue.json(made.model_dump(mode="json")),
    }
