"""How well skills are found by what somebody needs: our index beside BM25, over hand-made pairs.

`python -m benchmarks.retrieval --sample PATH` prints one JSON object. The pairs (tests/fixtures/labels/related.csv)
were written before the first run. A pair whose row was cleaned away is left out and counted; a row that is a
duplicate is found when the skill that was kept in its place is.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s

from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
from facet_dagster.adapters.sentence_transformers_embedder import SentenceTransformersEmbedder
from facet_dagster.domain.skill import Skill
from facet_dagster.ports import Embedder, VectorStore
from facet_dagster.stages.collect import collect
from facet_dagster.stages.curate import curate
from facet_dagster.stages.index import entries, index, index_text
from facet_dagster.stages.retrieve import BODY, Lexicon, search

PAIRS = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "labels" / "related.csv"
DEPTH = 20
CUTS = (1, 5, 10, DEPTH)
Wanted = dict[str, set[str]]  # sentence -> ids of skills
Search = Callable[[Sequence[str]], list[list[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Retrieval quality beside BM25, as one JSON object.")
    parser.add_argument(
        "--sample", type=Path, required=True, help="a parquet export of skills, as `facet ingest` takes"
    )
    parser.add_argument("--pairs", type=Path, default=PAIRS, help="CSV: hypothesis, row")
    given = parser.parse_args()
    print(json.dumps(measure(given.sample, given.pairs), indent=1))


def measure(sample: Path, pairs: Path) -> dict[str, Any]:
    """Recall at several depths and mean reciprocal rank of each way to search."""
    embedder = SentenceTransformersEmbedder()
    raws = list(collect(sample))
    items = curate(raws, embedder=embedder, allow_unknown=True)
    kept = [item.skill for item in items if item.skill]
    of_row = {item.origin: item.id if item.skill else item.duplicate_of for item in items}
    wanted, lost = _wanted(pairs, of_row)
    with tempfile.TemporaryDirectory() as folder:
        vectors = QdrantEdgeVectorStore(Path(folder) / "vectors")
        index(entries(kept), embedder=embedder, vectors=vectors)
        ways: dict[str, Search] = {
            "ours": _ours(kept, embedder, vectors),
            "vectors_alone": lambda texts: _near(texts, embedder, vectors),
            "bm25_same_words": _bm25(kept, lambda s: f"{s.name} {s.description} " * 2 + s.body[:BODY]),
            "bm25_whole_text": _bm25(kept, lambda s: f"{s.name} {s.description} {s.body}"),
            "bm25_index_text": _bm25(kept, index_text),
        }
        found = {name: _score(way, wanted) for name, way in ways.items()}
        vectors.close()
    sizes = {"skills": len(kept), "sentences": len(wanted), "pairs": sum(map(len, wanted.values())), "lost": lost}
    return {**sizes, "embedder": embedder.name, **found}


def _wanted(pairs: Path, of_row: dict[str, str | None]) -> tuple[Wanted, int]:
    wanted: Wanted = {}
    lost = 0
    with pairs.open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            ident = of_row.get(line["row"])
            lost += ident is None
            if ident is not None:
                wanted.setdefault(line["hypothesis"], set()).add(ident)
    return wanted, lost


def _ours(skills: Sequence[Skill], embedder: Embedder, vectors: VectorStore) -> Search:
    lexicon = Lexicon.of(skills)

    def find(texts: Sequence[str]) -> list[list[str]]:
        found = search(texts, vectors=vectors, embedder=embedder, lexicon=lexicon, limit=DEPTH)
        return [[hit.id for hit in hits] for hits in found]

    return find


def _near(texts: Sequence[str], embedder: Embedder, vectors: VectorStore) -> list[list[str]]:
    rows = embedder.encode(texts)
    return [[hit.id for hit in hits] for hits in vectors.query(rows.tolist(), limit=DEPTH)]


def _bm25(skills: Sequence[Skill], text: Callable[[Skill], str]) -> Search:
    """A library's BM25, over the same corpus."""
    model = bm25s.BM25()
    model.index(_tokens([text(skill) for skill in skills]), show_progress=False)

    def find(texts: Sequence[str]) -> list[list[str]]:
        found = model.retrieve(_tokens(texts), k=DEPTH, show_progress=False).documents
        return [[skills[int(place)].id for place in row] for row in found]

    return find


def _tokens(texts: Sequence[str]) -> Any:
    return bm25s.tokenize(list(texts), stopwords="en", show_progress=False)


def _score(way: Search, wanted: Wanted) -> dict[str, Any]:
    began = time.process_time()
    ranked = dict(zip(wanted, way(list(wanted)), strict=True))
    spent = time.process_time() - began
    ranks = [
        ranked[sentence].index(ident) + 1 if ident in ranked[sentence] else None
        for sentence, idents in wanted.items()
        for ident in sorted(idents)
    ]
    recall = {f"recall@{cut}": round(sum(r is not None and r <= cut for r in ranks) / len(ranks), 3) for cut in CUTS}
    mrr = round(sum(1 / rank for rank in ranks if rank) / len(ranks), 3)
    return {**recall, "mrr": mrr, "cpu_ms_a_sentence": round(1000 * spent / len(wanted), 2)}


if __name__ == "__main__":
    main()
