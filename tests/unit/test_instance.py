"""What Dagster is told, and what it is not: passwords stay out of files and command lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from facet_dagster.errors import ConfigError
from facet_dagster.instance import instance_environment
from facet_dagster.settings import Settings, load_settings, secret_names

PASSWORD = "p@ss/word:1"
SERVER = "postgresql://facet@db.example.com:5433/facet?sslmode=require"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FACET_SECRETS", "FACET_API_KEY", "FACET_POSTGRES_URL", "FACET_DAGSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def secrets(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def test_secrets_are_read_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = secrets(tmp_path / "secrets", facet_api_key="sk-1", facet_teacher_key="")
    monkeypatch.setenv("FACET_SECRETS", str(folder))
    settings = load_settings()
    assert settings.api_key
    assert settings.api_key.get_secret_value() == "sk-1"
    assert not settings.teacher_key
    assert "sk-1" not in repr(settings)


def test_the_environment_is_before_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FACET_SECRETS", str(secrets(tmp_path / "secrets", facet_api_key="sk-1")))
    monkeypatch.setenv("FACET_API_KEY", "sk-2")
    key = load_settings().api_key
    assert key
    assert key.get_secret_value() == "sk-2"


def test_the_password_joins_a_url_that_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FACET_SECRETS", str(secrets(tmp_path / "secrets", facet_postgres_password=PASSWORD)))
    monkeypatch.setenv("FACET_POSTGRES_URL", SERVER)
    whole = "postgresql://facet:p%40ss%2Fword%3A1@db.example.com:5433/facet?sslmode=require"
    assert load_settings().postgres_url == whole
    own = "postgresql://facet:own@db.example.com/facet"
    monkeypatch.setenv("FACET_POSTGRES_URL", own)
    assert load_settings().postgres_url == own


def test_a_folder_of_secrets_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FACET_SECRETS", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"FACET_SECRETS: .*nowhere is no folder"):
        load_settings()


def test_a_secret_that_cannot_be_read_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = secrets(tmp_path / "secrets")
    (folder / "facet_api_key").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("FACET_SECRETS", str(folder))
    with pytest.raises(ConfigError, match=r"cannot be read .*FACET_SECRETS"):
        load_settings()


def test_the_url_of_a_server_is_in_the_environment_alone(tmp_path: Path) -> None:
    url = SERVER.replace("facet@", "facet:secret@")
    found = instance_environment(Settings(home=tmp_path, postgres_url=url), url, {"PYTHONPATH": "/x"})
    text = (tmp_path / "dagster" / "dagster.yaml").read_text()
    assert "secret" not in text
    assert yaml.safe_load(text)["storage"]["custom"]["config"]["postgres_url"] == {"env": "DAGSTER_POSTGRES_URL"}
    assert found["DAGSTER_POSTGRES_URL"] == url
    assert found["DAGSTER_HOME"] == str(tmp_path / "dagster")


def test_sections_are_laid_over_and_names_of_settings_passed_on_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "more.yaml"
    path.write_text("run_launcher: {config: {image: '${FACET_STACK}', env_vars: ${FACET_NAMES}}}\nconcurrency: {}\n")
    environment = {"FACET_STACK": "one", "FACET_API_KEY": "sk-1", "FACET_SEEDS": "3", "OTHER": "x"}
    instance_environment(Settings(home=tmp_path, dagster=path), "postgresql:///facet", environment)
    found = yaml.safe_load((tmp_path / "dagster" / "dagster.yaml").read_text())
    assert found["run_launcher"]["config"] == {"image": "one", "env_vars": ["FACET_SEEDS", "FACET_STACK"]}
    assert found["concurrency"] == {}
    assert found["storage"]["custom"]["config"]["postgres_url"] == "postgresql:///facet"
    assert secret_names() >= {"FACET_API_KEY", "FACET_TEACHER_KEY", "FACET_POSTGRES_PASSWORD"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("run_launcher: ${NEVER_SET}", "needs the variable NEVER_SET"),
        ("run_launcher: [", "cannot be read"),
        ("only words", "must hold sections"),
        ("price: $ 5", "cannot be read"),
    ],
)
def test_a_wrong_file_of_sections_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "more.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        instance_environment(Settings(home=tmp_path, dagster=path), "postgresql:///facet", {})


def within(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "facet_dagster.within", *command]
    root = str(Path(__file__).resolve().parents[2])
    base = {"PATH": "/usr/bin:/bin", "PYTHONPATH": root}
    return subprocess.run(argv, env={**base, **environment}, capture_output=True, text=True, check=False)


def test_a_program_starts_within_the_environment(tmp_path: Path) -> None:
    folder = secrets(tmp_path / "secrets", facet_postgres_password="secret")
    done = within(
        "sh", "-c", 'echo "$DAGSTER_POSTGRES_URL $DAGSTER_HOME"; exit 7',
        FACET_HOME=str(tmp_path / "home"), FACET_SECRETS=str(folder), FACET_POSTGRES_URL="postgres://facet@db/facet",
    )  # fmt: skip
    assert done.stdout == f"postgresql://facet:secret@db/facet {tmp_path}/home/dagster\n"
    assert done.returncode == 7


def test_what_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    home = {"FACET_HOME": str(tmp_path / "home")}
    for done in (within(**home), within("true", **home), within("no-such-program", FACET_POSTGRES_URL=SERVER, **home)):
        assert done.returncode == 1
        assert done.stderr.startswith("facet: ")
        assert done.stderr.count("\n") == 1
