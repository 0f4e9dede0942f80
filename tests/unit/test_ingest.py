"""Ingesting: counts add up to the rows, nothing is stored unmasked, and what failed midway goes on in the next run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from facet_dagster.adapters.memory import HashEmbedder, MemoryArtifactStore, MemoryLedger
from facet_dagster.connect import open_source
from facet_dagster.domain.facts import ArtifactFact, RawSkillFact
from facet_dagster.errors import ConfigError, SourceError
from facet_dagster.pipeline.ingest import Ingested, SourceReport, ingest_sources
from facet_dagster.pipeline.sources import Source, sources_of
from facet_dagster.settings import ROOT, Settings
from facet_dagster.stages.collect import Collected, Unread
from facet_dagster.stages.curate import Policy, curate, masked
from tests.unit.adapters.test_git_repository import Remote

EXAMPLES = ROOT / "examples" / "skills"
BODY = "# Tide\n\nRead the gauge file, take the highest level of each day, and write one line for each harbour.\n"
SECRET = "ghp_" + "a1B2" * 9
LICENSED = f"---\nname: tide\nlicense: MIT\n---\n{BODY}"


class World:
    """A corpus in memory, and a folder with sources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()
        self.settings = Settings(home=folder / "home")

    def skill(self, place: str, text: str | bytes = LICENSED) -> Path:
        file = self.folder / place / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def open(self, source: Source, unread: Unread) -> AbstractContextManager[Iterable[Collected]]:
        return open_source(self.settings, source, unread)

    def ingest(self, *named: Path | str, policy: Policy | None = None) -> Ingested:
        sources = [source for name in named for source in sources_of(str(name))]
        return ingest_sources(
            sources, open_source=self.open, ledger=self.ledger, store=self.store, policy=policy or Policy()
        )

    def raw(self) -> list[RawSkillFact]:
        return self.ledger.find(RawSkillFact)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_outcomes_add_up_to_the_rows_of_the_bundled_skills(world: World) -> None:
    report = world.ingest(EXAMPLES)
    assert (report.rows, report.new, report.total) == (71, 71, 71)
    assert sum(report.outcomes.values()) == report.rows
    assert report.outcomes["kept"] == sum(report.licences.values()) == 62  # two of them are duplicates
    assert report.outcomes["skill.oversized"] == 1
    again = world.ingest(EXAMPLES)
    assert (again.new, again.total, again.outcomes) == (0, 71, {"known": 71})


def test_every_stored_text_is_there_and_is_what_its_row_says(world: World) -> None:
    world.ingest(EXAMPLES)
    for fact in world.raw():
        assert world.store.has(fact.value["text"])
    assert {fact.sha256 for fact in world.ledger.find(ArtifactFact)} == {fact.value["text"] for fact in world.raw()}


def test_nothing_secret_is_stored_and_the_id_is_that_of_the_original(world: World, tmp_path: Path) -> None:
    text = f"\ufeff---\r\nname: tide\r\nlicense: MIT\r\n---\r\n{BODY}\r\nUse {SECRET}, ask anna@harbour.org.\r\n"
    file = world.skill("skills/bert@harbour.org/tide", text)
    (file.parent / "LICENSE").write_text("MIT License\n\nCopyright 2026 Anna <anna@harbour.org>\n")
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts" / "anna@harbour.org.py").touch()
    world.ingest(tmp_path / "skills")
    [fact] = world.raw()
    stored = world.store.get(fact.value["text"]).decode()
    for secret in (SECRET, "anna@", "bert@"):
        assert secret not in stored + json.dumps(fact.value) + repr(world.ledger.ancestors(fact.skill))
    unmasked = World(tmp_path / "other")
    with unmasked.open(sources_of(str(tmp_path / "skills"))[0], print) as collected:
        [(raw, data)] = collected
    assert raw.id == fact.skill
    assert raw.text != fact.value["text"]
    before, after = (curate([one], embedder=HashEmbedder())[0].skill for one in ((raw, data), masked(raw, data)))
    assert before is not None
    assert after is not None
    assert (after.name, after.body, set(after.notes)) == (before.name, before.body, set(before.notes))


def test_a_text_without_secrets_is_stored_byte_for_byte(world: World, tmp_path: Path) -> None:
    data = b"\xff\xfe" + LICENSED.encode("utf-16-le")
    world.skill("skills/a/tide", data)
    world.ingest(tmp_path / "skills")
    [fact] = world.raw()
    assert world.store.get(fact.value["text"]) == data
    assert "notes" not in fact.value


def test_licences_and_languages_are_policy(world: World, tmp_path: Path) -> None:
    world.skill("skills/a/one")
    world.skill("skills/a/two", LICENSED.replace("MIT", "GPL-3.0"))
    world.skill("skills/a/three", BODY)
    world.skill(
        "skills/a/four", "---\nlicense: MIT\n---\n# Tabelle\n\n" + "Das ist die Tabelle der Gezeiten und nicht. " * 5
    )
    strict = world.ingest(tmp_path / "skills", policy=Policy(frozenset({"MIT"}), languages=frozenset({"en"})))
    assert strict.outcomes == {"kept": 1, "skill.language": 1, "skill.licence": 2}
    other = World(tmp_path / "again")
    wide = other.ingest(tmp_path / "skills", policy=Policy(frozenset({"MIT", "GPL-3.0"}), unknown_licence=True))
    assert wide.outcomes == {"kept": 4}
    assert wide.licences == {"GPL-3.0": 1, "MIT": 2, "NOASSERTION": 1}


def test_a_registry_rule_is_evidence_and_a_packages_own_licence_counts_more(world: World, tmp_path: Path) -> None:
    world.skill("archive/anna/one", BODY)
    world.skill("archive/anna/two", LICENSED.replace("MIT", "Proprietary"))
    (tmp_path / "archive" / "LICENSE").write_text("GNU AFFERO GENERAL PUBLIC LICENSE")
    (tmp_path / "sources.yaml").write_text("sources:\n  - folder: archive\n    registry: clawhub\n")
    report = world.ingest(tmp_path / "sources.yaml")
    assert report.outcomes == {"kept": 1, "skill.licence": 1}
    assert report.licences == {"MIT-0": 1}
    [hint] = {fact.value["licence_hint"] for fact in world.raw()}
    assert hint.startswith("registry rule (ClawHub publishes every skill under MIT-0): MIT-0\nrepository LICENSE: GNU")


def test_a_source_that_vanishes_midway_keeps_what_was_read_and_goes_on_later(world: World, tmp_path: Path) -> None:
    for number in range(3):
        world.skill(f"skills/a/s{number}", LICENSED + f"Number {number}.\n")

    @contextmanager
    def vanishing(source: Source, unread: Unread) -> Iterator[Iterable[Collected]]:
        with world.open(source, unread) as collected:
            yield _then_gone(collected, tmp_path / "skills")

    sources = sources_of(str(tmp_path / "skills"))
    report = ingest_sources(sources, open_source=vanishing, ledger=world.ledger, store=world.store, policy=Policy())
    assert report.outcomes == {"kept": 1}
    assert "vanished while it was read; what was read is kept" in report.errors[0]
    (tmp_path / "moved").rename(tmp_path / "skills")
    assert world.ingest(tmp_path / "skills").outcomes == {"kept": 2, "known": 1}


def _then_gone(collected: Iterable[Collected], folder: Path) -> Iterator[Collected]:
    for number, item in enumerate(collected):
        yield item
        if number == 0:
            folder.rename(folder.with_name("moved"))


def test_one_file_that_cannot_be_read_is_counted_and_named(world: World, tmp_path: Path) -> None:
    world.skill("skills/a/one")
    lost = world.skill("skills/a/two")

    @contextmanager
    def opened(source: Source, unread: Unread) -> Iterator[Iterable[Collected]]:
        with world.open(source, unread) as collected:
            lost.unlink()  # after the folder was listed
            yield collected

    sources = sources_of(str(tmp_path / "skills"))
    report = ingest_sources(sources, open_source=opened, ledger=world.ledger, store=world.store, policy=Policy())
    assert report.outcomes == {"kept": 1, "not_read": 1}
    assert report.sources[0].problems == ("a/two/SKILL.md: No such file or directory",)


class Presence:
    """What an ingest told of skills that are there and that are gone."""

    def __init__(self) -> None:
        self.told = dict[bool, list[str]]()

    def __call__(self, ids: Sequence[str], there: bool) -> int:
        self.told[there] = list(ids)
        return len(ids)


def told_by(world: World, source: Source) -> tuple[SourceReport, dict[bool, list[str]]]:
    presence = Presence()
    report = ingest_sources(
        [source],
        open_source=world.open,
        ledger=world.ledger,
        store=world.store,
        policy=Policy(),
        presence=presence,
    )
    return report.sources[0], presence.told


def ids_of(world: World) -> dict[str, str]:
    return {fact.value["slug"]: fact.skill for fact in world.raw()}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_a_repository_holds_no_more_is_told_once_it_was_read_to_the_end(world: World, tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    for name in ("one", "two"):
        remote.write(f"a/{name}/SKILL.md", LICENSED + name)
    remote.commit()
    first, _ = told_by(world, Source(git=(remote.url,)))
    old = ids_of(world)
    remote.write("a/two/SKILL.md", LICENSED + "edited")
    commit = remote.commit()
    second, told = told_by(world, Source(git=(remote.url,)))
    assert (first.gone, second.gone, second.commit) == (0, 1, commit)
    assert second.outcomes == {"kept": 1, "known": 1}
    assert told == {False: [old["two"]], True: sorted({old["one"], ids_of(world)["two"]})}
    assert list((world.settings.home / "sources").iterdir()) == []


def test_a_skill_is_gone_when_no_source_holds_it(world: World, tmp_path: Path) -> None:
    for place in ("here/a/one", "here/a/two", "there/a/one"):
        world.skill(place, LICENSED + place.rpartition("/")[2])
    here, there = Source(folder=tmp_path / "here"), Source(folder=tmp_path / "here" / ".." / "there")
    told_by(world, here)
    assert told_by(world, there)[0].outcomes == {"known": 1}
    ids = ids_of(world)
    for name in ("one", "two"):
        shutil.rmtree(tmp_path / "here" / "a" / name)
    world.skill("here/a/three", LICENSED + "three")
    _, told = told_by(world, here)
    assert told[False] == [ids["two"]]
    assert told[True] == [ids_of(world)["three"]]


def test_a_source_that_fails_does_not_stop_the_others(world: World, tmp_path: Path) -> None:
    world.skill("good/a/one")
    (tmp_path / "sources.yaml").write_text(
        f"sources:\n  - folder: missing\n  - git: file://{tmp_path}/nowhere\n  - folder: good\n"
    )
    report = world.ingest(tmp_path / "sources.yaml")
    assert [bool(one.error) for one in report.sources] == [True, True, False]
    assert (report.rows, report.new, len(report.errors)) == (1, 1, 2)


@pytest.mark.parametrize(("named", "error"), [("missing", ConfigError), ("file:///nowhere", SourceError)])
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_single_source_that_gives_nothing_raises(
    world: World, tmp_path: Path, named: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        world.ingest(named if "://" in named else tmp_path / named)
