"""Licence and its evidence travel from the skill to seeds and to the story of a skill."""

from __future__ import annotations

from pathlib import Path

from facet_dagster.adapters.memory import HashEmbedder, MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import SeedFact, SkillFact
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.funnel import plan, run_stage
from facet_dagster.pipeline import skills as pipeline
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.reports.seeds import seeds
from facet_dagster.reports.why import why
from facet_dagster.settings import Settings

BODY = "# {0}\n\nRead the {0} file, take the highest level of each day, and write one line for each {0}.\n"


def curated(settings: Settings, folder: Path) -> tuple[MemoryLedger, MemoryArtifactStore, dict[str, str]]:
    for name, licence in (("tide", "CC-BY-SA-4.0"), ("gauge", "MIT"), ("odd", "GPL-3.0")):
        file = folder / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {name}\nlicense: {licence}\n---\n{BODY.format(name)}")
    ledger, store = MemoryLedger(), MemoryArtifactStore()
    pipeline.ingest(folder, ledger=ledger, store=store)
    stage = skill_stages(settings, ledger).skills
    compute = pipeline.skills(settings, ledger=ledger, store=store, embedder=HashEmbedder())
    work = plan(stage, bucket_keys(), ledger).work
    run_stage(stage.name, work, compute, ledger=ledger, store=store, emit=lambda _: None)
    kept = pipeline.kept_skills(settings, ledger, store).values()
    return ledger, store, {skill.name: skill.id for skill in kept}


def test_licence_and_evidence_travel_to_seeds_and_stories(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    ledger, store, ids = curated(settings, tmp_path / "skills")
    assert set(ids) == {"tide", "gauge"}
    pair = {"candidate": "c", "first": ids["gauge"], "second": ids["tide"]}
    ledger.append([SeedFact(key="261130-a00000000000", batch="b", scenario="s", families=[], **pair)])
    [line] = seeds(settings, ledger)
    assert (line.licences, line.share_alike) == (("MIT", "CC-BY-SA-4.0"), True)
    [source] = why(ids["tide"], settings, ledger, store).skills
    assert (source.licence, source.licence_evidence, source.share_alike) == ("CC-BY-SA-4.0", "front matter", True)


def test_the_story_of_a_dropped_skill_holds_the_evidence(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    ledger, store, _ = curated(settings, tmp_path / "skills")
    [lost] = [fact.skill for fact in ledger.find(SkillFact) if fact.verdict == "rejected"]
    story = why(lost, settings, ledger, store)
    assert (story.reason, story.evidence) == ("skill.licence", {"spdx": "GPL-3.0", "evidence": "front matter"})
    assert why(lost, settings, ledger).evidence == {}


def test_a_wider_policy_keeps_more_and_is_computed_anew(tmp_path: Path) -> None:
    wide = Settings(home=tmp_path / "home", licences=("MIT", "GPL-3.0"))
    narrow = Settings(home=tmp_path / "home")
    ledger, _, ids = curated(wide, tmp_path / "skills")
    assert set(ids) == {"gauge", "odd"}
    stages = [skill_stages(settings, ledger).skills for settings in (wide, narrow)]
    first, second = (plan(stage, ["00"], ledger).work[0].input_digest for stage in stages)
    assert first != second
