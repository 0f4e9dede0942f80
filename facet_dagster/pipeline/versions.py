"""Under which code, prompts and settings each asset's results stand, as the texts that the web UI compares."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.domain.ids import digest
from facet_dagster.funnel import Stage
from facet_dagster.pipeline.graph import seed_stages, skill_stages
from facet_dagster.pipeline.rollouts import rollout_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings
from facet_dagster.stages import pair, select


def code_versions(settings: Settings, ledger: Ledger, tokenizer: str) -> Mapping[str, str]:
    """Asset -> code version. It changes exactly when the results of the stage no longer stand for their own reasons.

    What a stage reads from others is no part of it: that shows as a new data version of those. The ledger is not read.
    """
    stages = (*skill_stages(settings, ledger), *seed_stages(settings), *rollout_stages(settings, tokenizer))
    rules = digest([settings.skill_share, settings.same_scenario, settings.selection_number])[:8]
    return {stage.name: _version(stage) for stage in stages} | {
        "seed_selection": f"{pair.VERSION}-{select.VERSION}-{rules}"
    }


def _version(stage: Stage) -> str:
    return f"{stage.version}-{digest(list(stage.parts))[:8]}" if stage.parts else stage.version
