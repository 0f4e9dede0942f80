"""Models tried on a benchmark: under which conditions, and what came of it task by task."""

from __future__ import annotations

from pydantic import Field

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.rollout import Attempt, RolloutProtocol


class Endpoint(Value):
    """A model that is evaluated. ``name`` tells two apart that a server calls the same, such as before and after
    training; ``key_env`` is the environment variable that holds its key; ``paper`` a row of the paper's Table 2.
    """

    name: str = Field(pattern=r"^[\w.-]{1,64}$")
    model: str = Field(min_length=1, description="as litellm names it")
    api_base: str = ""
    key_env: str = ""
    context_tokens: int = Field(default=32_768, ge=1024, description="paper, Table 9, for the models that it trains")
    paper: str = ""


class EvaluationProtocol(RolloutProtocol):
    """The conditions of an attempt, with the name of what was tried."""

    endpoint: str


class TaskEvaluation(Value):
    """All attempts of one endpoint on one task of a benchmark; ``package`` is the digest of the task's files."""

    task: str
    package: str
    protocol: EvaluationProtocol
    attempts: tuple[Attempt, ...]
