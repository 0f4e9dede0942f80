"""Stage 1 at the size of the paper's corpus: from collected files to the index, against embedding alone.

``python -m benchmarks.skills --sample FILE.parquet [--size 71341]`` makes a corpus out of the sample's rows (see
``corpus``), ingests it into a home folder of its own, and prints one JSON object. Everything but ingesting is timed:
the first run, the same again, the same with 200 new skills, and filtered queries; ``bare`` is sentence-transformers
alone on some of the same texts, taken in turns with ours. With ``--stand-in`` vectors are made of hashes (the model is
loaded all the same, for its memory): all but embedding at full size within minutes, and embedding is projected from
the rate that ``bare`` measures.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil

from facet_dagster import connect
from facet_dagster.adapters.cached_embedder import CachedEmbedder
from facet_dagster.adapters.sentence_transformers_embedder import BATCH, DIMENSION, SentenceTransformersEmbedder
from facet_dagster.domain.ids import bucket_keys, digest
from facet_dagster.funnel import Compute, Stage, plan, run_stage
from facet_dagster.pipeline import skills as pipeline
from facet_dagster.pipeline.corpus import decide
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.ports import ArtifactStore, Embedder, Ledger, Vectors, VectorStore
from facet_dagster.settings import Settings

SIZE = 71_341
NEW = 200
QUERIES = 500
RATED = 2_000
LIMIT = 20
COPIES = (("exact", 0.06), ("reflowed", 0.08), ("edited", 0.10))  # shares of the corpus; the rest is recombined
PARTS = 6


def corpus(sample: Path, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows of a table that ``facet ingest`` reads: real heads over bodies recombined from real sections.

    A share of them are copies of an earlier row: the same file elsewhere, other blanks and case, 1 to 8 % other words.
    """
    chance = random.Random(seed)
    texts = [text for text in pl.read_parquet(sample)["text"].to_list() if len(text) > 500]
    sections = [part for text in texts for part in text.split("\n## ")[1:] if 100 < len(part) < 8_000]
    heads = [text.split("\n## ")[0][:3_000] for text in texts]
    words = [word for text in texts[:200] for word in text.split() if word.isalpha()]
    made: list[str] = []
    for number in range(size):
        text = _copy(made, words, chance) if number > PARTS else ""
        if not text:
            picked = chance.sample(sections, chance.randint(1, PARTS))
            text = "\n## ".join([f"{chance.choice(heads)}\n\nEdition {chance.getrandbits(40):x}.", *picked])
            made.append(text)
        folder = f"skill-{number:06d}"
        yield {"repo": f"owner-{number % 997}/{folder}", "path": f"{folder}/SKILL.md", "text": text, "license": "MIT"}


def _copy(made: Sequence[str], words: Sequence[str], chance: random.Random) -> str:
    draw, text = chance.random(), chance.choice(made) if made else ""
    for kind, share in COPIES:
        if draw < share:
            head, fence, body = text.partition("\n---\n") if text.startswith("---") else ("", "", text)
            if kind == "reflowed":
                body = body.replace(" the ", "  The ").replace("\n\n", "\n\n\n")
            elif kind == "edited":
                parts = body.split(" ")
                for _ in range(int(len(parts) * chance.uniform(0.005, 0.04))):
                    parts[chance.randrange(len(parts))] = chance.choice(words)
                body = " ".join(parts)
            return head + fence + body
        draw -= share
    return ""


def write(sample: Path, size: int, seed: int, home: Path) -> None:
    """The corpus as a table, then with 200 more, and its files where ingesting will put them.

    Ingesting is not what is measured: so its files need not reach the disk one by one.
    """
    rows = list(corpus(sample, size + NEW, seed))
    pl.DataFrame(rows[:size]).write_parquet(home / "corpus.parquet")
    pl.DataFrame(rows[size:]).write_parquet(home / "new.parquet")
    for row in rows[:size]:
        data = row["text"].encode()
        sha = digest(data)
        path = home / "artifacts" / sha[:2] / sha[2:4] / sha
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class StandIn:
    """Unit vectors out of hashes: nothing is near anything."""

    name = "stand-in"

    def encode(self, texts: Sequence[str]) -> Vectors:
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        rows = np.stack([np.random.Generator(np.random.SFC64(seed)).standard_normal(DIMENSION) for seed in seeds])
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


class Timed:
    """An embedder that knows how long it was at work."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.name = inner.name
        self.seconds = self.cpu = 0.0
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        with clock() as spent:
            rows = self._inner.encode(texts)
        self.seconds, self.cpu = self.seconds + spent["seconds"], self.cpu + spent["cpu"]
        self.texts += texts
        return rows


@contextmanager
def clock() -> Iterator[dict[str, float]]:
    """Wall and processor seconds of the block, of this process and of its children that ended."""
    spent: dict[str, float] = {}
    wall, cpu = time.monotonic(), _cpu()
    yield spent
    spent |= {"seconds": time.monotonic() - wall, "cpu": _cpu() - cpu}


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Peak:
    """The most memory that this process and its children had at once (proportional set size, bytes)."""

    def __init__(self) -> None:
        self.bytes = 0
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
            self.bytes = max(self.bytes, sum(map(_memory, processes)))

    def stop(self) -> int:
        self._over.set()
        return self.bytes


def _memory(process: psutil.Process) -> int:
    try:
        return 0 if process.name() == "postgres" else int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


class Bench:
    """One home folder with a corpus in it."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home)
        self.ledger: Ledger = connect.open_ledger(self.settings)
        self.store: ArtifactStore = connect.open_store(self.settings)
        self.steps: dict[str, dict[str, float]] = {}

    def ingest(self, file: Path) -> None:
        pipeline.ingest(file, ledger=self.ledger, store=self.store)

    def run(self, name: str, timed: Timed) -> dict[str, Any]:
        """Stages skills and skill_index for all buckets, with ports opened anew as a new process has them."""
        timed.seconds, timed.cpu, timed.texts = 0.0, 0.0, []
        embedder = CachedEmbedder(timed, self.settings.home / "embeddings")
        with clock() as spent, connect.open_vectors(self.settings) as vectors:
            graph, ports = skill_stages(self.settings, self.ledger), {"ledger": self.ledger, "store": self.store}
            with self._step(name, "decide"):
                decide(self.settings, **ports, embedder=embedder)
            with self._step(name, "skills"):
                self._stage(graph.skills, pipeline.skills(self.settings, **ports, embedder=embedder))
            with self._step(name, "skill_index"):
                compute = pipeline.skill_index(self.settings, **ports, embedder=embedder, vectors=vectors)
                computed = self._stage(graph.skill_index, compute)
        found = {**spent, "embedding_seconds": timed.seconds, "embedding_cpu": timed.cpu, "embedded": len(timed.texts)}
        return {**{name: round(value, 2) for name, value in found.items()}, "buckets": computed}

    @contextmanager
    def _step(self, run: str, step: str) -> Iterator[None]:
        with clock() as spent:
            yield
        self.steps[f"{run}/{step}"] = {name: round(value, 2) for name, value in spent.items()}
        print(run, step, self.steps[f"{run}/{step}"], file=sys.stderr, flush=True)

    def _stage(self, stage: Stage, compute: Compute) -> int:
        work = plan(stage, bucket_keys(), self.ledger).work
        report = run_stage(
            stage.name, work, compute, ledger=self.ledger, store=self.store, emit=lambda _: None, workers=1
        )
        assert not report.failed, report.failed
        return report.computed


def queries(embedder: Embedder, texts: Sequence[str], vectors: VectorStore) -> dict[str, float]:
    rows = embedder.encode(list(texts)).tolist()
    vectors.query(rows[:10], limit=LIMIT, where={"family": "data"})
    found = {}
    for name, where in (("filtered", {"family": "software"}), ("unfiltered", None)):
        with clock() as spent:
            for start in range(0, len(rows), 100):
                vectors.query(rows[start : start + 100], limit=LIMIT, where=where)
        found[f"{name}_cpu_ms"] = round(1_000 * spent["cpu"] / len(rows), 2)
        found[f"{name}_ms"] = round(1_000 * spent["seconds"] / len(rows), 2)
    return found


def bare(ours: SentenceTransformersEmbedder, texts: Sequence[str]) -> dict[str, float]:
    """Texts per processor second: ours, and the library alone with the same model and number format."""
    model: Any = ours._model  # the very same weights and format
    ways: dict[str, Callable[[list[str]], Any]] = {
        "bare": lambda some: model.encode(some, batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False)
    }
    spent = {"ours": 0.0, "bare": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        ways["ours"] = CachedEmbedder(ours, Path(folder)).encode
        for start in range(0, len(texts), 1_000):
            for name in sorted(ways, reverse=bool(start // 1_000 % 2)):
                with clock() as one:
                    ways[name](list(texts[start : start + 1_000]))
                spent[name] += one["cpu"]
    rates = {name: round(len(texts) / used, 1) for name, used in spent.items()}
    return {**rates, "ratio": round(rates["ours"] / rates["bare"], 3), "texts": len(texts)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.skills", description=__doc__)
    parser.add_argument("--sample", type=Path, required=True, help="a table of skills with a column text")
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="home folder, kept; default: a temporary one")
    parser.add_argument("--stand-in", action="store_true", help="vectors out of hashes instead of the model's")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="facet-bench-", ignore_cleanup_errors=True) as folder:
        home = options.folder or Path(folder)
        print(json.dumps(measure(options, home), indent=1))
    return 0


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    sample, size, seed = options.sample, options.size, options.seed
    home.mkdir(parents=True, exist_ok=True)
    model = SentenceTransformersEmbedder()
    model.encode(["warm"])
    bench, timed = Bench(home), Timed(StandIn() if options.stand_in else model)
    maker = multiprocessing.get_context("spawn").Process(target=write, args=(sample, size, seed, home))
    maker.start()  # a process of its own, so that its memory is not counted
    maker.join()
    with clock() as ingesting:
        bench.ingest(home / "corpus.parquet")
    peak = Peak()
    first = bench.run("first", timed)
    texts = random.Random(seed).sample(timed.texts, min(RATED, len(timed.texts)))
    again = bench.run("again", timed)
    bench.ingest(home / "new.parquet")
    more = bench.run("new", timed)
    memory = peak.stop()
    with connect.open_vectors(bench.settings) as vectors:
        asked = queries(timed, texts[:QUERIES], vectors)
        points = len(vectors.ids())
    rates = bare(model, texts)
    connect.stop_postgres(bench.settings)
    return {
        "size": size,
        "indexed": points,
        "ingest_seconds": round(ingesting["seconds"], 1),
        "first": first,
        "again": again,
        "new_200": more,
        "ratios": {
            **to_embedding(first, rates["bare"] if options.stand_in else 0.0),
            "again_to_first": round(again["seconds"] / first["seconds"], 4),
            "new_200_to_first": round(more["seconds"] / first["seconds"], 4),
        },
        "peak_memory_gb": round(memory / 1e9, 2),
        "queries": asked,
        "embedding_rate": rates,
        "steps": bench.steps,
    }


def to_embedding(first: dict[str, Any], rate: float) -> dict[str, float]:
    """The first run against embedding alone, in wall and in processor seconds.

    With ``rate`` (texts a processor second) what embedding would take is projected, on two idle cores.
    """
    if not rate:
        spent = {"": "seconds", "_cpu": "cpu"}
        return {f"first_to_embedding{n}": round(first[k] / first[f"embedding_{k}"], 3) for n, k in spent.items()}
    cpu = first["embedded"] / rate
    rest = {name: first[name] - first[f"embedding_{name}"] for name in ("seconds", "cpu")}
    return {
        "besides_embedding_seconds": round(rest["seconds"], 1),
        "besides_embedding_cpu": round(rest["cpu"], 1),
        "projected_embedding_cpu": round(cpu, 1),
        "projected_first_to_embedding_cpu": round(1 + rest["cpu"] / cpu, 3),
        "projected_first_to_embedding": round(1 + rest["seconds"] / (cpu / 2), 3),
    }


if __name__ == "__main__":
    sys.exit(main())
