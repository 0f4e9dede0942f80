"""Trajectories: what is read of them, what speaks against training on them, which of them make a set."""

from __future__ import annotations

import json
from typing import Any

import pytest

from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.rollout import Attempt, Conversation, Message, RolloutProtocol
from facet_dagster.domain.trial import CheckResult
from facet_dagster.stages.rollout import conversation, judge, near_miss_row, sft_row
from facet_dagster.stages.rollout.select import select

PROTOCOL = RolloutProtocol(agent="terminus-2", model="m", temperature=1.0, max_turns=0, context_tokens=9_000)
DONE = json.dumps({"commands": [], "task_complete": True})


def step(source: str, message: Any, shown: str = "", **more: Any) -> dict[str, Any]:
    observed = {"observation": {"results": [{"content": shown}]}} if shown else {}
    return {"source": source, "message": message, **observed, **more}


def file(*steps: dict[str, Any]) -> bytes:
    return json.dumps({"schema_version": "ATIF-v1.8", "steps": list(steps)}).encode()


def raw(*keys: str) -> str:
    return "Well. " + json.dumps({"commands": [{"keystrokes": key} for key in keys]}) + " That is all."


def attempt(reward: int | None = 1, **update: Any) -> Attempt:
    checks = [
        CheckResult(id="C1", requirement="R1", status="pass"),
        CheckResult(id="C2", requirement="R2", status="fail"),
    ]
    values = {
        "number": 1,
        "trial": "t",
        "reward": reward,
        "checks": checks[:1] if reward else checks,
        "turns": 2,
        "commands": 1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "cost": None,
        "seconds": 1.0,
        "error": "",
        "trajectory": "sha",
    }
    return Attempt.model_validate(values | update)


def said(*keys: str, finished: bool = True, words: str = "w") -> Conversation:
    messages = (Message(role="user", content=words), Message(role="assistant", content="a"))
    return Conversation(messages=messages, keystrokes=keys, finished=finished)


def reasons(of: Attempt, what: Conversation | None, longest: int = 100) -> list[Reason]:
    return list(judge(of, what, len, longest=longest).reasons)


def test_a_conversation_alternates_as_the_model_saw_it() -> None:
    found = conversation(file(step("user", "Do it."), step("agent", raw("ls\n"), "a b"), step("agent", DONE)))
    assert [(m.role, m.content) for m in found.messages] == [
        ("user", "Do it."),
        ("assistant", raw("ls\n")),
        ("user", "a b"),
        ("assistant", DONE),
    ]
    assert (found.keystrokes, found.finished) == (("ls\n",), True)


def test_tool_calls_are_read_where_the_reply_is_not_raw() -> None:
    call = {"function_name": "bash_command", "arguments": {"keystrokes": "pwd\n"}}
    over = {"function_name": "mark_task_complete", "arguments": {}}
    found = conversation(
        file(step("agent", [{"text": "I look."}], tool_calls=[call]), step("agent", "", tool_calls=[over]))
    )
    assert (found.keystrokes, found.finished, found.messages[0].content) == (("pwd\n",), True, "I look.")


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[1]", b"\xff\xfe", b'{"steps": 3}', b'{"steps": [3]}', b'{"steps": [{"source": "who"}]}'],
)
def test_what_is_no_trajectory_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        conversation(data)


@pytest.mark.parametrize(
    "reply", ["{" * 5_000, '{"commands": 3}', '{"commands": [3]}', "no object", '{"commands": null}']
)
def test_a_reply_that_is_no_object_holds_no_command(reply: str) -> None:
    assert conversation(file(step("agent", reply))).keystrokes == ()


def test_nothing_speaks_against_a_solved_whole_honest_attempt() -> None:
    assert (
        reasons(attempt(), said("ls /app/tests\n", "cat /app/solution/x\n", "./tests/run\n", "ls ~/solution\n")) == []
    )


@pytest.mark.parametrize(
    ("of", "what", "expected"),
    [
        (attempt(0), said(), [Reason.ROLLOUT_FAILED]),
        (attempt(None, error="E"), said(), [Reason.ROLLOUT_UNJUDGED]),
        (attempt(), None, [Reason.ROLLOUT_INCOMPLETE]),
        (attempt(), said(finished=False), [Reason.ROLLOUT_INCOMPLETE]),
        (attempt(), said(words="w" * 100), [Reason.ROLLOUT_TOO_LONG]),
        (
            attempt(0),
            said(finished=False, words="w" * 100),
            [Reason.ROLLOUT_FAILED, Reason.ROLLOUT_INCOMPLETE, Reason.ROLLOUT_TOO_LONG],
        ),
    ],
)
def test_every_reason_is_told(of: Attempt, what: Conversation | None, expected: list[Reason]) -> None:
    assert reasons(of, what) == expected


@pytest.mark.parametrize(
    "keys",
    [
        "cat /tests/checks.py\n",
        "ls /solution\n",
        "echo 1 > /logs/verifier/reward.txt\n",
        "cd /tests; ls\n",
        "find / -path '*/x' ; grep -r x /oracle/\n",
        "python3 -c 'open(\"/tests/test.sh\")'\n",
    ],
)
def test_who_reaches_for_the_judge_is_named(keys: str) -> None:
    judged = judge(attempt(), said("ls\n", keys), len, longest=100)
    assert judged.reasons == (Reason.ROLLOUT_TAMPERED,)
    assert " ".join(keys.split())[:20] in judged.what[0]


def test_rows_hold_the_words_and_where_a_loss_is_taken() -> None:
    judged = judge(attempt(0), said(), len, longest=100)
    about = {"family": "f", "skills": ["s"], "licences": ["MIT"]}
    row = sft_row("k", attempt(0), judged, said(), PROTOCOL, about)
    assert (row["train"], row["conversations"][1]) == ([False, True], {"from": "gpt", "value": "a"})
    near = near_miss_row("k", attempt(0), judged, said(), PROTOCOL, about)
    assert (near["passed"], near["missed"], near["check_reward"]) == (1, 1, 0.5)
    assert [check["status"] for check in near["checks"]] == ["pass", "fail"]


def row(task: str, number: int = 1, family: str = "a", skills: tuple[str, ...] = (), tokens: int = 5) -> dict[str, Any]:
    words = [{"role": "user", "content": f"{task}{number}"}]
    return {
        "id": f"{task}-{number}",
        "task": task,
        "family": family,
        "skills": skills,
        "tokens": tokens,
        "messages": words,
    }


def test_a_set_has_one_attempt_a_task_families_in_balance_and_no_skill_too_often() -> None:
    rows = [row("t1", 1, tokens=9), row("t1", 2, tokens=3), *(row(f"a{n}") for n in range(6)), row("b1", family="b")]
    chosen, left = select(rows, limit=3, per_skill=0)
    assert sum(one["family"] == "b" for one in chosen) == 1
    assert left == {"another attempt on the task was shorter": 1, "over the limit": 5}
    chosen, left = select([row(f"t{n}", skills=("s",)) for n in range(4)], limit=0, per_skill=2)
    assert (len(chosen), left) == (2, {"a skill of it is used often enough": 2})
    twice = [row("t1"), {**row("t2"), "messages": row("t1")["messages"]}]
    assert select(twice, limit=0, per_skill=0)[1] == {"the same words as another": 1}
    assert select(list(reversed(rows)), limit=3, per_skill=0) == select(rows, limit=3, per_skill=0)
