"""Stage 3: from a scenario to a built environment with its captured initial state e0."""

from facet_dagster.stages.environment.capture import capture
from facet_dagster.stages.environment.dockerfile import build_context
from facet_dagster.stages.environment.edits import apply_repair
from facet_dagster.stages.environment.realise import (
    ENVIRONMENT_VERSION,
    FIRST_BUILD_VERSION,
    first_build,
    realise,
    rebuild,
)

__all__ = [
    "ENVIRONMENT_VERSION",
    "FIRST_BUILD_VERSION",
    "apply_repair",
    "build_context",
    "capture",
    "first_build",
    "realise",
    "rebuild",
]
