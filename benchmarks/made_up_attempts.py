"""Attempts of a made-up run: trajectories of seven turns, checks, trials; a fifth of them succeed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.made_up_run import ATTEMPTS, CHECKS, TEXT, Filler
from facet_dagster.domain.facts import CheckFact, Fact, TrialFact
from facet_dagster.funnel import Memo
from facet_dagster.pipeline.rollouts import protocol_of, rollout_stages

TURNS = 7
TYPED = (
    "cat /app/data/{n}.csv | head -{m}\n",
    "ls -la /app/{n}; wc -l /app/data/*.csv\n",
    "grep -n 'row {n}' /app/data/orders.csv | sort | uniq -c\n",
    "cat > /app/out/{n}.py <<'EOF'\nimport csv\nprint({m})\nEOF\npython3 /app/out/{n}.py > /app/out/{n}.json\n",
    'for f in /app/data/{n}*; do head -3 "$f"; done\n',
    "cd /app && sed -n '1,{m}p' RULES.md\n",
    "sed -i 's/{n}/{m}/' /app/out/{n}.json && jq . /app/out/{n}.json\n",
)


def _typed(chance: random.Random) -> list[str]:
    texts = []
    for _ in range(2):
        n, m = chance.randrange(10_000), chance.randrange(100)
        text = chance.choice(TYPED)
        texts.append(text.replace("{n}", str(n)).replace("{m}", str(m)))
    return texts


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
    turns = [_typed(chance) for _ in range(TURNS)]
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
