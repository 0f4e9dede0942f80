"""The report page over a synthetic ledger: 6,000 certified tasks, 18,000 attempts, 400,000 commands.

``python -m benchmarks.report [--tasks 6000]`` fills a home folder of its own, which is not timed, then runs the real
``facet report`` as a process and prints one JSON object: seconds, peak resident memory of that process (PostgreSQL's
left out), and what the page counted. Nothing of the synthetic texts is meant to be read.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from facet_dagster import connect
from facet_dagster.domain.facts import (
    AttemptFact,
    CheckFact,
    Fact,
    ModelCallFact,
    RawSkillFact,
    SeedFact,
    StageFact,
    TrialFact,
)
from facet_dagster.domain.ids import bucket_keys, digest, to_json
from facet_dagster.domain.outcome import Component, Reason, Rejection, StageResult, Verdict, reject
from facet_dagster.domain.scenario import TaskFamily
from facet_dagster.domain.task import RepairRound, Task, Validation
from facet_dagster.domain.taxonomy import Category, Family
from facet_dagster.funnel import Memo, Stage, plan
from facet_dagster.pipeline.graph import seed_stages, skill_stages
from facet_dagster.pipeline.rollouts import protocol_of, rollout_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings
from tests.fixtures import task_example as example

TASKS, ATTEMPTS, CHECKS = 6_000, 3, 23
COMMANDS = 400_000
TURNS = 7
SKILLS = 4_000
LOST = ("environment", "task")  # where a fifth of the seeds ends
CHUNK = 5_000
TEXT = "The quick brown fox reads the table of the orders and refuses what has no amount. " * 18
TYPED = (
    "cat /app/data/{n}.csv | head -{m}\n",
    "ls -la /app/{n}; wc -l /app/data/*.csv\n",
    "grep -n 'row {n}' /app/data/orders.csv | sort | uniq -c\n",
    "cat > /app/out/{n}.py <<'EOF'\nimport csv\nprint({m})\nEOF\npython3 /app/out/{n}.py > /app/out/{n}.json\n",
    'for f in /app/data/{n}*; do head -3 "$f"; done\n',
    "cd /app && sed -n '1,{m}p' RULES.md\n",
    "sed -i 's/{n}/{m}/' /app/out/{n}.json && jq . /app/out/{n}.json\n",
)


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
        upstream = {name: results for name, results in memo.items() if name != stage.name}
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

    def typed(self) -> list[str]:
        texts = []
        for _ in range(2):
            n, m = self.chance.randrange(10_000), self.chance.randrange(100)
            text = self.chance.choice(TYPED)
            texts.append(text.replace("{n}", str(n)).replace("{m}", str(m)))
        return texts


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
    filler.stage(stage, bucket_keys(), {}, lambda bucket: ({"items": [one(i) for i in by_bucket[bucket]]}, None))
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


def fill_attempts(filler: Filler, keys: Sequence[str], memo: Memo, tokenizer: str) -> None:
    """Three attempts on each task, each with a trajectory, trial and checks."""
    stages = rollout_stages(filler.settings, tokenizer)
    made = {key: [_attempt(filler, number) for number in range(1, ATTEMPTS + 1)] for key in keys}
    terms = protocol_of(filler.settings).model_dump(mode="json")
    common = {"package": "0" * 64, "protocol": terms}
    filler.stage(stages.rollouts, keys, memo, lambda key: ({"seed": key, "attempts": made[key], **common}, None))

    def judged(key: str) -> tuple[dict[str, Any], None]:
        ones = [
            {"number": a["number"], "trajectory": a["trajectory"], "tokens": filler.chance.randint(4_000, 40_000),
             "reasons": [] if a["reward"] else ["rollout.failed"], "what": [] if a["reward"] else ["no"]}
            for a in made[key]
        ]  # fmt: skip
        return {"seed": key, "judged": ones, "tokenizer": tokenizer, "longest": 32_768, **common}, None

    filler.stage(stages.trajectories, keys, memo, judged)
    filler.append(_trials(made))


def _attempt(filler: Filler, number: int) -> dict[str, Any]:
    chance, solved = filler.chance, filler.chance.random() < 0.21
    missed = set() if solved else set(chance.sample(range(CHECKS), chance.choice([1, 1, 2, 2, 3, 5, 9, CHECKS])))
    checks = [
        {"id": f"C{n}", "requirement": "R1", "status": "fail" if n in missed else "pass", "message": ""}
        for n in range(CHECKS)
    ]
    turns = [filler.typed() for _ in range(TURNS)]
    return {
        "number": number, "trial": "t", "reward": int(solved), "checks": checks, "turns": TURNS, "commands": TURNS * 2,
        "prompt_tokens": 60_000, "completion_tokens": 6_000, "cost": 0.05, "seconds": 300.0, "error": "",
        "trajectory": filler.put(_atif(turns)), "problem": "",
    }  # fmt: skip


def _atif(turns: Sequence[Sequence[str]]) -> bytes:
    steps: list[dict[str, Any]] = [{"source": "user", "message": TEXT}]
    for texts in turns:
        reply = {"analysis": TEXT[:400], "plan": "p", "commands": [{"keystrokes": t, "duration": 1} for t in texts]}
        shown = {"results": [{"content": TEXT}]}
        steps.append({
            "source": "agent", "message": json.dumps(reply), "observation": shown, "timestamp": "2026-11-30T00:00:00Z"
        })  # fmt: skip
    return json.dumps({"schema_version": "ATIF-v1.8", "steps": steps}).encode()


def _trials(made: dict[str, list[dict[str, Any]]]) -> Iterator[Fact]:
    for key, attempts in made.items():
        for one in attempts:
            trial = TrialFact(
                stage="rollouts", key=key, kind="a:m", draft="d", round=0, repeat=one["number"], reward=one["reward"],
                exit_code=None, seconds=1.0,
            )  # fmt: skip
            yield trial
            for check in one["checks"]:
                yield CheckFact(
                    trial=trial.fact_id, check=check["id"], requirement="R1", status=check["status"], message=""
                )


def measured(home: Path, folder: Path) -> dict[str, Any]:
    """Seconds and peak resident memory of the real command, as a process of its own."""
    command = [str(Path(sys.executable).with_name("facet")), "report", str(folder), "--json"]
    root = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.items()  # noqa: TID251 - a program of its own
    kept = {name: text for name, text in inherited if not name.startswith("FACET_")}
    environment = {**kept, "FACET_HOME": str(home), "PYTHONPATH": root}
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"seconds": round(seconds, 1), "peak_memory_gb": round(peak / 2**20, 2)}


def counted(folder: Path) -> dict[str, str]:
    """What the page says of the whole, so that nobody measures an empty one."""
    told = {one["id"]: one for one in json.loads((folder / "report.json").read_text())}
    lines = {row[0]: row[2] for one in told["commands"]["tables"] for row in one["rows"] if len(row) == 4}
    attempts = {row[0]: row[1] for row in told["rollouts"]["tables"][0]["rows"]}
    return {"attempts": attempts["Attempts"], "commands": lines["Commands"], "trajectories": lines["Trajectories"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--skills", type=int, default=SKILLS)
    parser.add_argument("--keep", type=Path, help="write the page to this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facet-report-", ignore_cleanup_errors=True) as name:
        home = Path(name) / "home"
        settings = Settings(home=home, teacher="openai/synthetic", attempts=ATTEMPTS)
        try:
            filler = Filler(settings, connect.open_ledger(settings), options.tasks, options.skills)
            began = time.monotonic()
            keys, memo = fill_seeds(filler, fill_skills(filler))
            fill_attempts(filler, keys, memo, connect.open_counter(settings).name)
            filled = round(time.monotonic() - began, 1)
            folder = options.keep or Path(name) / "page"
            found = measured(home, folder)
            size = (folder / "report.html").stat().st_size
            print(json.dumps({**found, **counted(folder), "page_mb": round(size / 1e6, 2), "filling_seconds": filled}))
        finally:
            connect.stop_postgres(settings)


if __name__ == "__main__":
    main()
