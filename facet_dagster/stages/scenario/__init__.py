"""Stage 2, second half: from a pair of skills to the complete scenario C and its references."""

from facet_dagster.stages.scenario.problems import reference_problems
from facet_dagster.stages.scenario.reconstruct import BODY, VERSION, reconstruct

__all__ = ["BODY", "VERSION", "reconstruct", "reference_problems"]
