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


def policy_parts(settings: Settings) -> tuple[object, ...]:
    """The policy as a part of the key of what is made under it; nothing where it is the default."""
    policy = policy_of(settings)
    told = (sorted(policy.licences), policy.unknown_licence, sorted(policy.languages))
    return () if policy == DEFAULT else told
