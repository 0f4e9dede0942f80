"""The lock is a list of plain pins, and the stamp spares a second look at it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.lock import clean_freeze, digest, normal_name, parse_lock, stamped, unmet, write_stamp

ROOT = Path(__file__).resolve().parents[3]


def test_pins_are_read_with_normal_names() -> None:
    assert parse_lock("# head\nJinja2==3.1.6\ntyping_extensions==4.15.0  # why\n\n") == {
        "jinja2": "3.1.6",
        "typing-extensions": "4.15.0",
    }


@pytest.mark.parametrize(
    "line", ["rich", "rich>=14", "-r other.txt", "torch @ file:///x.whl", "rich==14 --hash=sha256:00"]
)
def test_anything_but_a_pin_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(SetupError, match="line 2 is no pin"):
        parse_lock(f"jinja2==3.1.6\n{line}\n")


def test_a_freeze_loses_local_versions_gpu_libraries_and_editables() -> None:
    freeze = (
        "torch==2.13.0+cpu\nnvidia-cublas-cu12==12.8\ntriton==3.4.0\ncuda-bindings==13.0\n"
        "-e git+https://example.invalid/x#egg=facet_dagster\nfacet-dagster==0.1.0\nsetuptools==80\nRich==14.2.0\n"
    )
    assert parse_lock(clean_freeze(freeze)) == {"torch": "2.13.0", "rich": "14.2.0"}


def test_a_local_version_satisfies_its_public_pin() -> None:
    pins = {"torch": "2.13.0", "typing-extensions": "4.15.0", "rich": "14.2.0"}
    assert unmet(pins, {"torch": "2.13.0+cpu", "Typing_Extensions": "4.15.0", "rich": "14.1.0"}) == ["rich==14.2.0"]


def test_a_stamp_holds_until_a_file_changes(tmp_path: Path) -> None:
    lock, stamp = tmp_path / "lock", tmp_path / "venv" / "stamp"
    lock.write_text("a==1\n")
    assert not stamped(stamp, digest(lock))
    write_stamp(stamp, digest(lock))
    assert stamped(stamp, digest(lock))
    lock.write_text("a==2\n")
    assert not stamped(stamp, digest(lock))


@pytest.mark.parametrize(
    "name", ["requirements.lock", "facet_harbor/requirements.lock", "facet_trainer/requirements.lock"]
)
def test_the_committed_locks_hold_portable_pins_only(name: str) -> None:
    pins = parse_lock((ROOT / name).read_text())
    assert len(pins) > (50 if "trainer" not in name else 5)
    assert not [version for version in pins.values() if "+" in version]
    assert not [package for package in pins if package.startswith(("nvidia", "triton"))]


def test_everything_asked_for_is_locked() -> None:
    pins = parse_lock((ROOT / "requirements.lock").read_text())
    lines = (ROOT / "requirements.in").read_text().splitlines()
    asked = {normal_name(re.split(r"[=<>\[ ]", line)[0]) for line in lines if line and not line.startswith("#")}
    assert asked <= set(pins)
