"""New, changed and withdrawn skills touch their own buckets alone, and nothing is computed twice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from facet_dagster.adapters.cached_embedder import CachedEmbedder
from facet_dagster.adapters.memory import HashEmbedder, MemoryArtifactStore, MemoryLedger, MemoryVectorStore
from facet_dagster.domain.facts import DecisionFact, RawSkillFact, SkillFact
from facet_dagster.domain.ids import bucket_keys, bucket_of
from facet_dagster.errors import VectorStoreError
from facet_dagster.funnel import Compute, Stage, StageReport, plan, run_stage
from facet_dagster.pipeline import corpus, skills
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.ports import Point, Vectors
from facet_dagster.settings import Settings

WORDS = ["gauge", "tide", "harbour", "level", "crane", "ledger", "wagon", "signal", "lantern", "barrel", "anchor"]


class Counting(HashEmbedder):
    def __init__(self) -> None:
        self.texts = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return super().encode(texts)


class World:
    """One installation in memory, with its caches in a folder."""

    def __init__(self, home: Path) -> None:
        self.home, self.sources = home / "home", home / "sources"
        self.settings = Settings(home=self.home)
        self.ledger, self.store, self.vectors = MemoryLedger(), MemoryArtifactStore(), MemoryVectorStore()
        self.inner = Counting()

    @property
    def embedder(self) -> CachedEmbedder:
        return CachedEmbedder(self.inner, self.home / "embeddings")

    def add(self, name: str, body: str, **files: str) -> None:
        folder = self.sources / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Keep the {name}.\nlicense: MIT\n---\n# Steps\n\n{body}\n"
        (folder / "SKILL.md").write_text(text)
        for file, content in files.items():
            (folder / "scripts").mkdir(exist_ok=True)
            (folder / "scripts" / file).write_text(content)

    def run(self) -> tuple[StageReport, StageReport]:
        skills.ingest(self.sources, ledger=self.ledger, store=self.store)
        return self.curate(), self.index()

    def curate(self) -> StageReport:
        compute = skills.skills(self.settings, ledger=self.ledger, store=self.store, embedder=self.embedder)
        return self._stage(skill_stages(self.settings, self.ledger).skills, compute)

    def index(self) -> StageReport:
        compute = skills.skill_index(
            self.settings, ledger=self.ledger, store=self.store, embedder=self.embedder, vectors=self.vectors
        )
        return self._stage(skill_stages(self.settings, self.ledger).skill_index, compute)

    def _stage(self, stage: Stage, compute: Compute) -> StageReport:
        work = plan(stage, bucket_keys(), self.ledger).work
        report = run_stage(stage.name, work, compute, ledger=self.ledger, store=self.store, emit=lambda _: None)
        assert report.failed == {}
        return report

    def kept(self) -> set[str]:
        return set(skills.kept_skills(self.settings, self.ledger, self.store))

    def id_of(self, name: str) -> str:
        return next(f.skill for f in self.ledger.find(RawSkillFact) if f.value["origin"] == f"{name}/SKILL.md")


def body(seed: int, length: int = 120) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=length))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for number in range(40):
        made.add(f"skill-{number}", body(number))
    made.add("zzz-copy", body(3))
    return made


def computed(report: StageReport) -> set[str]:
    return {result.key for result in report.results if not result.cached}


def test_what_is_kept_is_indexed_and_a_copy_is_not(world: World) -> None:
    first, _ = world.run()
    assert len(computed(first)) == 256
    assert len(world.kept()) == 40
    assert world.vectors.ids() == world.kept()
    [fact] = world.ledger.find(SkillFact, reason="skill.duplicate")
    assert {fact.skill, fact.duplicate_of} == {world.id_of("zzz-copy"), world.id_of("skill-3")}


def test_a_second_run_reads_embeds_and_computes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run()
    texts = world.inner.texts
    monkeypatch.setattr("facet_dagster.pipeline.readings.examine", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr("facet_dagster.pipeline.corpus.dedup.find", lambda *_: pytest.fail("decided again"))
    for report in world.run():
        assert computed(report) == set()
    assert world.inner.texts == texts


def test_new_skills_touch_their_own_buckets_and_only_they_are_embedded(world: World) -> None:
    world.run()
    texts = world.inner.texts
    for number in (100, 101):
        world.add(f"skill-{number}", body(number))
    touched = computed(world.run()[0])
    assert touched == {bucket_of(world.id_of(f"skill-{number}")) for number in (100, 101)}
    assert world.inner.texts == texts + 2
    assert world.vectors.ids() == world.kept()
    assert len(world.kept()) == 42


def test_an_equal_newcomer_takes_nobodys_place_but_a_better_sourced_one_does(world: World) -> None:
    world.run()
    world.add("late-copy", body(5))
    assert computed(world.run()[0]) == {bucket_of(world.id_of("late-copy"))}
    assert world.id_of("skill-5") in world.kept()
    world.add("better", body(6), **{"run.py": "pass\n"})
    assert computed(world.run()[0]) == {bucket_of(world.id_of("better")), bucket_of(world.id_of("skill-6"))}
    assert world.id_of("skill-6") not in world.kept()
    assert world.vectors.ids() == world.kept()
    last = world.ledger.find(SkillFact, skill=world.id_of("skill-6"))[-1]
    assert last.duplicate_of == world.id_of("better")


def test_a_withdrawn_skill_leaves_corpus_and_index_and_may_come_back(world: World) -> None:
    world.run()
    gone = world.id_of("skill-3")
    assert corpus.withdraw([gone, gone], world.ledger) == 1
    world.run()
    assert gone not in world.kept()
    assert world.id_of("zzz-copy") in world.kept()
    assert world.vectors.ids() == world.kept()
    assert corpus.withdraw([gone], world.ledger, present=True) == 1
    world.run()
    assert gone in world.kept()
    assert world.id_of("zzz-copy") not in world.vectors.ids()


def test_decisions_do_not_depend_on_whether_skills_came_at_once(world: World, tmp_path: Path) -> None:
    world.run()
    world.add("more", body(7))
    world.run()
    once = World(tmp_path)
    once.ledger.append(world.ledger.find(RawSkillFact))
    once.store = world.store
    once.curate()
    assert once.kept() == world.kept()


def test_lost_caches_change_nothing_but_time(world: World) -> None:
    world.run()
    before = world.ledger.find(DecisionFact)
    for file in world.home.rglob("*.parquet"):
        file.write_bytes(b"junk")
    world.add("more", body(70))
    world.run()
    changed = {fact.bucket for fact in world.ledger.find(DecisionFact)[len(before) :]}
    assert changed == {bucket_of(world.id_of("more"))}
    assert world.vectors.ids() == world.kept()


def test_what_the_index_lost_is_put_back_and_what_is_too_much_goes_without_embedding(world: World) -> None:
    world.run()
    texts = world.inner.texts
    world.vectors.delete(sorted(world.vectors.ids())[:7])
    world.vectors.upsert([Point(f"folder-{'0' * 32}", [1.0] * 256)])
    assert computed(world.index()) == set()
    assert world.vectors.ids() == world.kept()
    assert world.inner.texts == texts


def test_a_missing_store_is_filled_from_the_cache(world: World) -> None:
    world.run()
    texts = world.inner.texts
    world.vectors = MemoryVectorStore()
    world.index()
    assert world.vectors.ids() == world.kept()
    assert world.inner.texts == texts


def test_a_run_that_broke_off_goes_on_where_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    skills.ingest(world.sources, ledger=world.ledger, store=world.store)
    world.curate()
    texts = world.inner.texts

    class Breaking(MemoryVectorStore):
        left = 3

        def upsert(self, points: Sequence[Point]) -> None:
            self.left -= 1
            if self.left < 0:
                raise VectorStoreError("the disk is full")
            super().upsert(points)

    world.vectors = Breaking()
    with pytest.raises(AssertionError):
        world.index()
    assert 0 < len(world.vectors.ids()) < len(world.kept())
    monkeypatch.setattr(world.vectors, "left", 10_000)
    world.index()
    assert world.vectors.ids() == world.kept()
    assert world.inner.texts == texts


def test_skills_of_one_meaning_are_remarked_and_kept(world: World) -> None:
    world.add("skill-900", body(900))
    world.run()
    stage = skill_stages(world.settings, world.ledger).skills
    kept = [item for item in skills.curated(world.settings, world.ledger, world.store) if item.alike]
    assert stage.name == "skills"
    assert all(item.skill is not None and item.alike is not None and item.alike.cosine >= 0.95 for item in kept)
