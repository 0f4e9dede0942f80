"""Trials and trajectories of others: results of Harbor and Terminal-Bench, ATIF files, conversations as ShareGPT."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from facet_dagster.stages.rollout import turns

Turns = list[list[str]]
_FENCE = re.compile(r"```(?:bash|sh|shell|console)\s*\n(.*?)```", re.DOTALL)
_ASSISTANT = {"gpt", "assistant", "model", "bot"}
_TYPED = ("keystrokes", "command", "cmd", "code")
_COLUMNS = ("conversations", "messages", "conversations_sharegpt")


class Trial(NamedTuple):
    """One judged attempt; ``reward`` 1 is a full one."""

    task: str
    reward: int


def read_trials(path: Path) -> list[Trial]:
    """Of Harbor's result.json of a trial, or Terminal-Bench's results.json; none where nothing was judged.

    Raises ValueError for what is no JSON.
    """
    told = json.loads(path.read_bytes())
    if not isinstance(told, dict):
        return []
    if isinstance(told.get("results"), list):
        lines = [line for line in told["results"] if isinstance(line, dict) and "task_id" in line]
        return [Trial(str(line["task_id"]), int(line.get("is_resolved") is True)) for line in lines]
    judged = told.get("verifier_result")
    rewards = judged.get("rewards") if isinstance(judged, dict) else None
    reward = rewards.get("reward") if isinstance(rewards, dict) else None
    if "task_name" not in told or told.get("reward_valid") is False or not _number(reward):
        return []
    return [Trial(str(told["task_name"]), int(reward == 1))]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_trajectory(path: Path) -> Turns:
    """What an agent typed in an ATIF file, turn by turn. Raises ValueError."""
    data = path.read_bytes()
    _, typed = turns(data)
    if any(typed):
        return typed
    steps = [step for step in json.loads(data)["steps"] if step.get("source") == "agent"]
    return [_called(step.get("tool_calls")) for step in steps]  # tools of another agent


def read_chats(path: Path) -> Iterator[Turns]:
    """The trajectories of a file of conversations; none where it holds none. Raises ValueError for a broken file."""
    if path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix == ".jsonl":
        with path.open("rb") as lines:
            for line in lines:
                yield from _chat(json.loads(line)) if line.strip() else ()
    else:
        told = json.loads(path.read_bytes())
        for row in told if isinstance(told, list) else [told]:
            yield from _chat(row)


def _parquet(path: Path) -> Iterator[Turns]:
    if path.with_suffix(".jsonl").is_file():
        return  # the same rows, in another form
    try:
        frame = pl.scan_parquet(path)
        names = [name for name in _COLUMNS if name in frame.collect_schema().names()][:1]
        rows = frame.select(names).collect().to_dicts() if names else []
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error
    for row in rows:
        yield from _chat(row)


def _chat(row: object) -> Iterator[Turns]:
    if not isinstance(row, Mapping):
        return
    said = next((row[name] for name in _COLUMNS if isinstance(row.get(name), list)), None)
    messages = [one for one in said or () if isinstance(one, Mapping)]
    own = [one for one in messages if str(one.get("role") or one.get("from")) in _ASSISTANT]
    if own:
        yield [_typed(one) for one in own]


def _typed(message: Mapping[str, Any]) -> list[str]:
    """What a message types: its tool calls, the commands of a JSON reply, or the shell blocks of its text."""
    called = _called(message.get("tool_calls"))
    text = message.get("content") or message.get("value") or ""
    text = text if isinstance(text, str) else json.dumps(text)
    return called or _commands(text) or _FENCE.findall(text)


def _commands(text: str) -> list[str]:
    start = text.find("{")
    try:
        told, _ = json.JSONDecoder().raw_decode(text[start:]) if start >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return []
    commands = told.get("commands") if isinstance(told, dict) else None
    return [found for one in commands if (found := _text(one))] if isinstance(commands, list) else []


def _called(calls: object) -> list[str]:
    found = []
    for call in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ():
        of = call.get("function", call) if isinstance(call, Mapping) else {}
        arguments = of.get("arguments") if isinstance(of, Mapping) else None
        if isinstance(arguments, str):
            arguments = _object(arguments)
        if text := _text(arguments):
            found.append(text)
    return found


def _object(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(arguments: object) -> str:
    if not isinstance(arguments, Mapping):
        return arguments if isinstance(arguments, str) else ""
    return next((text for name in _TYPED if isinstance(text := arguments.get(name), str)), "")
