"""`facet ingest`: the real command on a real ledger; two at once, one that is killed, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from facet_dagster.connect import open_ledger, open_store
from facet_dagster.domain.facts import RawSkillFact
from facet_dagster.settings import ROOT, Settings
from tests.conftest import Databases
from tests.e2e.conftest import FACET, Installation

pytestmark = pytest.mark.postgres
EXAMPLES = ROOT / "examples" / "skills"
TEXT = """\
---
name: tide-{0}
license: MIT
---
# Tide {0}

Read gauge file {0}, take the highest level of each day, and write one line for each harbour.
"""


@pytest.fixture
def home(databases: Databases) -> Iterator[Installation]:
    url = databases.new_migrated()
    with tempfile.TemporaryDirectory(prefix="facet-ingest-") as folder:
        yield Installation(Path(folder), {"FACET_POSTGRES_URL": url})
    databases.drop(url)


def settings_of(home: Installation) -> Settings:
    return Settings(home=home.home, postgres_url=home.settings["FACET_POSTGRES_URL"])


def start(home: Installation, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(FACET), *arguments], env=home.environment(), cwd=home.home, stdout=subprocess.PIPE, text=True
    )


def many(folder: Path, count: int) -> Path:
    for number in range(count):
        file = folder / f"s{number}" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(TEXT.format(number))
    return folder


def whole(home: Installation) -> int:
    """Number of skills, each of which has its text."""
    settings = settings_of(home)
    facts, store = open_ledger(settings).find(RawSkillFact), open_store(settings)
    assert all(store.has(fact.value["text"]) for fact in facts)
    return len({fact.skill for fact in facts})


def test_two_at_once_count_each_skill_once(home: Installation) -> None:
    both = [start(home, "ingest", str(EXAMPLES), "--json") for _ in range(2)]
    said = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(one["new"] for one in said) == [0, 71]
    assert [sum(one["outcomes"].values()) for one in said] == [71, 71]
    assert whole(home) == 71


def test_a_killed_ingest_leaves_a_whole_corpus_and_the_next_one_goes_on(home: Installation, tmp_path: Path) -> None:
    skills = many(tmp_path / "skills", 1_500)
    process = start(home, "ingest", str(skills), "--json")
    store = home.home / "artifacts"
    while process.poll() is None and not (store.is_dir() and sum(len(f) for _, _, f in os.walk(store)) > 300):
        time.sleep(0.05)
    process.kill()
    process.communicate()
    before = whole(home)
    assert before < 1_500
    said = home.json("ingest", str(skills))
    assert said["outcomes"] == {"kept": 1_500 - before, **({"known": before} if before else {})}
    assert whole(home) == 1_500


def test_names_and_texts_that_a_database_does_not_take_are_stored(home: Installation, tmp_path: Path) -> None:
    package = many(tmp_path / "skills", 1) / "s0"
    (package / "LICENSE").write_bytes("MIT License".encode("utf-16"))
    (package / "_meta.json").write_text(json.dumps({"owner": "an\0na", "slug": "\ud83c"}))
    (package / "scripts").mkdir()
    Path(os.fsdecode(os.fsencode(package / "scripts") + b"/\xff.py")).touch()
    table = tmp_path / "skills.jsonl"
    row = {"repo": "a\0/b", "path": "x\ud83c/SKILL.md", "text": TEXT.format(1) + "\0", "license": "M\0IT"}
    table.write_text(json.dumps(row) + "\nno json\n")
    assert home.json("ingest", str(tmp_path / "skills"))["outcomes"] == {"kept": 1}
    assert home.json("ingest", str(table))["outcomes"] == {"kept": 1, "not_read": 1}
    assert whole(home) == 2


def test_what_it_says_and_how_it_leaves(home: Installation, tmp_path: Path) -> None:
    many(tmp_path / "good", 2)
    sources = tmp_path / "sources.yaml"
    sources.write_text("sources:\n  - folder: good\n  - folder: missing\n")
    done = home.call("ingest", "--json", FACET_SOURCES=str(sources))
    said = json.loads(done.stdout)
    assert (done.returncode, said["outcomes"], said["rows"]) == (1, {"kept": 2}, 2)
    assert "1 of 2 sources could not be read to the end" in done.stderr
    assert "missing is not a folder" in done.stderr.replace("\n", " ")
    text = home.call("ingest", str(tmp_path / "good")).stdout
    assert "known" in text
    assert "0 new skills, 2 in all" in text
