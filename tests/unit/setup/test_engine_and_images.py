"""The engine is asked before anything is done, and base images are recorded as what they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from facet_dagster.setup import images
from facet_dagster.setup.engine import EngineStep, drop_stale_pid_files, engine_version
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.images import DEFAULT_BASE, BaseImage, BaseImageStep, short_refusal
from facet_dagster.setup.paths import Places, read_json


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(repo=tmp_path, home=tmp_path / "home", cache=tmp_path / "cache")


def test_a_named_engine_that_does_not_answer_is_never_replaced(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    step = EngineStep(places)
    assert engine_version() is None
    assert step.needed()
    with pytest.raises(SetupError, match="start that engine or unset DOCKER_HOST"):
        step.run(lambda _: None)
    with pytest.raises(SetupError, match="does not answer"):
        BaseImageStep(places, DEFAULT_BASE).needed()


def test_only_the_pid_file_of_a_dead_engine_is_removed(tmp_path: Path) -> None:
    for pid, command in (("11", "dockerd"), ("12", "bash")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "comm").write_text(command + "\n")
    files = {name: tmp_path / name for name in ("alive", "stranger", "dead", "empty", "missing")}
    for name, text in (("alive", "11"), ("stranger", "12"), ("dead", "13\n"), ("empty", "")):
        files[name].write_text(text)
    drop_stale_pid_files([(file, "dockerd") for file in files.values()], tmp_path / "proc")
    assert sorted(name for name, file in files.items() if file.exists()) == ["alive", "empty"]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ('Get "https://r.example/v2/": dial tcp: lookup r.example: no such host', "no such host"),
        ("manifest unknown.", "manifest unknown"),
        ("", "no reason given"),
    ],
)
def test_a_refusal_is_told_by_its_cause(text: str, short: str) -> None:
    assert short_refusal(text) == short


def test_a_broken_record_counts_as_empty(places: Places) -> None:
    places.home.mkdir()
    (places.home / images.RECORD_NAME).write_text("[1, {")
    assert images.recorded(places) == []


@pytest.mark.docker
def test_the_default_base_is_recorded_once_and_then_left_alone(places: Places) -> None:
    step = BaseImageStep(places, DEFAULT_BASE)
    assert step.needed()
    assert step.run(lambda _: None).state == "done"
    found = images.inspect(DEFAULT_BASE)
    assert found is not None
    assert read_json(places.home / images.RECORD_NAME) == [asdict(found)]
    assert not step.needed()


@pytest.mark.docker
def test_an_image_that_no_registry_has_is_refused_with_a_reason() -> None:
    nowhere = BaseImage("registry.invalid/facet/none:1", "bookworm")
    assert images.inspect(nowhere) is None
    assert images.pull(nowhere)
