"""In which order task images go, where the engine's own list cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.adapters.docker_disk import DiskGuard, DiskLimits
from facet_dagster.adapters.docker_engine import Engine
from facet_dagster.adapters.docker_holds import Holds
from tests.fixtures.fake_engine import fake_engine


def test_images_of_one_second_go_in_the_order_in_which_they_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"b": "05.1Z", "c": "05.10000001Z", "a": "05Z", "gone": None, "z": "04.9Z"}
    listed = [
        {"Id": name, "Created": 4 if name == "z" else 5, "RepoTags": [f"facet-task:{name}"]} for name in sorted(made)
    ]
    answers = {
        f"GET /images/{name}/json": [
            (404, {"message": "no"}) if at is None else (200, {"Created": f"2026-01-01T00:00:{at}"})
        ]
        for name, at in made.items()
    }
    with fake_engine(tmp_path, {"GET /images/json": [(200, listed)], **answers}) as (engine, host):
        monkeypatch.setenv("DOCKER_HOST", host)
        client = Engine(workers=1)
        guard = DiskGuard(client, Holds(tmp_path), DiskLimits(), tmp_path)
        assert guard._oldest_first() == [f"facet-task:{name}" for name in ("z", "gone", "a", "b", "c")]
        assert "GET /images/z/json" not in engine.asked, "alone in its second"
        client.close()
