"""Retrieval: two rankings joined, and groups of skills that add to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.adapters.memory import HashEmbedder, MemoryVectorStore
from facet_dagster.domain.skill import Family, Licence, Skill
from facet_dagster.stages.index import entries, index
from facet_dagster.stages.retrieve import Lexicon, complementary, fused, search


def skill(ident: str, description: str, body: str = "") -> Skill:
    return Skill(
        id=ident,
        name=ident,
        title=ident,
        description=description,
        body=body,
        family=Family.DATA,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin=ident,
    )


SKILLS = [
    skill("s-1", "Merge tide tables of harbours", "The zenith rule decides which harbour counts."),
    skill("s-2", "Merge tide tables of two harbours", "Sorted by hour."),
    skill("s-3", "Draw a chart of harbour levels", "Axes and ticks."),
    skill("s-4", "Translate letters into Danish", "Keep the tone."),
    skill("s-5", "Count words of letters", "Words and lines."),
]


def test_words_rank_by_rarity_and_ties_by_id() -> None:
    lexicon = Lexicon.of(SKILLS)
    assert lexicon.ranked("the zenith of harbours", 5)[0] == "s-1"
    assert lexicon.ranked("nothing known", 5) == []
    same = Lexicon.of([skill("b", "tide"), skill("a", "tide")])
    assert same.ranked("tide", 2) == ["a", "b"]


def test_an_empty_corpus_has_no_words() -> None:
    assert Lexicon.of([]).ranked("tide", 3) == []


def test_a_lexicon_comes_back_from_its_file(tmp_path: Path) -> None:
    lexicon = Lexicon.of(SKILLS)
    lexicon.save(tmp_path / "words.npz")
    again = Lexicon.load(tmp_path / "words.npz")
    for text in ("tide tables", "letters in Danish", "zenith"):
        assert again.ranked(text, 5) == lexicon.ranked(text, 5) != []
    assert again.of_family("data") == frozenset(lexicon.ids)
    assert [path.name for path in tmp_path.iterdir()] == ["words.npz"]


def test_a_file_that_is_no_lexicon_says_so(tmp_path: Path) -> None:
    for data in (b"PK\x03\x04 broken", b"", b"words"):
        (tmp_path / "words.npz").write_bytes(data)
        with pytest.raises(ValueError):
            Lexicon.load(tmp_path / "words.npz")
    with pytest.raises(OSError):
        Lexicon.load(tmp_path / "none.npz")


def test_a_skill_in_both_rankings_comes_before_one_in_either() -> None:
    assert [found.id for found in fused([["a", "b"], ["c", "b"]])] == ["b", "a", "c"]


def find(text: str, **options: object) -> list[str]:
    vectors, embedder = MemoryVectorStore(), HashEmbedder()
    index(entries(SKILLS), embedder=embedder, vectors=vectors)
    [found] = search(
        [text],
        vectors=vectors,
        embedder=embedder,
        lexicon=Lexicon.of(SKILLS),
        limit=3,
        **options,  # type: ignore[arg-type]
    )
    return [hit.id for hit in found]


def test_words_of_the_body_find_a_skill_whose_vector_does_not_know_them() -> None:
    assert find("zenith rule")[0] == "s-1"


def test_what_the_filter_leaves_out_is_not_found() -> None:
    among = frozenset({"s-4", "s-5"})
    assert set(find("letters", among=among, where={"family": "data"})) <= {*among, "s-1", "s-2", "s-3"}
    assert find("zenith", among=frozenset({"s-3"}), where={"family": "ai"}) == []


def test_a_group_leaves_out_what_is_the_same_in_other_words() -> None:
    embedder = HashEmbedder()
    twin = SKILLS[0].model_copy(update={"id": "s-9"})
    group = complementary("merge tide tables, chart levels", [twin, *SKILLS], embedder=embedder, size=4)
    idents = [found.id for found, _ in group]
    assert len(idents) == len(set(idents)) <= 4
    assert not {"s-9", "s-1"} <= set(idents)
    assert group[0][1] == 1.0
    assert all(cosine < 0.9 for _, cosine in group[1:])


def test_the_skill_that_is_asked_about_stands_first() -> None:
    group = complementary("letters", SKILLS, embedder=HashEmbedder(), size=2, first=SKILLS[2])
    assert group[0][0].id == "s-3"
    assert len(group) == 2


@pytest.mark.parametrize("size", [0, -1])
def test_no_group_of_nothing(size: int) -> None:
    assert complementary("letters", SKILLS, embedder=HashEmbedder(), size=size) == []
    assert complementary("letters", [], embedder=HashEmbedder(), size=2) == []
