"""Other code asks where Harbor is; the answer comes from what set-up recorded."""

from __future__ import annotations

from pathlib import Path

from facet_dagster.setup.compose import second_or_newer
from facet_dagster.setup.harbor_tool import harbor_command, harbor_why_not
from facet_dagster.setup.paths import write_json


def test_the_tool_carries_its_environment(tmp_path: Path) -> None:
    binary = tmp_path / "bin-harbor"
    binary.touch()
    write_json(tmp_path / "harbor.json", {"available": True, "harbor": str(binary), "docker_config": "/cfg"})
    tool = harbor_command(tmp_path)
    assert tool is not None
    assert tool.argv == (str(binary),)
    assert tool.env["HARBOR_TELEMETRY"] == "off"
    assert tool.env["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert tool.env["DOCKER_CONFIG"] == "/cfg"
    assert (Path(tool.env["PYTHONPATH"]) / "facet_harbor" / "offline.py").is_file()


def test_the_users_own_docker_configuration_stays_where_it_does(tmp_path: Path) -> None:
    (tmp_path / "h").touch()
    write_json(tmp_path / "harbor.json", {"available": True, "harbor": str(tmp_path / "h"), "docker_config": None})
    tool = harbor_command(tmp_path)
    assert tool is not None
    assert "DOCKER_CONFIG" not in tool.env


def test_no_tool_without_a_record_an_available_one_or_its_program(tmp_path: Path) -> None:
    assert harbor_command(tmp_path) is None
    assert "make verify-harbor" in harbor_why_not(tmp_path)
    write_json(tmp_path / "harbor.json", {"available": True, "harbor": str(tmp_path / "gone")})
    assert harbor_command(tmp_path) is None
    write_json(tmp_path / "harbor.json", {"available": False, "why": "No Python is new enough."})
    assert harbor_command(tmp_path) is None
    assert harbor_why_not(tmp_path) == "No Python is new enough."


def test_only_the_second_compose_and_newer_count() -> None:
    assert second_or_newer("2.26.1-4") == "2.26.1-4"
    assert second_or_newer("v2.39.4") == "2.39.4"
    assert second_or_newer("docker-compose version 1.29.2, build unknown") is None
    assert second_or_newer("") is None
