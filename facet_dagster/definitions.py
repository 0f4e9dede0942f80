"""Composition root of the web UI, the daemon and every run: settings -> resources, assets, sensors."""

import dagster as dg

from assets import nightly as nightly_assets
from assets import reports, s1_skills, s2_seeds, s3_environments, s4_tasks, s5_trajectories, s6_datasets, s6_evaluation
from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.connect import open_counter
from facet_dagster.pipeline.versions import code_versions
from facet_dagster.settings import load_settings
from resources.ports import resources
from sensors.dead_runs import dead_runs
from sensors.failed_runs import failed_runs
from sensors.nightly import night, nightly
from sensors.retry_failed import retry_failed
from sensors.skills_arrived import skills_arrived

settings = load_settings()
versions = code_versions(settings, MemoryLedger(), open_counter(settings).name)


def _with_version(spec: dg.AssetSpec) -> dg.AssetSpec:
    """As these settings make it: the web UI then shows as stale what they change."""
    return spec.replace_attributes(code_version=versions.get(spec.key.to_user_string(), spec.code_version))


stages = [s1_skills, s2_seeds, s3_environments, s4_tasks, s5_trajectories]
modules = [*stages, s6_datasets, s6_evaluation, reports, nightly_assets]
found = [asset for asset in dg.load_assets_from_modules(modules) if isinstance(asset, dg.AssetsDefinition)]
defs = dg.Definitions(
    assets=dg.map_asset_specs(_with_version, found),
    resources=resources(settings),
    jobs=[night],
    schedules=[nightly],
    sensors=[dead_runs, failed_runs, skills_arrived, retry_failed],
    executor=dg.in_process_executor,
)
