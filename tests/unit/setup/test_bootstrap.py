"""Phase 1 needs nothing but Python, does real work once and says clearly why it cannot."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from facet_dagster.setup.bootstrap import ensure_venv, one_at_a_time
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places, process_env
from facet_dagster.setup.venvs import installed_packages, require_version, usable

ROOT = Path(__file__).resolve().parents[3]


def places_in(folder: Path, lock: str | None) -> Places:
    if lock is not None:
        (folder / "requirements.lock").write_text(lock)
    return Places(repo=folder, home=folder / "home", cache=folder / "cache")


def module(*arguments: str, isolated: bool = False) -> subprocess.CompletedProcess[str]:
    flags = ["-S"] if isolated else []
    argv = [sys.executable, *flags, "-m", "facet_dagster.setup", *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)


def test_the_first_phase_starts_without_any_installed_package() -> None:
    done = module("--help", isolated=True)
    assert done.returncode == 0
    assert "second-base" in done.stdout


def test_an_unknown_extra_is_refused_with_the_known_ones() -> None:
    done = module("--with", "browser,colour")
    assert done.returncode == 2
    assert "'colour' is none of second-base, harbor, browser, trainer" in done.stderr


def test_a_venv_is_made_once_and_then_skipped_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = places_in(tmp_path, "# nothing is pinned\n")
    ensure_venv(places)
    assert usable(places.venv_python, (3, 11))
    assert "pip" in installed_packages(places.venv_python)
    capsys.readouterr()
    started = time.monotonic()
    ensure_venv(places)
    assert time.monotonic() - started < 0.1
    assert "skipped" in capsys.readouterr().out


def test_a_half_made_venv_is_replaced(tmp_path: Path) -> None:
    places = places_in(tmp_path, "")
    places.venv_python.parent.mkdir(parents=True)
    places.venv_python.write_text("#!/bin/sh\nexit 1\n")
    places.venv_python.chmod(0o755)
    (places.venv / "left-over").touch()
    ensure_venv(places)
    assert usable(places.venv_python, (3, 11))
    assert not (places.venv / "left-over").exists()


def test_a_missing_lock_and_an_old_python_are_told(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is missing; restore it"):
        ensure_venv(places_in(tmp_path, None))
    with pytest.raises(SetupError, match=r"is Python 3\.9, but 3\.11 or newer is needed"):
        require_version((3, 11), (3, 9), "/usr/bin/python3")


def test_a_failed_run_of_the_command_is_one_sentence_and_code_1(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    argv = [sys.executable, "-m", "facet_dagster.setup"]
    env = {**process_env(), "FACET_HOME": str(home)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"set-up failed: FACET_HOME {home} cannot be written")
    assert len(done.stderr.splitlines()) == 1


def test_two_set_ups_of_one_home_wait_for_each_other(tmp_path: Path) -> None:
    places = places_in(tmp_path, "")
    code = (
        "import sys; from pathlib import Path; from facet_dagster.setup.bootstrap import one_at_a_time as o;"
        "from facet_dagster.setup.paths import Places; h = Path(sys.argv[1]);\n"
        "with o(Places(h, h / 'home', h)): print('in')"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    with one_at_a_time(places):
        other = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.communicate(timeout=1)
    out, _ = other.communicate(timeout=10)
    assert out.splitlines()[-1] == "in"
