"""Only what changed is read again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from facet_dagster.connect import look_at, open_source
from facet_dagster.domain.facts import SourceFact
from facet_dagster.pipeline.changed import Gathered, ingest_changed
from facet_dagster.pipeline.sources import Source, sources_of
from facet_dagster.stages.collect import Collected, Unread, folder_state
from facet_dagster.stages.curate import Policy
from tests.unit.adapters.test_git_repository import Remote
from tests.unit.test_ingest import LICENSED, World

LATER = 2**40


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def gather(world: World, *sources: Source, policy: Policy | None = None) -> tuple[Gathered, list[str]]:
    """What an ingest gave, and which sources it opened."""
    opened = list[str]()

    def look(source: Source) -> str:
        return folder_state(source.folder, now=LATER) if source.folder else look_at(world.settings, source)

    def open_(source: Source, unread: Unread) -> AbstractContextManager[Iterable[Collected]]:
        opened.append(source.label)
        return open_source(world.settings, source, unread)

    found = ingest_changed(
        sources,
        look=look,
        open_source=open_,
        ledger=world.ledger,
        store=world.store,
        policy=policy or Policy(),
        presence=lambda ids, there: 0,
    )
    return found, opened


def folders(world: World, *names: str) -> list[Source]:
    for name in names:
        world.skill(f"{name}/tide", LICENSED.replace("Tide", name))
    return [Source(folder=world.folder / name) for name in names]


def test_an_unchanged_folder_is_not_opened_and_a_changed_one_is(world: World) -> None:
    first, second = folders(world, "one", "two")
    found, opened = gather(world, first, second)
    assert found.report is not None
    assert (found.report.new, found.unchanged, len(opened)) == (2, 0, 2)
    assert gather(world, first, second) == (Gathered(None, 2, []), [])
    world.skill("two/more", LICENSED.replace("Tide", "more"))
    found, opened = gather(world, first, second)
    assert found.report is not None
    assert (found.report.new, found.unchanged, opened) == (1, 1, [second.label])


def test_a_file_of_the_same_size_and_time_is_still_another(world: World) -> None:
    [source] = folders(world, "one")
    gather(world, source)
    file = world.folder / "one" / "tide" / "SKILL.md"
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_text(file.read_text().replace("gauge", "ledge"))
    os.utime(file, ns=times)
    assert gather(world, source)[1] == [source.label]


def test_a_folder_that_just_changed_has_no_state_yet(world: World) -> None:
    [source] = folders(world, "one")
    assert source.folder is not None
    now = (world.folder / "one" / "tide" / "SKILL.md").stat().st_ctime
    assert folder_state(source.folder, now=now + 1.0) == ""
    assert folder_state(source.folder, now=now + 3.0) != ""


def test_other_rules_read_everything_again(world: World) -> None:
    [source] = folders(world, "one")
    gather(world, source)
    assert gather(world, source, policy=Policy(languages=frozenset({"en"})))[1] == [source.label]


def test_a_source_that_fails_is_told_and_read_again(world: World) -> None:
    [good] = folders(world, "one")
    bad = Source(folder=world.folder / "nowhere")
    for _ in range(2):
        found, opened = gather(world, good, bad)
        assert bad.label in opened
        assert any("nowhere" in error for error in found.errors)
    assert [fact.source for fact in world.ledger.find(SourceFact)] == [good.name]
    found, _ = gather(world, bad)
    assert found.report is None
    assert "nowhere" in found.errors[0]


def test_a_repository_is_asked_for_its_commit_and_fetched_when_that_is_new(world: World, tmp_path: Path) -> None:
    remote = Remote(tmp_path / "remote")
    remote.write("tide/SKILL.md", LICENSED)
    remote.commit()
    [source] = sources_of(remote.url)
    state = partial(look_at, world.settings, source)
    assert gather(world, source)[1] == [source.label]
    before = state()
    assert gather(world, source)[1] == []
    remote.write("more/SKILL.md", LICENSED.replace("Tide", "more"))
    remote.commit()
    assert state() != before
    assert gather(world, source)[1] == [source.label]
