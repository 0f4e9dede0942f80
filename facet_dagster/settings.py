"""All settings, from the environment (``FACET_*``) or ``.env``; defaults are the paper's values where it gives one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from facet_dagster.domain.cron import cron_problem, zone_problem
from facet_dagster.domain.task import Order, Pipeline
from facet_dagster.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
_PATHS = (
    *("models", "record", "sources", "tokenizer", "night_releases", "benchmarks", "export_benchmarks", "evaluation"),
    *("secrets", "dagster"),
)
OTHER_ORDERS_REPAIRS = 3  # what the paper gave to Reverse and Joint
_OF_SETUP = {"FACET_CACHE", "FACET_DEBIAN_MIRROR", "FACET_DEBIAN_SECURITY_MIRROR", "FACET_SECRETS"}
_ENV_FILE = ".env"


class Settings(BaseSettings):
    """One instance per process, made by the composition roots (``definitions``, ``cli``) alone."""

    model_config = SettingsConfigDict(env_prefix="FACET_", env_file=_ENV_FILE, extra="ignore", frozen=True)

    home: Path = Field(default=ROOT / ".facet", description="everything that runs lives here")
    secrets: Path | None = Field(
        default=None, description="a folder of files such as facet_api_key: what the environment does not set"
    )
    postgres_url: str = Field(default="", description="a PostgreSQL server; empty: the embedded one")
    postgres_password: SecretStr | None = Field(default=None, description="of postgres_url, where that holds none")
    qdrant_url: str = Field(default="", description="a Qdrant server; empty: the embedded shard")
    model: str = Field(default="", description="any litellm model; empty: replay the tape")
    models: Path | None = Field(default=None, description="a file that says which model answers which call")
    author: str = Field(
        default="",
        description="the model that writes and repairs seeds' scenarios, environments and drafts, part of their key:"
        " a name in the models file, or, without one, litellm's; empty: as models or model say, and part of no key",
    )
    budget_run: float | None = Field(default=None, ge=0, description="USD that one process may spend on model calls")
    budget_day: float | None = Field(default=None, ge=0, description="USD a day (UTC), over all processes")
    budget_seed: float | None = Field(default=None, ge=0, description="USD for one seed")
    api_base: str = Field(default="", description="endpoint of an OpenAI-compatible server")
    api_key: SecretStr | None = Field(
        default=None,
        description="its key; empty: without api_base litellm reads the provider's usual variable",
    )
    model_seconds: float = Field(default=600.0, description="longest silence of one model call")
    max_tokens: int = Field(default=16_384, ge=256)
    temperature: float = 0.7
    tape: Path = Field(default=ROOT / "examples" / "tapes" / "demo.jsonl", description="replayed without a model")
    tape_mode: Literal["strict", "lenient"] = Field(
        default="strict", description="lenient: a stale entry of the same call and subject is used, with a warning"
    )
    record: Path | None = Field(default=None, description="a live run appends its replies here")
    skills: Path = Field(default=ROOT / "examples" / "skills", description="what the demo ingests")
    sources: Path | None = Field(default=None, description="a sources.yaml: what `facet ingest` reads without a path")
    licences: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="SPDX identifiers of the licences that skills may have, with commas between them; empty: the"
        " permissive ones and CC BY-SA (docs/sources.md)",
    )
    unknown_licence: bool = Field(default=False, description="keep skills that state no licence")
    languages: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="ISO 639-1 codes of the languages that skills may be in, such as en,zh; empty: any"
    )
    embedder_dtype: str = Field(default="auto", pattern="^(auto|float32|bfloat16)$")
    base_image: str = "python:3.11-slim-bookworm"
    seeds: int = Field(default=12, ge=1, description="how many pairs are selected in one selection")
    skill_share: float = Field(
        default=0.005, gt=0, le=1, description="of all seeds, how many one skill may be in; one is always allowed"
    )
    same_scenario: float = Field(
        default=0.85, gt=0, le=1, description="cosine from which two scenarios are one; 1: only the same words are"
    )
    selection_number: int = Field(default=0, ge=0, description="another number draws another selection")
    neighbours: int = Field(default=1, ge=1, description="candidate partners proposed for each skill")
    hypotheses: Literal["model", "extract"] = Field(
        default="model", description="extract: read out of each skill's own words, without a model"
    )
    candidates: Literal["skill", "hypothesis"] = Field(
        default="skill",
        description="partners of a skill: its nearest neighbours, or what its hypotheses need and it does not have",
    )
    environment_repairs: int = Field(default=3, ge=0, description="paper, section 3.3")
    task_repairs: int = Field(default=5, ge=0, description="paper, Table 8")
    pipeline: Pipeline = Field(
        default="facet", description="how a pair of skills becomes a draft; the others are baselines (paper, Table 10)"
    )
    order: Order = Field(
        default="forward", description="in which order a draft's parts are written (paper, Table 7); not in a recording"
    )
    repair_budget: Literal["equal", "paper"] = Field(
        default="equal", description="equal: task_repairs for every order; paper: 3 for all but forward"
    )
    workers: int = Field(default=2, ge=1, le=64, description="keys in flight inside one stage")
    llm_workers: int = Field(default=4, ge=1, le=256, description="keys in flight in stages that wait for a model")
    deployment: str = Field(default="local", description="a label of everything made on the Docker Engine")
    build_slots: int = Field(default=2, ge=1, description="builds at once on one engine, over all processes")
    trial_slots: int = Field(default=4, ge=1, description="trials at once on one engine, over all processes")
    build_network: Literal["default", "host", "none"] = Field(
        default="default", description="network of builds; trials never have one"
    )
    disk_watermark: float = Field(
        default=4.0, ge=0, description="GiB free on the engine's disk below which images go and no build starts"
    )
    disk_floor: float = Field(default=1.0, ge=0, description="GiB free below which nothing runs")
    build_cache: float = Field(default=20.0, ge=0, description="GiB that the engine's build cache may hold")
    certificate: Literal["basic", "standard", "strict"] = Field(
        default="standard",
        description="how far certificates go: basic asks no model, standard for mutants and a second solution, "
        "strict for a second verifier as well",
    )
    certificate_mutants: int = Field(default=20, ge=0, description="altered outputs that a certificate has judged")
    certificate_equivalents: int = Field(default=6, ge=0, description="other spellings of outputs, likewise")
    certificate_reseeds: int = Field(
        default=2, ge=0, description="other seeds of a generator that must agree on an answer that is typed; 0: none"
    )
    teacher: str = Field(default="", description="the model of rollouts, any of litellm's; empty: no rollouts")
    teacher_base: str = Field(default="", description="endpoint of an OpenAI-compatible server for the teacher")
    teacher_key: SecretStr | None = Field(default=None, description="its key; empty: the provider's usual variable")
    agent: str = Field(default="terminus-2", description="any agent that Harbor knows by name")
    attempts: int = Field(default=1, ge=1, le=64, description="rollouts on each task")
    teacher_temperature: float = Field(default=1.0, ge=0, description="paper, Table 9")
    max_turns: int = Field(default=0, ge=0, description="turns of a rollout; 0: no limit but the task's time")
    context_tokens: int = Field(default=131_072, ge=1024, description="what the teacher can read at once")
    rollout_trials: int = Field(default=2, ge=1, le=64, description="rollouts at once")
    trajectory_tokens: int = Field(default=32_768, ge=1, description="longest trajectory to train on; paper, Table 9")
    tokenizer: Path | None = Field(
        default=None, description="tokenizer.json of the model to train; empty: a token is taken to be four characters"
    )
    night_on: bool = Field(default=False, description="the nightly schedule is on where nobody switched it in the UI")
    night_cron: str = Field(default="0 2 * * *", description="when a night begins: five cron fields")
    night_timezone: str = Field(default="UTC", description="the time zone of night_cron, and of a night's date")
    night_seeds: int = Field(default=0, ge=0, description="how many seeds a night shall hold; 0: as many as seeds says")
    night_releases: Path | None = Field(default=None, description="folder of the releases; empty: releases below home")
    night_replays: int = Field(
        default=5, ge=0, description="released tasks that a night runs again, those that waited longest first; 0: none"
    )
    failure_command: str = Field(
        default="", description="a program that gets each failed run as JSON on its standard input; empty: none"
    )
    benchmarks: Path | None = Field(
        default=None,
        description="a folder of benchmark tasks that nothing may repeat: Harbor or Terminal-Bench packages, or lists"
        " of instructions (.txt, .jsonl); looked at before a draft is paid for, and in every export",
    )
    export_benchmarks: Path | None = Field(
        default=None, description="another such folder, looked at in exports alone: stored results stay as they are"
    )
    benchmark_cosine: float = Field(
        default=0.85, gt=0, le=1, description="cosine from which a task means what a benchmark's task means"
    )
    held_out: float = Field(
        default=0.0, ge=0, lt=1, description="share of an export's tasks that is held out, with all their skills"
    )
    split_number: int = Field(default=0, ge=0, description="another number holds out other tasks")
    evaluation: Path | None = Field(
        default=None,
        description="an evaluation.yaml: which endpoints are tried on which benchmark (docs/evaluation.md)",
    )
    trial_seconds: float = Field(default=120.0, gt=0)
    build_seconds: float = Field(default=600.0, gt=0)
    artifact_days: float = Field(
        default=7.0, ge=0, description="days after which `facet tidy` removes artifacts that nothing names"
    )
    run_days: float = Field(
        default=30.0, ge=0, description="days after which it removes Dagster's runs that newer ones have superseded"
    )
    dagster: Path | None = Field(
        default=None, description="sections over those of dagster.yaml, such as a launcher (docs/deployment.md)"
    )
    ui_host: str = Field(default="127.0.0.1", description="interface of the web UI; it can start code: keep it private")
    ui_port: int = Field(default=3000, ge=1, le=65_535)
    review_url: str = Field(default="", description="where people reach the review page; partitions link to it")

    @field_validator("licences", "languages", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(filter(None, re.split(r"[,\s]+", value))) if isinstance(value, str) else value

    @field_validator("licences")
    @classmethod
    def _known_licences(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in value if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name)]:
            raise ValueError(f"{wrong[0]!r} is no SPDX identifier, such as MIT or Apache-2.0")
        return value

    @field_validator("languages")
    @classmethod
    def _language_codes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in value if not re.fullmatch("[a-z]{2}", name)]:
            raise ValueError(f"{wrong[0]!r} is no language code of two letters, such as en or zh")
        return value

    @field_validator(*_PATHS, mode="before")
    @classmethod
    def _empty_is_unset(cls, value: Any) -> Any:
        """An empty variable is how one line of .env is overruled."""
        return None if value == "" else value

    @field_validator("night_cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        if problem := cron_problem(value):
            raise ValueError(problem)
        return " ".join(value.split())

    @field_validator("night_timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        if problem := zone_problem(value):
            raise ValueError(problem)
        return value

    @field_validator("order")
    @classmethod
    def _order_of_a_recording(cls, value: Order, info: ValidationInfo) -> Order:
        if info.data.get("pipeline") == "recording" and value != "forward":
            raise ValueError("a recording has an order of its own: leave FACET_ORDER out")
        return value

    @property
    def compared_with(self) -> Path | None:
        """The benchmarks that exports are compared with."""
        return self.export_benchmarks or self.benchmarks

    @property
    def repair_rounds(self) -> int:
        """Repair rounds of a task, under the budget of its order."""
        if self.repair_budget == "equal" or self.order == "forward":
            return self.task_repairs
        return min(self.task_repairs, OTHER_ORDERS_REPAIRS)

    @property
    def certificate_workers(self) -> int:
        """Keys in flight in the stage that certifies: it waits for a model at every level but basic."""
        return self.workers if self.certificate == "basic" else max(self.workers, self.llm_workers)

    @property
    def releases(self) -> Path:
        """Where nights put their releases."""
        return self.night_releases or self.home / "releases"

    @property
    def live(self) -> bool:
        """Whether a model is asked; otherwise the tape is replayed."""
        return bool(self.model or self.models)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Names in the environment and .env that look like settings and are none, such as FACET_SEEDZ."""
    known = {f"FACET_{name}".upper() for name in Settings.model_fields} | _OF_SETUP
    file = Path(_ENV_FILE)
    written = re.findall(r"^\s*(?:export\s+)?(FACET_\w+)\s*=", _text(file), re.M) if file.is_file() else []
    return sorted({name for name in (*environment, *written) if name.startswith("FACET_")} - known)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def secret_names() -> frozenset[str]:
    """The variables that hold secrets."""
    fields = Settings.model_fields.items()
    return frozenset(f"FACET_{name.upper()}" for name, field in fields if "SecretStr" in str(field.annotation))


def load_settings() -> Settings:
    """Read the environment, and the folder of secrets. Raises ConfigError naming each wrong variable."""
    folder = os.environ.get("FACET_SECRETS")  # noqa: TID251 - says where the rest of the settings are read
    if folder and not os.path.isdir(folder):
        raise ConfigError(f"FACET_SECRETS: {folder} is no folder; name one that holds a file for each secret.")
    try:
        settings = Settings(_secrets_dir=folder or None)
    except ValidationError as error:
        wrong = "; ".join(f"FACET_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"Settings are wrong: {wrong}. Correct the environment or .env.") from error
    except SettingsError as error:
        why = error.__cause__ or error
        raise ConfigError(f"Settings cannot be read ({why}): let this user read the files in FACET_SECRETS.") from error
    return settings.model_copy(update={"home": settings.home.absolute(), "postgres_url": _with_password(settings)})


def _with_password(settings: Settings) -> str:
    """``postgres_url`` with the password that stands apart from it."""
    url, password = settings.postgres_url, settings.postgres_password
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not password or not at or ":" in user:
        return url
    return parts._replace(netloc=f"{user}:{quote(password.get_secret_value(), safe='')}@{host}").geturl()
