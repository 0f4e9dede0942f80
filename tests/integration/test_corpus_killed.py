"""Stage 1 on the real ledger and shard: a kill -9 in the middle, and two runs at once, leave corpus and index whole."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from facet_dagster.adapters.cached_embedder import CachedEmbedder
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
from facet_dagster.domain.facts import DecisionFact, StageFact
from facet_dagster.pipeline import skills
from facet_dagster.settings import Settings

pytestmark = pytest.mark.postgres

WORDS = ["gauge", "tide", "harbour", "level", "crane", "ledger", "wagon", "signal", "lantern", "barrel", "anchor"]
SKILLS = 60
PROGRAM = """
    import sys, time
    from pathlib import Path
    from facet_dagster.adapters.cached_embedder import CachedEmbedder
    from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
    from facet_dagster.adapters.memory import HashEmbedder
    from facet_dagster.adapters.postgres_ledger import PostgresLedger
    from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
    from facet_dagster.domain.ids import bucket_keys
    from facet_dagster.funnel import plan, run_stage
    from facet_dagster.pipeline import skills
    from facet_dagster.pipeline.graph import skill_stages
    from facet_dagster.settings import Settings

    url, home = sys.argv[1], Path(sys.argv[2])
    settings, ledger, store = Settings(home=home), PostgresLedger(url), FsspecArtifactStore(str(home / "artifacts"))
    embedder = CachedEmbedder(HashEmbedder(), home / "embeddings")
    print("ready", flush=True)

    def run(stage, compute):
        work = plan(stage, bucket_keys(), ledger).work
        report = run_stage(stage.name, work, compute, ledger=ledger, store=store, emit=lambda _: None, flush=1)
        assert report.failed == {}, report.failed

    run(skill_stages(settings, ledger).skills, skills.skills(settings, ledger=ledger, store=store, embedder=embedder))
    print("curated", flush=True)
    vectors = QdrantEdgeVectorStore(home / "vectors")
    compute = skills.skill_index(settings, ledger=ledger, store=store, embedder=embedder, vectors=vectors)
    run(skill_stages(settings, ledger).skill_index, compute)
    vectors.close()
"""


class Home:
    """An installation with skills in it, and runs over it in processes of their own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.settings, self.ledger = Settings(home=folder), PostgresLedger(url)
        self.store = FsspecArtifactStore(str(folder / "artifacts"))
        skills.ingest(_sources(folder / "sources"), ledger=self.ledger, store=self.store)

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), self.url, str(self.folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str]) -> None:
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-3000:]

    def check(self) -> None:
        """The corpus is whole, the index is what is kept, and no result stands twice."""
        kept = set(skills.kept_skills(self.settings, self.ledger, self.store))
        assert len(kept) == SKILLS
        vectors = QdrantEdgeVectorStore(self.folder / "vectors")
        assert vectors.ids() == kept
        vectors.close()
        results = Counter((fact.stage, fact.key) for fact in self.ledger.find(StageFact))
        assert set(results.values()) == {1}
        assert len(results) == 512
        assert len(self.ledger.find(DecisionFact)) == 256


def _sources(folder: Path) -> Path:
    for number in range(SKILLS + 10):
        body = " ".join(random.Random(number % SKILLS).choices(WORDS, k=150))
        text = f"---\nname: s{number}\ndescription: Keep {number}.\nlicense: MIT\n---\n# Steps\n\n{body}\n"
        (folder / f"skill-{number:03d}").mkdir(parents=True)
        (folder / f"skill-{number:03d}" / "SKILL.md").write_text(text)
    return folder


@pytest.fixture
def home(ledger_url: str, tmp_path: Path) -> Iterator[Home]:
    made = Home(ledger_url, tmp_path)
    yield made
    made.ledger.close()


@pytest.mark.parametrize(("line", "after"), [("ready", 0.4), ("ready", 1.0), ("curated", 0.1), ("curated", 0.5)])
def test_a_run_that_was_killed_is_finished_by_the_next_one(home: Home, line: str, after: float) -> None:
    process = home.start()
    assert process.stdout is not None
    while (said := process.stdout.readline().strip()) != line:
        assert said, "the run ended before it could be killed"
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    home.finish(home.start())
    home.check()


def test_two_runs_at_once_compute_everything_once(home: Home) -> None:
    for process in [home.start(), home.start()]:
        home.finish(process)
    home.check()


def test_a_shard_that_is_damaged_is_filled_again_without_embedding(home: Home) -> None:
    home.finish(home.start())
    for file in (home.folder / "vectors").rglob("*"):
        if file.is_file():
            file.write_bytes(b"junk")

    class Never(HashEmbedder):
        def encode(self, texts: object) -> object:  # type: ignore[override]
            pytest.fail("a vector was computed again")

    with closing(QdrantEdgeVectorStore(home.folder / "vectors")) as vectors:
        embedder = CachedEmbedder(Never(), home.folder / "embeddings")
        ports = {"ledger": home.ledger, "store": home.store, "embedder": embedder, "vectors": vectors}
        assert skills.mend_index(home.settings, **ports) == SKILLS  # type: ignore[arg-type]
    home.check()
