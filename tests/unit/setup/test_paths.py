"""Set-up knows its folders from two settings and writes files whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from facet_dagster.settings import ROOT, Settings
from facet_dagster.setup.paths import Places, read_json, write_aside, write_json


def test_home_is_in_the_checkout_and_cache_outside_by_default(tmp_path: Path) -> None:
    places = Places.from_env({"FACET_HOME": ""}, tmp_path)
    assert places.home == tmp_path / ".facet"
    assert places.venv_python == tmp_path / ".facet" / "venv" / "bin" / "python"
    assert places.cache == Path("~/.cache/facet").expanduser()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_what_runs_write_is_not_under_version_control() -> None:
    written = [str(Settings.model_fields["home"].default / "log" / "x"), ".env"]
    done = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == written


def test_settings_may_be_absolute_relative_or_start_at_the_user_home(tmp_path: Path) -> None:
    places = Places.from_env({"FACET_HOME": "~/run", "FACET_CACHE": "kept"}, tmp_path)
    assert places.home == Path("~/run").expanduser()
    assert places.cache == tmp_path / "kept"
    assert Places.from_env({"FACET_HOME": "/data/x"}, tmp_path).home == Path("/data/x")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    with pytest.raises(UnicodeEncodeError):
        write_aside(path, "\ud800")
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_a_broken_or_missing_record_reads_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    assert read_json(tmp_path / "broken.json") is None
    assert read_json(tmp_path / "missing.json") is None
