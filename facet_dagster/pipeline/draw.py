"""Pairs drawn by a number from every kept skill, each carried through all stages once.

What comes out is a measure of the funnel on skills that nobody chose. Model calls are kept by the gateway and results
by the ledger, so an interrupted draw goes on where it stopped, and a second one asks and computes nothing.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.domain.outcome import Reason, Value, reject
from facet_dagster.domain.seed import Candidate, HypothesisReply, JudgedCandidate, SkillHypotheses
from facet_dagster.domain.skill import Skill
from facet_dagster.errors import ConfigError, MalformedReply
from facet_dagster.funnel import plan, run_stage
from facet_dagster.pipeline.experiment import Arm, Last, Ports, StageDone, run_arms
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.pipeline.selection import seed_facts
from facet_dagster.pipeline.skills import candidate_facts, kept_skills, skill_index, skills
from facet_dagster.ports import LLM, Embedder, Ledger, VectorStore
from facet_dagster.settings import Settings
from facet_dagster.stages import hypothesise as hypothesising
from facet_dagster.stages import pair as pairing
from facet_dagster.stages.select import seeds_of


class Drawn(Value):
    """``anchors`` skills were looked at, in the order of the draw; ``lost`` maps reasons to those that gave no pair.

    ``seeds`` are the keys of the accepted pairs, in that order.
    """

    number: int
    anchors: int
    lost: dict[str, int]
    seeds: tuple[str, ...]


@dataclass(frozen=True)
class Neighbourhood:
    """Where partners come from."""

    embedder: Embedder
    vectors: VectorStore


def batch_of(number: int) -> str:
    """The batch of a draw's seeds."""
    return f"draw-{number}"


def index_skills(settings: Settings, ports: Ports, near: Neighbourhood) -> None:
    """Curate and index all that was ingested; what is current costs nothing."""
    graph, (ledger, store) = skill_stages(settings, ports.ledger), (ports.ledger, ports.store)
    for stage in (graph.skills, graph.skill_index):
        work = plan(stage, bucket_keys(), ledger).work
        if stage.name == "skills":
            compute = skills(settings, ledger=ledger, store=store, embedder=near.embedder)
        else:
            compute = skill_index(settings, ledger=ledger, store=store, embedder=near.embedder, vectors=near.vectors)
        run_stage(stage.name, work, compute, ledger=ledger, store=store, emit=lambda _: None)


def draw(number: int, pairs: int, settings: Settings, ports: Ports, near: Neighbourhood) -> Drawn:
    """The first ``pairs`` accepted pairs of two unused skills, anchors in an order that ``number`` decides.

    Raises ConfigError where no skill was kept or indexed; PortError where the model or a store fails.
    """
    kept = kept_skills(settings, ports.ledger, ports.store)
    if not kept or not near.vectors.ids():
        raise ConfigError("No skill is kept and indexed: give some with `facet ingest PATH`")
    anchors = sorted(kept)
    random.Random(number).shuffle(anchors)  # noqa: S311 - a draw that repeats
    llm = ports.llm(settings, f"draw-{uuid4().hex[:12]}")
    used, lost, accepted = set[str](), Counter[str](), list[JudgedCandidate]()
    looked = 0
    for item in _in_order(anchors, kept, settings, llm, near):
        looked += 1
        if item.rejection is not None:
            lost[str(item.rejection.reason)] += 1
        elif used & set(item.candidate.skills):
            lost["used"] += 1
        else:
            used |= set(item.candidate.skills)
            accepted.append(item)
        if len(accepted) == pairs:
            break
    keys = _mint(accepted, batch_of(number), kept, settings, ports.ledger)
    return Drawn(number=number, anchors=looked, lost=dict(lost.most_common()), seeds=tuple(keys))


def _in_order(
    anchors: Sequence[str], kept: Mapping[str, Skill], settings: Settings, llm: LLM, near: Neighbourhood
) -> Iterator[JudgedCandidate]:
    """What became of each anchor, in order; ``llm_workers`` are asked about at once, so a few ahead of need.

    Those are awaited too: how far a draw looks ahead depends on its numbers alone, and a second one asks nothing.
    """
    waiting, flying = deque(anchors), deque[Future[JudgedCandidate]]()
    with ThreadPoolExecutor(settings.llm_workers) as pool:
        try:
            while waiting or flying:
                while waiting and len(flying) < settings.llm_workers:
                    flying.append(pool.submit(_look, kept[waiting.popleft()], kept, llm, near))
                yield flying.popleft().result()
        except GeneratorExit:
            raise
        except BaseException:
            llm.stop()
            pool.shutdown(cancel_futures=True)
            raise


def _look(anchor: Skill, kept: Mapping[str, Skill], llm: LLM, near: Neighbourhood) -> JudgedCandidate:
    """The judgement on ``anchor`` and its nearest partner."""
    alone = Candidate(
        id=pairing.pair_id(anchor.id, anchor.id), skills=(anchor.id, anchor.id), anchor=anchor.id, score=0
    )
    try:
        own = _hypotheses(anchor, llm)
        if not own.concrete:
            why = reject(Reason.SEED_REFUSED, "The anchor skill states no procedure, formats or rules.")
            return JudgedCandidate(candidate=alone, rejection=why)
        proposed = pairing.propose(anchor, vectors=near.vectors, embedder=near.embedder, llm=llm, limit=1)
        found = [one for one in proposed if all(ident in kept for ident in one.skills)]
        if not found:
            return JudgedCandidate(candidate=alone, rejection=reject(Reason.SEED_REFUSED, "No related skill."))
        first, second = (kept[ident] for ident in found[0].skills)
        replies = tuple(own if one.id == anchor.id else _hypotheses(one, llm) for one in (first, second))
        return pairing.judge(found[0], first, second, (replies[0], replies[1]), llm=llm)
    except MalformedReply as error:
        return JudgedCandidate(candidate=alone, rejection=reject(Reason.LLM_MALFORMED, str(error)))


def _hypotheses(skill: Skill, llm: LLM) -> HypothesisReply:
    value = hypothesising.hypothesise(skill, llm=llm).value
    assert isinstance(value, SkillHypotheses)
    return value.reply


def _mint(
    accepted: Sequence[JudgedCandidate], batch: str, kept: Mapping[str, Skill], settings: Settings, ledger: Ledger
) -> list[str]:
    """The seeds' keys; a pair that this draw minted before keeps its key."""
    minted = {fact.candidate: fact.key for fact in ledger.find(SeedFact, batch=batch)}
    version = skill_stages(settings, ledger).seed_candidates.version
    keys = []
    for item in accepted:
        key = minted.get(item.candidate.id)
        if key is None:
            (seed,) = seeds_of([item], kept, date.today())  # noqa: DTZ011 - a local day
            ledger.append([*candidate_facts([item], version), *seed_facts(seed, batch)])
            key = seed.key
        keys.append(key)
    return keys


def carry(keys: Sequence[str], settings: Settings, ports: Ports, until: Last = "certificate") -> Iterator[StageDone]:
    """Settle every stage for each seed by itself, the first seeds first, ``llm_workers`` at once."""
    opened = list[LLM]()

    def open_llm(of_arm: Settings, run_id: str) -> LLM:
        opened.append(ports.llm(of_arm, run_id))
        return opened[-1]

    own = Ports(ports.ledger, ports.store, ports.sandbox, open_llm)
    arm = Arm("draw", settings)
    with ThreadPoolExecutor(settings.llm_workers) as pool:
        flying = [pool.submit(list, run_arms([arm], [key], own, until)) for key in keys]
        try:
            for future in as_completed(flying):
                yield from future.result()
        except BaseException:
            for llm in opened:
                llm.stop()
            ports.sandbox.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
