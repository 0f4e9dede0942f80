"""Selection bound to ports: from judged pairs to the seeds of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from facet_dagster.domain.facts import EdgeFact, Fact, SeedFact
from facet_dagster.domain.seed import JudgedCandidate, Seed, Selection
from facet_dagster.funnel import Compute, Outcome
from facet_dagster.pipeline.skills import judged_candidates, kept_skills
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Ledger
from facet_dagster.settings import Settings
from facet_dagster.stages import select as selecting


def seed_selection(
    settings: Settings,
    *,
    batch: str,
    count: int,
    ledger: Ledger,
    store: ArtifactStore,
    llm: LLM,
    embedder: Embedder,
) -> Compute:
    """Batch -> Selection: fill ``batch`` up to ``count`` seeds, by the rules of ``stages/select.py``.

    What was chosen is pinned, so that a replay neither embeds nor chooses.
    """
    judged = {item.candidate.id: item for item in judged_candidates(settings, ledger, store)}
    kept = kept_skills(settings, ledger, store)

    def compute(_batch: str) -> Outcome:
        taken = ledger.find(SeedFact)
        room = max(count - sum(fact.batch == batch for fact in taken), 0)
        day = date.fromisoformat(llm.pin("day", batch, lambda: [date.today().isoformat()])[0])  # noqa: DTZ011 - a local night
        repeated: dict[str, str] = {}

        def choose() -> list[str]:
            chosen = selecting.select(
                judged.values(),
                kept,
                count=room,
                history=_history(taken, judged),
                embedder=embedder,
                share=settings.skill_share,
                same=settings.same_scenario,
                number=settings.selection_number,
            )
            repeated.update(chosen.repeated)
            return [item.candidate.id for item in chosen.items]

        used = {fact.candidate for fact in taken}
        wanted = [ident for ident in llm.pin("selection", f"{batch}/{count}", choose) if ident not in used]
        items = [
            judged[ident] for ident in wanted if ident in judged and set(judged[ident].candidate.skills) <= set(kept)
        ]
        seeds = selecting.seeds_of(items[:room], kept, day)
        return Outcome(
            Selection(batch=batch, seeds=tuple(seeds), repeated=repeated),
            numbers={
                "seeds": len(seeds),
                "candidates": len(judged),
                "missing": room - len(seeds),
                "repeated": len(repeated),
            },
            facts=tuple(fact for seed in seeds for fact in seed_facts(seed, batch)),
        )

    return compute


def unused(settings: Settings, ledger: Ledger, store: ArtifactStore) -> int:
    """How many pairs that the judge accepted are in no seed yet."""
    used = {candidate for (candidate,) in ledger.values(SeedFact, "candidate")}
    judged = judged_candidates(settings, ledger, store)
    return sum(item.rejection is None and item.candidate.id not in used for item in judged)


def _history(taken: Sequence[SeedFact], judged: Mapping[str, JudgedCandidate]) -> selecting.History:
    works = [judged[fact.candidate].reply for fact in taken if fact.candidate in judged]
    return selecting.History(
        pairs=frozenset(fact.candidate for fact in taken),
        uses=Counter(ident for fact in taken for ident in (fact.first, fact.second)),
        works=Counter(reply.family.value for reply in works if reply),
        scenarios=tuple((fact.key, fact.scenario) for fact in taken),
    )


def seed_facts(seed: Seed, batch: str) -> Iterable[Fact]:
    yield SeedFact(
        key=seed.key,
        batch=batch,
        candidate=seed.candidate,
        first=seed.skills[0],
        second=seed.skills[1],
        scenario=seed.scenario,
        families=list(seed.families),
    )
    yield EdgeFact(child=seed.key, parent=seed.candidate, kind="candidate")
