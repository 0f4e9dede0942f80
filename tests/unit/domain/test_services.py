from __future__ import annotations

import subprocess

import pytest
from pydantic import ValidationError

from facet_dagster.domain.dockerfile import environment_dockerfile, environment_executables, environment_files
from facet_dagster.domain.environment import E0, ManifestReply, PlannedFile, Recipe, RunningService, Service
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.services import exposed, look_at, seen, services_script, set_up_script, start_seconds
from facet_dagster.domain.task import CollectCommand, Draft
from facet_dagster.domain.trial import Trial
from tests.fixtures import task_example as example
from tests.fixtures.service_cases import NAMES, load

BASE = "python:3.11-slim-bookworm"
WEB = Service(name="web", command="exec web --say 'it''s $HOME'", healthcheck="ask web", ports=(80,))
TABLES = """\
process web
process web
process worker
socket 4711
socket 4712
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100
   1: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 9999 1 0000000000000000 100
   2: 0100007F:8000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 20
   0: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
00000000  1000        0 4712 1 0000000000000000 100
garbage
"""


def test_values_without_services_are_written_as_before() -> None:
    assert to_json(Recipe(packages=(), rules_file="r", files=())) == (
        '{"files":[],"generator":"","packages":[],"rows":[],"rules_file":"r"}'
    )
    assert "services" not in E0(workdir="/app", files=(), tools=()).model_dump()
    assert "services" not in E0(workdir="/app", files=(), tools=()).view()
    assert "collect" not in example.draft().model_dump_json()
    program = {"end": "exited", "exit_code": 0, "output": "", "seconds": 0.0}
    trial = Trial.model_validate(
        {"kind": "oracle", "reward": 1, "checks": (), "solution": None, "verifier": program, "seconds": 1.0}
    )
    assert set(trial.model_dump()) == {"kind", "reward", "checks", "solution", "verifier", "seconds"}


def test_values_with_services_come_back_whole() -> None:
    recipe = Recipe(packages=(), rules_file="r", files=(), services=(WEB,))
    draft = example.draft(collect=(CollectCommand(command="x > /logs/artifacts/y"),))
    e0 = E0(workdir="/app", files=(), tools=(), services=(RunningService(name="a", ports=(1,), processes=("p",)),))
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert Draft.model_validate_json(draft.model_dump_json()) == draft
    assert E0.model_validate_json(e0.model_dump_json()) == e0


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Web"},
        {"name": "a/b"},
        {"command": "one\ntwo"},
        {"command": ""},
        {"user": "root; true"},
        {"workdir": "app"},
        {"ports": (0,)},
        {"seconds": 0},
        {"folders": ("/var/lib/x y",)},
    ],
)
def test_a_service_that_cannot_be_written_into_a_script_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Service.model_validate({**WEB.model_dump(), **wrong})


def test_the_scripts_are_posix_shell() -> None:
    services = [WEB, *(service for name in NAMES for service in load(name).recipe.services)]
    for text in (services_script(services), set_up_script(services), look_at(WEB)):
        done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_what_was_seen_of_a_service_is_read_from_its_own_sockets() -> None:
    assert seen(WEB, TABLES) == RunningService(name="web", ports=(8080, 8081), processes=("web", "worker"))
    assert seen(WEB, "\x00process\nsocket x\n9: :") == RunningService(name="web", ports=(), processes=())


@pytest.mark.parametrize(
    ("address", "open_to_others"),
    [
        ("0100007F", False),
        ("0500007F", False),
        ("00000000", True),
        ("0200A8C0", True),
        ("00000000000000000000000001000000", False),
        ("0000000000000000FFFF00000100007F", False),
        ("00000000000000000000000000000000", True),
        ("0000000000000000FFFF0000020011AC", True),
    ],
)
def test_only_the_loopback_is_no_exposure(address: str, open_to_others: bool) -> None:
    row = f"   3: {address}:1F92 {'0' * len(address)}:0000 0A 0:0 00:0 0  1000        0 4711 1 0 100\n"
    assert exposed(TABLES) == ()
    assert exposed(TABLES + row) == ((8082,) if open_to_others else ())


def test_all_services_together_get_the_sum_of_their_seconds() -> None:
    assert start_seconds([WEB, WEB]) - start_seconds([WEB]) >= WEB.seconds


def test_the_image_starts_its_services_and_only_an_image_that_has_some() -> None:
    text = environment_dockerfile(BASE, [], has_generator=False, has_services=True)
    assert text.startswith(environment_dockerfile(BASE, [], has_generator=False))
    assert text.endswith('ENTRYPOINT ["/usr/local/sbin/services"]\n')
    recipe = Recipe(packages=(), rules_file="r", files=(), services=(WEB,))
    planned = [PlannedFile(path=path, purpose="p", how="literal", rows=1) for path in "abc"]
    files = environment_files(recipe, ManifestReply(packages=[], rules_file="a", files=planned), BASE)
    assert {"Dockerfile", "build/services.sh", "build/set_up.sh"} <= set(files)
    assert environment_executables(recipe) == {"build/services.sh"}
