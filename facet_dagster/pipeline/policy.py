"""What the settings say about which skills are kept."""

from __future__ import annotations

from facet_dagster.settings import Settings
from facet_dagster.stages.curate import DEFAULT, Policy


def policy_of(settings: Settings) -> Policy:
    """Licences and languages as the user decided; what is not set is as in ``curate.DEFAULT``."""
    return Policy(
        licences=frozenset(settings.licences) or DEFAULT.licences,
        unknown_licence=settings.unknown_licence,
        languages=frozenset(settings.languages),
    )
