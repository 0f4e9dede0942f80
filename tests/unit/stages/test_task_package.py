from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.domain.archive import EPOCH, Member, pack_members, unpack
from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import Family, Licence
from facet_dagster.stages.task.package import (
    FILE_CAP,
    Package,
    TaskLimits,
    build_package,
    export,
    initial_files,
    package_digest,
    package_files,
    verifier_context,
)
from tests.fixtures import task_example as example


def package(**update: Any) -> Package:
    arguments: dict[str, Any] = {"e0_archive": example.E0_ARCHIVE, "limits": TaskLimits.of(45)}
    arguments |= {"certificate": example.CERTIFIED}
    skills = update.pop("skills", example.SKILLS)
    return build_package(example.draft(), example.environment(), example.SCENARIO, skills, **{**arguments, **update})


def test_the_package_has_harbors_layout() -> None:
    assert sorted(package_files(package())) == [
        "certificate.json",
        "environment/Dockerfile",
        "environment/app/RULES.md",
        "environment/app/data/regions.json",
        "environment/app/data/sales.csv",
        "instruction.md",
        "solution/solve.sh",
        "task.toml",
        "tests/Dockerfile",
        "tests/checks.py",
        "tests/e0.json",
        "tests/e0/RULES.md",
        "tests/e0/data/regions.json",
        "tests/e0/data/sales.csv",
        "tests/run_checks.py",
        "tests/test.sh",
    ]
    assert package().executable == {"solution/solve.sh", "tests/test.sh"}


def test_equal_inputs_give_equal_packages_and_each_input_counts() -> None:
    assert package_digest(package()) == package_digest(package())
    others = [package(certificate=None), package(limits=TaskLimits.of(46)), package(skills=example.SKILLS[:1])]
    assert len({package_digest(p) for p in [package(), *others]}) == 4


def test_task_toml_states_what_harbor_needs() -> None:
    table = tomllib.loads(package().files["task.toml"].decode())
    assert table["schema_version"] == "1.4"
    assert table["artifacts"] == ["/app"]
    assert table["task"]["name"] == "facet/261130-0123456789ab"
    assert table["task"]["description"] == "Regional sales totals"
    assert table["environment"]["network_mode"] == "no-network"
    assert table["environment"]["workdir"] == "/app"
    assert table["agent"]["user"] == "agent"
    assert (table["verifier"]["environment_mode"], table["verifier"]["user"]) == ("separate", "root")
    assert table["metadata"]["certificate"] == "basic"
    assert table["metadata"]["families"] == ["data", "documents"]
    assert [s["licence"] for s in table["metadata"]["skills"]] == ["MIT", "MIT"]
    assert "share_alike" not in table["metadata"]


def test_limits_of_the_trials_stand_in_task_toml() -> None:
    limits = TaskLimits.of(45)
    table = tomllib.loads(package().files["task.toml"].decode())
    assert table["verifier"]["timeout_sec"] == limits.container(limits.verifier_seconds).seconds == 45
    assert table["metadata"]["solution_seconds"] == limits.container(limits.solution_seconds).seconds
    assert table["agent"]["timeout_sec"] >= limits.solution_seconds
    assert table["environment"]["memory_mb"] * 1024 * 1024 == limits.container(1).memory
    assert table["environment"]["cpus"] == limits.container(1).cpus
    assert TaskLimits.of(5000).agent_seconds == 5000


@pytest.mark.parametrize("name", ['"]\n[agent]\nuser = "root"', "\\", "'''", "a\x00b\x1b[31m", "é ü 漢", "x" * 999])
def test_untrusted_names_stay_values(name: str) -> None:
    hostile = example.skill("skill-a", Family.DATA).model_copy(update={"name": name, "origin": name})
    table = tomllib.loads(package(skills=[hostile]).files["task.toml"].decode())
    assert table["agent"]["user"] == "agent"
    assert set(table) == {"schema_version", "artifacts", "task", "metadata", "environment", "agent", "verifier"}
    assert len(table["metadata"]["skills"][0]["name"]) <= 300


def test_task_toml_credits_each_skill_with_the_evidence_of_its_licence() -> None:
    first, second = example.SKILLS
    alike = Licence(spdx="CC-BY-SA-4.0", allowed=True, share_alike=True, evidence="front matter")
    skill = first.model_copy(update={"licence": alike, "commit": "c" * 40})
    metadata = tomllib.loads(package(skills=[skill, second]).files["task.toml"].decode())["metadata"]
    assert metadata["share_alike"] is True
    one, two = metadata["skills"]
    assert (one["licence"], one["licence_evidence"], one["share_alike"]) == ("CC-BY-SA-4.0", "front matter", True)
    assert one["commit"] == "c" * 40
    assert two["licence_evidence"] == second.licence.evidence
    assert not {"share_alike", "commit"} & set(two)


def test_dockerfiles_come_from_the_public_base() -> None:
    for part in ("environment", "tests"):
        text = package().files[f"{part}/Dockerfile"].decode()
        assert text.startswith(f"FROM {example.BASE} AS toolchain\n")


def test_neither_tests_nor_solution_are_in_the_environment_image() -> None:
    text = package().files["environment/Dockerfile"].decode()
    assert "tests" not in text
    assert "solution" not in text


def test_pristine_files_and_their_hashes_are_the_captured_ones() -> None:
    files = verifier_context(example.draft(), example.E0_ARCHIVE, example.BASE).files
    assert json.loads(files["e0.json"]) == {path: digest(data) for path, data in example.FILES.items()}
    assert {path: files[f"e0/{path}"] for path in example.FILES} == example.FILES


def test_large_initial_files_are_known_by_hash_only() -> None:
    archive = pack_members({"app/big.bin": Member("file", data=b"x" * (FILE_CAP + 1)), "app/a": Member("file")})
    files = verifier_context(example.draft(), archive, example.BASE).files
    assert set(json.loads(files["e0.json"])) == {"a", "big.bin"}
    assert "e0/big.bin" not in files
    assert files["e0/a"] == b""


def test_links_in_the_initial_state_are_no_files() -> None:
    members = {"app/a": Member("file", data=b"1"), "app/b": Member("link", link="/etc/passwd")}
    assert initial_files(pack_members(members)) == {"a": b"1"}


def test_export_writes_files_with_their_modes(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "task"
    export(package().tar(), folder)
    written = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert written == package().files
    assert (folder / "solution/solve.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "task.toml").stat().st_mode & 0o777 == 0o644
    assert {path.stat().st_mtime for path in (folder, *folder.rglob("*"))} == {EPOCH}, "what a build copies"


def test_export_replaces_an_older_package_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    export(Package({"old.txt": b"1", "both.txt": b"1"}).tar(), folder)
    export(Package({"both.txt": b"2"}).tar(), folder)
    assert [p.name for p in tmp_path.iterdir()] == ["task"]
    assert [(p.name, p.read_bytes()) for p in folder.iterdir()] == [("both.txt", b"2")]


def test_the_archive_is_the_package(tmp_path: Path) -> None:
    members = unpack(package().tar())
    assert {path: m.data for path, m in members.items()} == package().files
    assert {path for path, m in members.items() if m.mode & 0o111} == package().executable
