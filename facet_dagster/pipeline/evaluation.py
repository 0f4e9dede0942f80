"""Evaluation: a folder of Harbor tasks, tried by the models behind some endpoints (paper, Tables 2 and 9)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, field_validator

from facet_dagster.domain.evaluation import Endpoint, EvaluationProtocol, TaskEvaluation
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import StageResult, Value
from facet_dagster.domain.rollout import RawAttempt, RolloutProtocol
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Compute, Outcome, Stage, plan, run_stage
from facet_dagster.pipeline.rollouts import WORKERS, Jobs
from facet_dagster.ports import ArtifactStore, Harness, Ledger, Order

VERSION = "1"
Evaluators = Callable[[Endpoint], Harness]


class Evaluation(Value):
    """``evaluation.yaml``. The defaults are the paper's Table 9; ``seconds`` are those of one attempt."""

    benchmark: Path
    endpoints: tuple[Endpoint, ...] = Field(min_length=1)
    agent: str = "terminus-2"
    attempts: int = Field(default=3, ge=1, le=64)
    seconds: float = Field(default=7200.0, gt=0)
    temperature: float = Field(default=1.0, ge=0)
    max_turns: int = Field(default=0, ge=0)

    @field_validator("endpoints", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
            raise ValueError("must map the name of each endpoint to its model, api_base, ...")
        return tuple({"name": name, **one} for name, one in value.items())

    def protocol(self, endpoint: Endpoint) -> EvaluationProtocol:
        """The conditions of its attempts."""
        return EvaluationProtocol(
            endpoint=endpoint.name,
            agent=self.agent,
            model=endpoint.model,
            temperature=self.temperature,
            max_turns=self.max_turns,
            context_tokens=endpoint.context_tokens,
            seconds=self.seconds,
        )


def load_evaluation(path: Path) -> Evaluation:
    """Read the file; its ``benchmark`` is relative to it. Raises ConfigError."""
    try:
        found = Evaluation.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"{path} is no evaluation: {wrong}. docs/evaluation.md shows one") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read as an evaluation: {error}") from error
    return found.model_copy(update={"benchmark": (path.parent / found.benchmark).resolve()})


def benchmark_tasks(folder: Path) -> dict[str, str]:
    """Name of each task (a folder with a task.toml) -> digest of its files. Raises ConfigError."""
    try:
        found = {entry.name: _tree(entry) for entry in sorted(folder.iterdir()) if (entry / "task.toml").is_file()}
    except OSError as error:
        raise ConfigError(f"The benchmark {folder} cannot be read: {error}") from error
    if not found:
        raise ConfigError(f"{folder} holds no Harbor task: each is a folder with a task.toml")
    return found


def _tree(folder: Path) -> str:
    return digest(list(_entries(folder)))


def _entries(folder: Path) -> Iterator[list[str]]:
    """Path, kind and content of everything below; a link is its target, and is not followed."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield [name, "link", os.readlink(path)]
        elif path.is_file():
            yield [name, "program" if path.stat().st_mode & 0o111 else "file", digest(path.read_bytes())]


def evaluation_stage(what: Evaluation, endpoint: Endpoint, tasks: Mapping[str, str]) -> Stage:
    """Over the tasks of the benchmark: what one endpoint made of them."""
    return Stage("evaluation", VERSION, parts=(what.protocol(endpoint), what.attempts), own=lambda: tasks)


class StrictHarness:
    """A harness of which a task is solved or not: whatever is not a whole reward of 1 is not solved."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.stop = harness.stop

    def run(self, orders: Sequence[Order], protocol: RolloutProtocol, done: Callable[[RawAttempt], None]) -> None:
        """As ``Harness.run``."""
        self._harness.run(orders, protocol, lambda raw: done(_strict(raw)))


def _strict(raw: RawAttempt) -> RawAttempt:
    if raw.reward is None or raw.reward in (0, 1):
        return raw
    note = f"The verifier's reward is {raw.reward:g}, which is not solved."
    return replace(raw, reward=0.0, error=" ".join(filter(None, [note, raw.error])))


def evaluation(
    what: Evaluation,
    endpoint: Endpoint,
    tasks: Mapping[str, str],
    *,
    ledger: Ledger,
    store: ArtifactStore,
    harness: Harness,
) -> Compute:
    """Task -> TaskEvaluation. What a killed run made is not made again."""
    protocol, folders = what.protocol(endpoint), {package: name for name, package in tasks.items()}

    def write(package: str, folder: Path) -> None:
        shutil.copytree(what.benchmark / folders[package], folder, symlinks=True)

    strict = StrictHarness(harness)
    jobs = Jobs(strict, protocol, what.attempts, ledger, store, stage="evaluation", write=write)

    def compute(key: str) -> Outcome:
        made = tuple(jobs.attempts(key, tasks[key]))
        judged = [attempt.reward for attempt in made if attempt.reward is not None]
        numbers = {"attempts": len(made), "judged": len(judged), "solved": sum(judged)}
        return Outcome(TaskEvaluation(task=key, package=tasks[key], protocol=protocol, attempts=made), numbers=numbers)

    return compute


def evaluate(
    what: Evaluation,
    evaluators: Evaluators,
    *,
    ledger: Ledger,
    store: ArtifactStore,
    emit: Callable[[Endpoint, Sequence[StageResult]], None] = lambda *_: None,
    run_id: str = "",
) -> dict[str, str]:
    """Try all endpoints, one after the other; what failed for trouble of the machine, and why."""
    tasks, failed = benchmark_tasks(what.benchmark), dict[str, str]()
    for endpoint in what.endpoints:
        harness, stage = evaluators(endpoint), evaluation_stage(what, endpoint, tasks)
        compute = evaluation(what, endpoint, tasks, ledger=ledger, store=store, harness=harness)
        report = run_stage(
            stage.name,
            plan(stage, list(tasks), ledger).work,
            compute,
            ledger=ledger,
            store=store,
            emit=lambda results, who=endpoint: emit(who, results),  # type: ignore[misc]
            workers=WORKERS,
            run_id=run_id,
            flush=1,
            stop=harness.stop,
        )
        failed |= {f"{endpoint.name}/{key}": why for key, why in report.failed.items()}
    return failed
