"""Pages of the web UI that a partition's metadata points to: its skills' buckets and its other stages."""

from collections.abc import Callable, Mapping

from assets.rejections import page
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.ids import bucket_of
from facet_dagster.ports import Ledger
from facet_dagster.settings import load_settings

Links = Callable[[str], Mapping[str, str]]
ORDER = (
    "seed",
    "scenario",
    "first_build",
    "environment",
    "task_draft",
    "first_validation",
    "task",
    "certificate",
    "rollouts",
    "trajectories",
)


def no_links(key: str) -> Mapping[str, str]:
    del key
    return {}


def seed_links(ledger: Ledger, stage: str) -> Links:
    """Links of one stage's partitions: both skills, the stage before and the stage after, the review page if any."""
    review = load_settings().review_url.rstrip("/")
    seeds = {fact.key: fact for fact in ledger.find(SeedFact)}
    place = ORDER.index(stage)
    beside = ORDER[max(place - 1, 0) : place] + ORDER[place + 1 : place + 2]

    def links(key: str) -> Mapping[str, str]:
        found = {name: page(name, key) for name in beside}
        if key in seeds:
            for skill in (seeds[key].first, seeds[key].second):
                found[f"skill {skill[:14]}"] = page("skills", bucket_of(skill))
        if review:
            found["review page"] = f"{review}/seed/{key}"
        return found

    return links
