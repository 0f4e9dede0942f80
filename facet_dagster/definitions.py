"""Composition root of the web UI, the daemon and every run: settings -> resources, assets, sensors."""

import dagster as dg

from assets import nightly as nightly_assets
from assets import reports, s1_skills, s2_seeds, s3_environments, s4_tasks, s5_trajectories, s6_datasets, s6_evaluation
from facet_dagster.settings import load_settings
from resources.ports import resources
from sensors.dead_runs import dead_runs
from sensors.failed_runs import failed_runs
from sensors.nightly import night, nightly
from sensors.skills_arrived import skills_arrived

defs = dg.Definitions(
    assets=dg.load_assets_from_modules(
        [
            s1_skills,
            s2_seeds,
            s3_environments,
            s4_tasks,
            s5_trajectories,
            s6_datasets,
            s6_evaluation,
            reports,
            nightly_assets,
        ]
    ),
    resources=resources(load_settings()),
    jobs=[night],
    schedules=[nightly],
    sensors=[dead_runs, failed_runs, skills_arrived],
    executor=dg.in_process_executor,
)
