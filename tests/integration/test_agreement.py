"""The same packages under our trials and under the real Harbor: the same rewards, also for a task that is broken."""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from benchmarks.agreement import Judged, Remembering, accepted, compare, row_of, summary, tried
from benchmarks.sandbox.bare import Bare
from benchmarks.sandbox.timing import Clock
from benchmarks.variants import BROKEN, SOUND, Base, variant
from facet_dagster.proof import HarborTrial, remove_leftovers
from facet_dagster.settings import load_settings
from tests.fixtures import task_example as example

SECONDS = 60.0


@pytest.fixture
def base() -> Base:
    """The example before its build."""
    environment = example.environment().model_copy(update={"attempts": ()})
    return Base(example.draft(), environment, example.SCENARIO, example.SKILLS)


@pytest.mark.docker
@pytest.mark.harbor
def test_harbor_and_our_trials_give_the_same_rewards(base: Base, tmp_path: Path) -> None:
    with closing(Remembering(slots_dir=tmp_path / "slots")) as sandbox:
        sound = accepted(variant([base], list(SOUND).index("comment"), sound=True), sandbox, SECONDS)
        broken = tried(variant([base], list(BROKEN).index("accepts_everything"), sound=False), sandbox, SECONDS)
    assert sound is not None
    rows = compare([sound, broken], tmp_path, load_settings().home, os.environ)
    assert [row["ours"] for row in rows] == [{"oracle": 1, "nop": 0}, {"oracle": 1, "nop": 1}]
    told = summary(rows)
    assert (told["packages"], told["agreements"], told["disagreements"]) == (2, 4, [])


@pytest.mark.docker
def test_the_untagged_images_of_harbor_are_removed_and_no_others(tmp_path: Path) -> None:
    key, other = uuid.uuid4().hex, uuid.uuid4().hex
    with closing(APIClient(version="auto")) as api, closing(Bare(example.BASE)) as bare:
        images = [_untagged(api, bare, f"{name}__abc__verifier__trial") for name in (key, other)]
        remove_leftovers([f"{key}__abc"])
        there = [image for image in images if _is_there(api, image)]
        api.remove_image(images[1])
    assert there == images[1:]


def _untagged(api: Any, bare: Bare, project: str) -> str:
    files = {"Dockerfile": f"FROM {example.BASE}\nLABEL com.docker.compose.project={project}\n".encode()}
    tag, _ = bare.build(Clock(), files)
    ident = str(api.inspect_image(tag)["Id"])
    # The tag goes to another image, as it does when Harbor builds anew.
    other, _ = bare.build(Clock(), {"Dockerfile": f"FROM {example.BASE}\nLABEL x={project}\n".encode()})
    api.tag(other, *tag.split(":"))
    for name in (tag, other):
        api.remove_image(name)
    return ident


def _is_there(api: Any, image: str) -> bool:
    return image in {found["Id"] for found in api.images(filters={"dangling": True})}


def test_a_disagreement_is_told_with_its_evidence(base: Base) -> None:
    item = Judged(variant([base], 0, sound=True), b"", {"oracle": 1, "nop": 0}, ["a check"])
    row = row_of(item, {"oracle": HarborTrial(None, "AgentTimeoutError: 60 s"), "nop": HarborTrial(0.0, "")})
    assert row["harbor_errors"] == {"oracle": "AgentTimeoutError: 60 s", "nop": ""}
    assert row["our_checks"] == ["a check"]
    told = summary([row])
    assert (told["agreements"], told["disagreements"]) == (1, [row])


def test_a_trial_that_harbor_did_not_make_is_a_disagreement(base: Base) -> None:
    item = Judged(variant([base], 0, sound=False), b"", {"oracle": None, "nop": None}, [])
    row = row_of(item, {"oracle": None, "nop": HarborTrial(None, "")})
    assert not row["agree"]


def test_every_edit_meets_every_base(base: Base) -> None:
    other = Base(base.draft.model_copy(update={"seed": "other"}), base.environment, base.scenario, base.skills)
    for edits, sound in ((SOUND, True), (BROKEN, False)):
        found = [variant([base, other], number, sound=sound) for number in range(2 * len(edits))]
        assert {(v.base.draft.seed, v.kind) for v in found} == {
            (s, k) for s in (example.SEED.key, "other") for k in edits
        }
        assert len({v.key for v in found}) == len(found)
