"""A made-up run of any size in a home folder: skills, seeds, certified tasks, attempts with their trajectories.

Nothing of its texts is meant to be read; sizes and shares are about those of real runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from facet_dagster.domain.facts import (
    AttemptFact,
    Fact,
    ModelCallFact,
    RawSkillFact,
    SeedFact,
    StageFact,
)
from facet_dagster.domain.ids import bucket_keys, digest, to_json
from facet_dagster.domain.outcome import Component, Reason, Rejection, StageResult, Verdict, reject
from facet_dagster.domain.seed import TaskFamily
from facet_dagster.domain.task import RepairRound, Task, Validation
from facet_dagster.domain.taxonomy import Category, Family
from facet_dagster.funnel import Memo, Stage, plan
from facet_dagster.pipeline.graph import seed_stages, skill_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings
from tests.fixtures import task_example as example

TASKS, ATTEMPTS, CHECKS = 6_000, 3, 23
SKILLS = 4_000
LOST = ("environment", "task")  # where a fifth of the seeds ends
CHUNK = 5_000
TEXT = "The quick brown fox reads the table of the orders and refuses what has no amount. " * 18


class Filler:
    """Writes a whole run into a home: artifacts without waiting for the disk, facts many at a time."""

    def __init__(self, settings: Settings, ledger: Ledger, tasks: int, skills: int = SKILLS) -> None:
        self.settings, self.ledger, self.tasks, self.skills = settings, ledger, tasks, skills
        self.root, self.chance = settings.home / "artifacts", random.Random(1)

    def put(self, value: object) -> str:
        data = value if isinstance(value, bytes) else to_json(value).encode()
        sha = digest(data)
        path = self.root / sha[:2] / sha[2:4] / sha
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return sha

    def append(self, facts: Iterable[Fact]) -> None:
        todo = iter(facts)
        while chunk := list(islice(todo, CHUNK)):
            self.ledger.append(chunk)

    def stage(self, stage: Stage, keys: Sequence[str], memo: Memo, value: Callable[[str], Any], **numbers: Any) -> None:
        """A result for each key that came so far; ``value`` gives a value and perhaps a rejection."""
        found = memo.setdefault(stage.name, {})
        self.append(self._results(stage, keys, memo, value, numbers, found))

    def _results(
        self, stage: Stage, keys: Sequence[str], memo: Memo, value: Callable[[str], Any], numbers: Any,
        found: dict[str, StageResult],
    ) -> Iterator[StageFact]:  # fmt: skip
        upstream = Memo({name: results for name, results in memo.items() if name != stage.name})
        for item in plan(stage, keys, self.ledger, upstream).work:
            if item.upstream is not None:
                continue
            made, rejection = value(item.key)
            counts = {name: float(of(item.key)) for name, of in numbers.items()}
            result = self._result(stage.name, item.key, item.input_digest, self.put(made), rejection, counts)
            found[item.key] = result
            yield StageFact(
                stage=stage.name, key=item.key, input_digest=item.input_digest, verdict=result.verdict, result=result,
                reason=rejection.reason if rejection else "", component=rejection.component if rejection else "",
            )  # fmt: skip

    def _result(
        self, stage: str, key: str, inputs: str, output: str, rejection: Rejection | None, numbers: dict[str, float]
    ) -> StageResult:
        verdict = Verdict.REJECTED if rejection else Verdict.ACCEPTED
        at = stage if rejection else None
        return StageResult(
            stage=stage, key=key, input_digest=inputs, verdict=verdict, rejection=rejection, rejected_at=at,
            output=output, numbers=numbers, seconds=1.0, run_id="benchmark",
        )  # fmt: skip


def fill_skills(filler: Filler) -> list[str]:
    """Skills in their buckets, with categories and tags."""
    chance, ids = filler.chance, [f"skill-{digest(n)[:16]}" for n in range(filler.skills)]
    raws = [RawSkillFact(skill=i, bucket=i[-16:-14], value={"source": "folder", "owner": "o"}) for i in ids]
    filler.append(raws)
    tags = [f"tag{n}" for n in range(40)]

    def one(ident: str) -> dict[str, Any]:
        category = chance.choice(list(Category))
        classified = {
            "category": category, "margin": 0.1, "sure": True, "task": chance.choice(list(TaskFamily)),
            "tier": "offline", "dense": True, "tags": chance.sample(tags, 3),
        }  # fmt: skip
        skill = {
            "id": ident, "name": ident, "title": ident, "description": "d", "body": TEXT, "family": Family.DATA,
            "licence": {"spdx": "MIT", "allowed": True, "evidence": "file"}, "source": "folder", "origin": "o",
            "classified": classified,
        }  # fmt: skip
        return {"id": ident, "origin": "o", "skill": skill}

    by_bucket: dict[str, list[str]] = {bucket: [] for bucket in bucket_keys()}
    for ident in ids:
        by_bucket[ident[-16:-14]].append(ident)
    stage = skill_stages(filler.settings, filler.ledger).skills
    filler.stage(stage, bucket_keys(), Memo(), lambda bucket: ({"items": [one(i) for i in by_bucket[bucket]]}, None))
    return ids


def fill_seeds(filler: Filler, skills: Sequence[str]) -> tuple[list[str], Memo]:
    """Every seed stage: a fifth of the seeds is lost, the others are certified tasks."""
    chance, settings, count = filler.chance, filler.settings, filler.tasks + filler.tasks // 4
    keys = sorted(f"261130-{digest(n)[:12]}" for n in range(count))
    pairs = {key: chance.sample(skills, 2) for key in keys}
    filler.append(
        SeedFact(key=k, batch="b", candidate=k, first=a, second=b, scenario="s", families=["data", "ai"])
        for k, (a, b) in pairs.items()
    )
    lost = {key: chance.choice(LOST) for key in keys[filler.tasks :]}
    refused = {name: reject(reason, "no") for name, reason in zip(LOST, _REASONS, strict=True)}
    families = {key: chance.choice(list(TaskFamily)) for key in keys}
    valid = {key: chance.random() < 0.38 for key in keys}
    rounds = {key: 0 if valid[key] else chance.randint(1, 5) for key in keys}
    memo = Memo()
    drafts = {(good, lost): _task(good, lost) for good in (True, False) for lost in (True, False)}
    for stage in seed_stages(settings):
        kib = {"scenario": 40, "environment": 45, "task_draft": 40}.get(stage.name, 5)

        def value(key: str, name: str = stage.name, kib: int = kib) -> tuple[dict[str, Any], Rejection | None]:
            refusal = refused[name] if lost.get(key) == name else None
            if name in ("first_validation", "task"):
                return {**drafts[valid[key], refusal is not None], "seed": key}, refusal
            return {"key": key, "references": {"family": families[key]}, "text": "x" * (kib * 1024)}, refusal

        filler.stage(
            stage, keys, memo, value, valid=valid.__getitem__, checks=lambda _: CHECKS,
            repairs=(rounds if stage.name == "task" else dict.fromkeys(keys, 0)).__getitem__,
        )  # fmt: skip
    filler.append(_calls(keys))
    filler.append(_repairs(rounds))
    return keys[: filler.tasks], memo


def _task(good: bool, lost: bool) -> dict[str, Any]:  # noqa: FBT001
    """A task as large as a real one: valid at once, after a repair, or never."""
    no = reject(Reason.TASK_ORACLE_FAILED, "no")
    last = no if lost else None
    ends = (last,) if good else (no, last)
    solution = example.solution(f"{example.SOLVE}\n# {'x' * 80_000}\n")
    return Task(
        seed="",
        title="t",
        draft=example.draft().model_copy(update={"solution": solution}),
        environment=example.environment(),
        validations=tuple(Validation(round=n, baseline=None, oracle=None, rejection=end) for n, end in enumerate(ends)),
        repairs=() if good else (RepairRound(round=1, component=Component.SOLUTION, evidence="", changed=()),),
    ).model_dump(mode="json")


_REASONS = (Reason.ENVIRONMENT_REPAIR_EXHAUSTED, Reason.TASK_REPAIR_EXHAUSTED)


def _calls(keys: Sequence[str]) -> Iterator[ModelCallFact]:
    for key in keys:
        for call in (
            "analyse",
            "reconstruct",
            "references",
            "manifest",
            "environment",
            "instruction",
            "solution",
            "verifier",
        ):
            yield ModelCallFact(
                call=call, cache_key=f"{key}{call}", tape_key="", subject=key, attempt=0, turn=0, origin="live",
                model="m", prompt_tokens=9_000, completion_tokens=4_000, malformed=False, reply="r", seconds=30.0,
                day="2026-11-30", cost=0.01,
            )  # fmt: skip


def _repairs(rounds: dict[str, int]) -> Iterator[AttemptFact]:
    for key, count in rounds.items():
        for number in range(1, count + 1):
            yield AttemptFact(
                stage="task", key=key, kind="repair", round=number, ok=number == count, component="solution"
            )
