"""What models wrote for a certificate, so that it can be tried again without one."""

from __future__ import annotations

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.second import SecondReply
from facet_dagster.domain.semantic import MutantsReply
from facet_dagster.domain.task import VerifierReply


class Replies(Value):
    """The mutants that were tried, second solutions by the id of their probe, and the blind verifier.

    What was at fault itself is not among them.
    """

    mutants: MutantsReply | None = None
    second: dict[str, SecondReply] = {}
    blind: VerifierReply | None = None


NO_REPLIES = Replies()
