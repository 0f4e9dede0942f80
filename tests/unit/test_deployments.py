"""The file that says which model answers which call."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from facet_dagster.deployments import ModelTable, family, load_models
from facet_dagster.errors import ConfigError
from facet_dagster.settings import Settings

WHOLE = """
models:
  author: {model: openai/gpt-5, price: {input: 1.25, output: 10}, temperature: 1.0}
  small:
    fallbacks: [author]
    deployments:
      - {model: azure/gpt-5-mini, api_base: "https://one.example.com", key_env: AZURE_ONE, weight: 3, rpm: 500}
      - {model: azure/gpt-5-mini, api_base: "https://two.example.com", key_file: KEYFILE}
calls: {default: author, judge: small}
"""


def load(folder: Path, text: str, **environment: str) -> ModelTable:
    (folder / "key").write_text("sk-from-a-file\n")
    (folder / "models.yaml").write_text(text.replace("KEYFILE", str(folder / "key")))
    return load_models(Settings(models=folder / "models.yaml", temperature=0.3, _env_file=None), environment)


def test_a_whole_file(tmp_path: Path) -> None:
    table = load(tmp_path, WHOLE, AZURE_ONE="sk-from-the-environment")
    assert table.of("solution").model == "openai/gpt-5"
    assert (table.of("solution").temperature, table.of("judge").temperature) == (1.0, 0.3)
    assert [spec.name for spec in table.chain("judge")] == ["small", "author"]
    assert [spec.name for spec in table.used()] == ["author", "small"]
    keys = [d.key.get_secret_value() for d in table.of("judge").deployments if d.key]
    assert keys == ["sk-from-the-environment", "sk-from-a-file"]


def test_keys_are_in_no_text_of_the_table(tmp_path: Path) -> None:
    table = load(tmp_path, WHOLE, AZURE_ONE="sk-from-the-environment")
    assert "sk-from" not in repr(table) + str(table) + table.model_dump_json()


def test_one_model_for_everything() -> None:
    settings = Settings(model="openai/m", api_base="http://x/v1", max_tokens=900, _env_file=None)
    spec = load_models(settings, {}).of("verifier")
    assert (spec.model, spec.max_tokens, spec.deployments[0].api_base) == ("openai/m", 900, "http://x/v1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [", "is not YAML"),
        ("- a", "valid dictionary|ModelTable"),
        ("models: {a: {model: m, deployments: 5}}\ncalls: {default: a}", "deployments"),
        ("models: {a: {model: m, key_env: sk-1234567}}\ncalls: {default: a}", "key_env"),
        ("models: {a: {model: m, token: sk-1234567}}\ncalls: {default: a}", "token"),
        ("models: {a: {model: sk-1234567: [}}", "is not YAML .line 1."),
        ("models: {a: {model: m}}\ncalls: {judge: a}", "give a default"),
        ("models: {a: {model: m}}\ncalls: {default: a, jugde: a}", "there is no call jugde; known are"),
        ("models: {a: {model: m}}\ncalls: {default: b}", "no model called b"),
        ("models: {a: {model: m, fallbacks: [c]}}\ncalls: {default: a}", "no model called c"),
        ("models: {a: {model: m, prize: 1}}\ncalls: {default: a}", "prize"),
        ("models: {a: {model: m, key: sk-1234567}}\ncalls: {default: a}", "holds a key under a"),
        ("models: {a: {deployments: []}}\ncalls: {default: a}", "deployments"),
        ("models: {a: {model: m, key_env: NOT_SET}}\ncalls: {default: a}", r"\$NOT_SET, which is not set"),
        ("models: {a: {model: m, key_file: /nowhere/key}}\ncalls: {default: a}", "cannot be read"),
    ],
)
def test_a_wrong_file_is_one_sentence_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load(tmp_path, text)
    assert "sk-1234567" not in "".join(traceback.format_exception(caught.value))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"FACET_MODELS: .*nowhere.yaml cannot be read"):
        load_models(Settings(models=tmp_path / "nowhere.yaml", _env_file=None), {})


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-5-mini", "gpt"),
        ("gpt-4o", "gpt"),
        ("anthropic/claude-sonnet-5", "claude"),
        ("x/y/Qwen3.5-397B", "qwen"),
    ],
)
def test_families(model: str, name: str) -> None:
    assert family(model) == name


def test_a_judge_of_the_authors_family_is_warned_about(tmp_path: Path) -> None:
    table = load(tmp_path, WHOLE, AZURE_ONE="k")
    (said,) = table.warnings()
    assert "azure/gpt-5-mini" in said
    other = WHOLE.replace("azure/gpt-5-mini", "anthropic/claude-sonnet-5")
    assert load(tmp_path, other, AZURE_ONE="k").warnings() == []


def test_a_certifier_of_the_authors_family_is_warned_about(tmp_path: Path) -> None:
    calls = "calls: {default: author, semantic_mutants: CERT, second_solution: CERT, triage_refusal: CERT}"
    models = "models: {author: {model: openai/gpt-5}, small: {model: openai/gpt-5-mini}, other: {model: x/qwen-3}}\n"
    said = load(tmp_path, models + calls.replace("CERT", "small")).warnings()
    assert [text.partition(" ")[0] for text in said] == ["semantic_mutants", "second_solution", "triage_refusal"]
    assert load(tmp_path, models + calls.replace("CERT", "other")).warnings() == []


def test_an_empty_variable_overrules_a_line_of_the_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("FACET_MODELS=models.yaml\nFACET_RECORD=tape.jsonl\n")
    assert Settings(_env_file=tmp_path / ".env").live
    monkeypatch.setenv("FACET_MODELS", "")
    monkeypatch.setenv("FACET_RECORD", "")
    settings = Settings(_env_file=tmp_path / ".env")
    assert (settings.live, settings.record) == (False, None)


@pytest.mark.parametrize(("level", "workers"), [("basic", 2), ("standard", 9), ("strict", 9)])
def test_a_certificate_that_asks_models_does_not_wait_for_one_seed_after_the_other(level: str, workers: int) -> None:
    settings = Settings.model_validate({"certificate": level, "workers": 2, "llm_workers": 9})
    assert settings.certificate_workers == workers
