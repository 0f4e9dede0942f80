"""The whole of curation: one verdict for each raw skill, in order; the bundled corpus falls as its table says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from facet_dagster.adapters.memory import HashEmbedder, MemoryVectorStore
from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import Curated, Family, RawSkill, describe
from facet_dagster.settings import ROOT
from facet_dagster.stages.collect import collect
from facet_dagster.stages.curate import DEFAULT, Policy, curate
from facet_dagster.stages.curate.family import DESCRIPTIONS, families
from facet_dagster.stages.index import entries, index, index_text

EXAMPLES = ROOT / "examples" / "skills"
TABLE = {
    "unreadable": "skill.unreadable",
    "no front matter and no heading": "skill.no_title",
    "unsafe": "skill.unsafe",
    "depends on a private network": "skill.private_network",
    "exact duplicate": "skill.duplicate",
    "near duplicate": "skill.near_duplicate",
    "the licence": "skill.licence",
    "oversized": "skill.oversized",
    "prompt injection": "skill.prompt_injection",
    "empty": "skill.empty",
}
BODY = "# Tide\n\nRead the gauge file, take the highest level of each day, and write one line for each harbour.\n"


def raw(ident: str, text: str, *, slug: str = "tide") -> tuple[RawSkill, bytes]:
    data = text.encode()
    return RawSkill(id=ident, source="folder", origin=ident, slug=slug, text=digest(data), size=len(data)), data


def run(*raws: tuple[RawSkill, bytes], policy: Policy = DEFAULT) -> list[Curated]:
    return curate(raws, embedder=HashEmbedder(), policy=policy)


@pytest.fixture(scope="module")
def bundled() -> dict[str, Curated]:
    items = curate(list(collect(EXAMPLES)), embedder=HashEmbedder())
    return {str(Path(item.origin).parent): item for item in items}


def expected_rejects() -> list[tuple[str, str]]:
    text = (EXAMPLES / "rejects" / "README.md").read_text(encoding="utf-8").partition("Kept on purpose")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \|$", text, re.MULTILINE)
    return [(name, next(reason for words, reason in TABLE.items() if why.startswith(words))) for name, why in rows]


def test_the_table_of_rejects_lists_every_reject() -> None:
    folders = {path.name for path in (EXAMPLES / "rejects").iterdir() if path.is_dir()}
    assert {name for name, _ in expected_rejects()} == folders
    assert len(folders) >= 10


@pytest.mark.parametrize(("name", "reason"), expected_rejects())
def test_a_bundled_reject_is_dropped_for_its_reason(bundled: dict[str, Curated], name: str, reason: str) -> None:
    rejection = bundled[f"rejects/{name}"].rejection
    assert rejection is not None
    assert rejection.reason == reason


def test_all_other_bundled_skills_are_kept(bundled: dict[str, Curated]) -> None:
    dropped = {o: c.rejection.message for o, c in bundled.items() if c.rejection and not o.startswith("rejects/")}
    assert dropped == {}
    assert sum(item.skill is not None for item in bundled.values()) >= 50


def test_each_raw_skill_gets_exactly_one_verdict_in_the_same_order() -> None:
    found = run(raw("a-1", "---\nlicense: MIT\n---\n" + BODY), raw("a-2", ""), raw("a-3", BODY))
    assert [item.id for item in found] == ["a-1", "a-2", "a-3"]
    assert all((item.skill is None) != (item.rejection is None) for item in found)


def test_nothing_gives_nothing() -> None:
    assert run() == []


def test_what_is_dropped_never_displaces_a_good_copy() -> None:
    unlicensed, licensed = raw("a-1", BODY), raw("a-2", "---\nlicense: MIT\n---\n" + BODY)
    first, second = run(unlicensed, licensed)
    assert first.rejection is not None
    assert first.rejection.reason == "skill.licence"
    assert second.skill is not None


def test_a_duplicate_names_the_kept_skill() -> None:
    text = "---\nlicense: MIT\n---\n" + BODY
    _, second = run(raw("a-1", text), raw("a-2", text))
    assert second.duplicate_of == "a-1"


def test_unknown_licences_are_kept_when_configured() -> None:
    [item] = run(raw("a-1", BODY), policy=Policy(unknown_licence=True))
    assert item.skill is not None
    assert item.skill.licence.allowed is False


def test_an_oversized_file_is_judged_by_its_size_not_by_its_missing_text() -> None:
    item = RawSkill(id="a-1", source="folder", origin="x", text=digest(b""), size=5_000_000)
    [found] = run((item, b""))
    assert found.rejection is not None
    assert found.rejection.reason == "skill.oversized"


def test_secrets_reach_neither_body_nor_description_nor_notes() -> None:
    secret = "ghp_" + "a1B2" * 9
    text = f"---\ndescription: use {secret}\nlicense: MIT\n---\n{BODY}\nToken {secret}, write to anna@harbour.org.\n"
    [item] = run(raw("a-1", text))
    assert item.skill is not None
    assert secret not in item.model_dump_json()
    assert "anna@" not in item.model_dump_json()
    assert {"secret masked", "address masked"} <= set(item.skill.notes)


@pytest.mark.parametrize("family", list(Family))
def test_a_family_is_found_by_its_own_words(family: Family) -> None:
    text = " ".join(DESCRIPTIONS[family][:2])
    assert families([text], embedder=HashEmbedder()) == [family]


def test_every_family_has_five_to_eight_sentences() -> None:
    assert list(DESCRIPTIONS) == list(Family)
    assert all(5 <= len(sentences) <= 8 for sentences in DESCRIPTIONS.values())


def test_a_skill_is_described_by_name_description_and_headings_within_bounds() -> None:
    text = describe("tide-table", "Make tables.", "# Tide Table\n```\n# not this\n```\n## Steps of work\nprose\n")
    assert text == "tide table. Make tables. Tide Table; Steps of work"
    assert len(describe("x" * 300, "y" * 3000, "# heading\n" * 900)) <= 480


def test_indexing_twice_changes_nothing_and_stores_family_and_source() -> None:
    [item] = run(raw("a-1", "---\nlicense: MIT\n---\n" + BODY))
    assert item.skill is not None
    store, embedder = MemoryVectorStore(), HashEmbedder()
    for _ in range(2):
        assert index(entries([item.skill]), embedder=embedder, vectors=store) == 1
    [[hit]] = store.query(embedder.encode([index_text(item.skill)]).tolist(), limit=5)
    assert hit.id == "a-1"
    assert dict(hit.payload) == {"family": item.skill.shelf, "source": "folder"}
    assert index([], embedder=embedder, vectors=store) == 0
