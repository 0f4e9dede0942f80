"""A Python is what it says when it runs, not what its file is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from facet_dagster.setup.harbor import no_python_message
from facet_dagster.setup.pythons import Interpreter, ask, candidates, choose, find


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def claims(path: Path, version: str) -> Path:
    return script(path, f"echo {path}; echo {version}")


def test_candidates_are_named_like_a_python_and_come_once(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    wanted = [claims(bin_folder / "python3", "3 11 2"), claims(bin_folder / "python3.12", "3 12 1")]
    script(bin_folder / "python3-config", "exit 1")
    script(bin_folder / "pythonw3.12", "exit 1")
    pyenv = claims(tmp_path / ".pyenv" / "versions" / "3.13.0" / "bin" / "python3", "3 13 0")
    path = os.pathsep.join([str(bin_folder), str(tmp_path / "missing"), str(bin_folder)])
    assert candidates(path, tmp_path) == [*wanted, pyenv]


def test_the_running_interpreter_tells_its_version() -> None:
    found = ask(Path(sys.executable))
    assert found is not None
    assert found.version == sys.version_info[:3]


def test_a_shim_without_its_version_is_no_python(tmp_path: Path) -> None:
    assert ask(script(tmp_path / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")) is None
    assert ask(script(tmp_path / "python3.13", "echo Python 3.13")) is None
    assert ask(tmp_path / "python3.14") is None


def test_the_oldest_new_enough_release_at_its_latest_patch_is_chosen() -> None:
    found = [Interpreter(Path(f"/p/{i}"), v) for i, v in enumerate([(3, 11, 9), (3, 13, 0), (3, 12, 1), (3, 12, 7)])]
    chosen = choose(found, (3, 12))
    assert chosen is not None
    assert chosen.version == (3, 12, 7)
    assert choose(found, (3, 14)) is None


def test_finding_looks_behind_a_lying_name(tmp_path: Path) -> None:
    claims(tmp_path / "bin" / "python3.12", "3 11 4")
    real = claims(tmp_path / ".pyenv" / "versions" / "mine" / "bin" / "python3", "3 13 1")
    assert find((3, 12), str(tmp_path / "bin"), tmp_path) == Interpreter(real, (3, 13, 1))


def test_the_message_without_a_python_says_what_to_install() -> None:
    assert "3.12 or newer" in no_python_message()
    assert "run this again" in no_python_message()
