"""The review page over a ledger of the paper's size: prints one JSON object.

``PYTHONPATH=. python benchmarks/review.py [--seeds 7852] [--rejected 1500] [--skills 71341] [--requests 40]``

A synthetic ledger in an embedded PostgreSQL: every seed with all stages, attempts, trials, checks and model calls,
``rejected`` of them ended at stage task. Times are those of the server (milliseconds, request in to last byte out),
the list with and without filters, tasks that were accepted and rejected, and a beginning of an id. ``first_list`` is
what the first list takes, which is made when the server starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from starlette.testclient import TestClient

from facet_dagster.adapters import embedded_postgres
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import (
    AttemptFact,
    CheckFact,
    EdgeFact,
    Fact,
    ModelCallFact,
    RawSkillFact,
    SeedFact,
    SkillFact,
    StageFact,
    TrialFact,
)
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason, StageResult, Verdict, reject
from facet_dagster.domain.task import Task
from facet_dagster.funnel import Stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.review.app import review
from facet_dagster.settings import Settings
from tests.fixtures import task_example as example

REASONS = [reason for reason in Reason if reason.startswith("task.")][:9]
BATCH = 250
TRIALS, CHECKS = 8, 5


def skill(number: int) -> str:
    return f"folder-{digest(number)[:12]}"


def key(number: int) -> str:
    return f"2611{1 + number // 300:02d}-{digest(number)[:12]}"


class World:
    """What is the same for every seed: stages and their values."""

    def __init__(self, settings: Settings, store: FsspecArtifactStore, skills: int) -> None:
        self.stages, self.store, self.skills = seed_stages(settings), store, skills

    def facts(self, number: int, *, lost: bool) -> Iterator[Fact]:
        name, pair = key(number), (skill(number % self.skills), skill((number * 7 + 1) % self.skills))
        yield SeedFact(
            key=name,
            batch=name[:6],
            candidate=f"c{number}",
            first=pair[0],
            second=pair[1],
            scenario="s",
            families=[f"family {number % 11}", f"family {number % 7}"],
        )
        yield EdgeFact(child=name, parent=f"c{number}", kind="candidate")
        yield from (EdgeFact(child=f"c{number}", parent=one, kind="skill") for one in pair)
        outputs = dict[str, str]()
        for stage in self.stages:
            ends = lost and stage.name == "task"
            fact = self.result(stage, name, number, outputs, ends=ends)
            yield from self.done(fact)
            yield fact
            if ends:
                return

    def result(self, stage: Stage, name: str, number: int, outputs: dict[str, str], *, ends: bool) -> StageFact:
        above = [outputs[up.name] for up in stage.upstream]
        inputs = digest([stage.name, stage.version, name, above, list(stage.parts)])
        outputs[stage.name] = self.store.put(self.value(stage.name, name).encode())
        why = reject(REASONS[number % len(REASONS)], "It ended.", log_tail="line\n" * 20) if ends else None
        result = StageResult(
            stage=stage.name,
            key=name,
            input_digest=inputs,
            verdict=Verdict.REJECTED if why else Verdict.ACCEPTED,
            rejection=why,
            output=outputs[stage.name],
            numbers={"repairs": 2.0, "checks": 9.0},
        )
        common = {"stage": stage.name, "key": name, "input_digest": inputs}
        reason = str(why.reason) if why else ""
        return StageFact(verdict=result.verdict, reason=reason, result=result, **common)

    def value(self, stage: str, name: str) -> str:
        draft = example.draft(seed=name)
        if stage == "task_draft":
            return draft.model_dump_json()
        if stage == "environment":
            return example.environment().model_dump_json()
        if stage == "certificate":
            return example.CERTIFIED.model_dump_json()
        task = Task(seed=name, title="A task", draft=draft, environment=example.environment(), validations=())
        return task.model_dump_json()

    def done(self, of: StageFact) -> Iterator[Fact]:
        common = {"stage": of.stage, "key": of.key, "input_digest": of.input_digest}
        yield AttemptFact(kind="draft", round=0, ok=True, summary="x" * 200, **common)
        yield call(of)
        for repeat in range(TRIALS if of.stage in ("task", "certificate") else 0):
            numbers = {"round": 0, "repeat": repeat, "reward": 1, "exit_code": 0, "seconds": 1.0}
            trial = TrialFact(kind="oracle", draft="d", **numbers, **common)
            yield trial
            for check in range(CHECKS):
                yield CheckFact(trial=trial.fact_id, check=f"C{check}", requirement="R1", status="pass", message="")


def call(of: StageFact) -> ModelCallFact:
    texts = {"call": of.stage, "cache_key": of.input_digest, "tape_key": "", "subject": of.key, "origin": "live"}
    numbers = {"attempt": 0, "turn": 0, "prompt_tokens": 900, "completion_tokens": 400, "seconds": 1.0, "cost": 0.01}
    return ModelCallFact(model="m", malformed=False, reply="", **texts, **numbers)


def fill(ledger: PostgresLedger, world: World, seeds: int, rejected: int) -> None:
    every = max(1, seeds // max(rejected, 1))
    for start in range(0, world.skills, 5000):
        names = [skill(n) for n in range(start, min(start + 5000, world.skills))]
        ledger.append(RawSkillFact(skill=name, bucket=name[-12:-10], value={"origin": "o"}) for name in names)
    for start in range(0, seeds, BATCH):
        numbers = range(start, min(start + BATCH, seeds))
        lost = {n for n in numbers if n % every == 0 and n // every < rejected}
        ledger.append(fact for n in numbers for fact in world.facts(n, lost=n in lost))
    kept = {skill(n % world.skills) for n in range(seeds)}
    told = {"version": "1", "licence": "MIT", "origin": "o", "verdict": Verdict.ACCEPTED}
    ledger.append(SkillFact(skill=name, bucket=name[-12:-10], name="A skill", **told) for name in sorted(kept))


def measure(client: TestClient, paths: list[str]) -> dict[str, float]:
    taken = []
    for path in paths:
        began = time.perf_counter()
        answer = client.get(path)
        taken.append(1000 * (time.perf_counter() - began))
        assert answer.status_code == 200, answer.text[:500]
    return {"median": round(statistics.median(taken), 1), "most": round(max(taken), 1), "requests": len(taken)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seeds", 7852), ("rejected", 1500), ("skills", 71_341), ("requests", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        ledger = PostgresLedger(embedded_postgres.postgres_url(home, "facet"))
        try:
            ledger.migrate()
            settings, store = Settings(home=home), FsspecArtifactStore(str(home / "artifacts"))
            fill(ledger, World(settings, store, options.skills), options.seeds, options.rejected)
            print(json.dumps(_figures(settings, ledger, store, options), indent=1))
        finally:
            ledger.close()
            embedded_postgres.stop(home)


def _figures(
    settings: Settings, ledger: PostgresLedger, store: FsspecArtifactStore, options: argparse.Namespace
) -> dict[str, object]:
    client = TestClient(review(settings, ledger, store), base_url="http://localhost:3001")
    began = time.perf_counter()
    client.get("/")
    first = round(1000 * (time.perf_counter() - began), 1)
    numbers = [n * options.seeds // options.requests for n in range(options.requests)]
    lists = ["/", "/?verdict=rejected", f"/?reason={REASONS[0]}", "/?family=family 3&from=261105&to=261110"]
    lists += [f"/?skill={skill(n)}" for n in numbers[:6]] + [f"/?page={n}" for n in (2, 20, 79)]
    every = max(1, options.seeds // max(options.rejected, 1))
    lost = [f"/seed/{key(n - n % every)}" for n in numbers]
    return {
        "seeds": options.seeds,
        "rejected": options.rejected,
        "skills": options.skills,
        "first_list_ms": first,
        "list_ms": measure(client, lists * 3),
        "task_ms": measure(client, [f"/seed/{key(n)}" for n in numbers]),
        "rejected_task_ms": measure(client, lost),
        "beginning_ms": measure(client, [f"/seed/{key(n)[:15]}" for n in numbers[:5]]),
    }


if __name__ == "__main__":
    main()
