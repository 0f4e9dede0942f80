"""Folders of trials that Harbor's own classes refuse are told as such, and the reader goes on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from facet_dagster.settings import ROOT, load_settings

pytestmark = pytest.mark.harbor
FOLDERS = {
    "another-version": json.dumps({"schema_version": 99, "trial": "x", "score": 1}),
    "cut-in-the-middle": '{"id": "0b6f", "task_name": "facet/x", "trial_na',
    "empty": "",
    "killed": None,
}


def test_every_folder_gets_its_line(tmp_path: Path) -> None:
    marker = load_settings().home / "harbor.json"
    assert marker.is_file(), "Harbor is not set up: run `make verify-harbor`, or deselect the marker `harbor`"
    for name, text in FOLDERS.items():
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "result.json").write_text(text)
    asked = "".join(f"{tmp_path / name}\n" for name in FOLDERS)
    done = subprocess.run(
        [json.loads(marker.read_text())["python"], "-m", "facet_harbor.trials"],
        input=asked, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [Path(line["folder"]).name for line in told] == list(FOLDERS)
    assert all(line["unreadable"] and "reward" not in line for line in told)
