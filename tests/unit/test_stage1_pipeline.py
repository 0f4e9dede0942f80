"""Stage 1 and pairing over the handmade skills, in memory: without a model up to the judge, and by hypotheses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.memory import (
    HashEmbedder,
    MemoryArtifactStore,
    MemoryLedger,
    MemoryVectorStore,
    ScriptedLLM,
)
from facet_dagster.domain.facts import HypothesisFact, SeedFact
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.domain.seed import Selection
from facet_dagster.domain.skill import Family
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Compute, Stage, plan, run_stage
from facet_dagster.pipeline import skills as pipeline
from facet_dagster.pipeline.graph import selection_stage, skill_stages
from facet_dagster.pipeline.selection import seed_selection
from facet_dagster.reports.found_skills import FoundSkill, find
from facet_dagster.reports.taxonomy import taxonomy_of
from facet_dagster.settings import ROOT, Settings

HANDMADE = ROOT / "tests" / "fixtures" / "handmade" / "skills"
VERDICT = {
    "complementary": True,
    "terminal_executable": True,
    "verifiable": 4,
    "reason": "r",
    "family": "structured data",
}


class World:
    """All ports in memory, and stages run over them."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.settings = Settings(_env_file=None, home=home, **settings)  # type: ignore[call-arg]
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()
        self.vectors, self.embedder = MemoryVectorStore(), HashEmbedder()
        self.llm = ScriptedLLM(self.answer)
        pipeline.ingest(HANDMADE, ledger=self.ledger, store=self.store)

    def answer(self, call: str, variables: Mapping[str, Any], subject: str, attempt: int) -> dict[str, Any]:
        assert call == "judge", f"{call} was asked for {subject}"
        return {**VERDICT, "scenario": f"scenario of {subject}"}

    def run(self, stage: Stage, compute: Compute, keys: list[str]) -> list[Any]:
        ports = {"ledger": self.ledger, "store": self.store}
        work = plan(stage, keys, self.ledger).work
        report = run_stage(stage.name, work, compute, emit=lambda _: None, workers=1, **ports)  # type: ignore[arg-type]
        assert not report.failed
        return report.results

    def stage1(self) -> None:
        ports: dict[str, Any] = {"ledger": self.ledger, "store": self.store}
        embedding: dict[str, Any] = {**ports, "embedder": self.embedder}
        searching: dict[str, Any] = {**embedding, "vectors": self.vectors}
        steps: dict[str, Callable[[], Compute]] = {
            "skills": lambda: pipeline.skills(self.settings, **embedding),
            "skill_index": lambda: pipeline.skill_index(self.settings, **searching),
            "scenario_hypotheses": lambda: pipeline.scenario_hypotheses(self.settings, **ports, llm=self.llm),
            "seed_candidates": lambda: pipeline.seed_candidates(self.settings, **searching, llm=self.llm),
        }
        for name, compute in steps.items():
            stage = skill_stages(self.settings, self.ledger)._asdict()[name]
            self.run(stage, compute(), bucket_keys())

    def select(self, batch: str, count: int) -> Selection:
        compute = seed_selection(
            self.settings,
            batch=batch,
            count=count,
            ledger=self.ledger,
            store=self.store,
            llm=self.llm,
            embedder=self.embedder,
        )
        [result] = self.run(selection_stage(self.settings, self.ledger, count), compute, [batch])
        return Selection.model_validate_json(self.store.get(result.output))

    def find(self, text: str, family: Family | None = None, group: int = 0) -> list[FoundSkill]:
        return find(
            text,
            settings=self.settings,
            ledger=self.ledger,
            store=self.store,
            vectors=self.vectors,
            embedder=self.embedder,
            family=family,
            limit=5,
            group=group,
        )


@pytest.fixture(params=["skill", "hypothesis"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made = World(tmp_path, hypotheses="extract", candidates=request.param, neighbours=2)
    made.stage1()
    return made


def test_without_a_model_only_the_judge_asks(world: World) -> None:
    facts = world.ledger.find(HypothesisFact)
    kept = pipeline.kept_skills(world.settings, world.ledger, world.store)
    assert {fact.skill for fact in facts} == set(kept)
    assert {call for call, *_ in world.llm.asked} <= {"judge"}
    judged = pipeline.judged_candidates(world.settings, world.ledger, world.store)
    assert judged
    assert all(set(item.candidate.skills) <= set(kept) for item in judged)


def test_a_batch_is_filled_once_and_the_next_one_takes_other_skills(world: World) -> None:
    first = world.select("a", 2)
    assert world.select("a", 2) == first
    second = world.select("b", 2)
    seeds = [*first.seeds, *second.seeds]
    used = [ident for seed in seeds for ident in seed.skills]
    assert len(set(used)) == len(used)
    assert {fact.key for fact in world.ledger.find(SeedFact)} == {seed.key for seed in seeds}


class Pinned(ScriptedLLM):
    """Answers the pin of the selection, as a tape does."""

    def __init__(self, wanted: list[str]) -> None:
        super().__init__({})
        self._wanted = wanted

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        return self._wanted if name == "selection" else compute()


def test_a_recorded_selection_comes_out_whatever_the_rules_say_now(world: World) -> None:
    pairs = pipeline.judged_candidates(world.settings, world.ledger, world.store)
    wanted = [item.candidate.id for item in pairs][:5]
    uses = Counter(ident for item in pairs[:5] for ident in item.candidate.skills)
    assert max(uses.values()) > 1, "the rules of today would not choose this"
    world.llm = Pinned(wanted)
    assert {seed.candidate for seed in world.select("a", 5).seeds} == set(wanted)


def test_skills_are_found_by_a_sentence_and_within_a_family(world: World) -> None:
    kept = pipeline.kept_skills(world.settings, world.ledger, world.store)
    for skill in kept.values():
        assert world.find(skill.description)[0].id == skill.id
        assert {one.family for one in world.find(skill.description, skill.shelf)} == {skill.shelf}
    skill = next(iter(kept.values()))
    group = world.find(skill.description, group=3)
    assert len({one.id for one in group}) == len(group) == 3
    assert taxonomy_of(world.settings, world.ledger, world.store).skills == len(kept)


def test_words_are_kept_on_disk_and_a_damaged_file_is_made_again(world: World) -> None:
    before = world.find("a table of rows")
    [path] = (world.settings.home / "words").iterdir()
    made = path.stat().st_mtime_ns
    assert world.find("a table of rows") == before
    assert path.stat().st_mtime_ns == made
    path.write_bytes(b"broken")
    assert world.find("a table of rows") == before
    assert path.stat().st_size > 100


def test_an_empty_index_says_what_to_do(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(ConfigError, match="facet run --until seed"):
        world.find("anything")
    with pytest.raises(ConfigError, match="nothing to search for"):
        world.find("  ")
    with pytest.raises(ConfigError, match="facet run --until skills"):
        taxonomy_of(world.settings, world.ledger, world.store)
