"""Read a trajectory in the Agent Trajectory Interchange Format (ATIF), as Terminus-2 writes it with raw replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from facet_dagster.domain.rollout import Conversation, Message

_ROLES: Mapping[str, Literal["user", "assistant"]] = {"user": "user", "agent": "assistant", "system": "user"}


def conversation(data: bytes) -> Conversation:
    """The messages and keystrokes of an ATIF file. Raises ValueError for what is no such file."""
    steps = _steps(data)
    messages = tuple(message for step in steps for message in _messages(step))
    keys = tuple(text for step in steps if step.get("source") == "agent" for text in _keystrokes(step))
    last: Mapping[str, Any] = next((step for step in reversed(steps) if step.get("source") == "agent"), {})
    return Conversation(messages=messages, keystrokes=keys, finished=_says_done(last))


def turns(data: bytes) -> tuple[str, list[list[str]]]:
    """The day (ISO, empty when not told) and, for each turn of the agent, what it typed. Raises ValueError."""
    steps = [step for step in _steps(data) if step.get("source") == "agent"]
    day = next((str(step["timestamp"])[:10] for step in steps if step.get("timestamp")), "")
    try:
        return day, [list(_keystrokes(step)) for step in steps]
    except (AttributeError, TypeError) as error:  # another writer's tool calls
        raise ValueError(f"no ATIF trajectory: {error}") from error


def _steps(data: bytes) -> list[Mapping[str, Any]]:
    try:
        value = json.loads(data)
        steps = value["steps"]
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise ValueError("its steps are no list of objects")
    except (KeyError, TypeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"no ATIF trajectory: {error}") from error
    return steps


def _messages(step: Mapping[str, Any]) -> Iterator[Message]:
    """What was said, then what the terminal showed, which the model read as the next message."""
    role = _ROLES.get(str(step.get("source")))
    if role is None:
        raise ValueError(f"a step of unknown source {step.get('source')!r}")
    yield Message(role=role, content=_text(step.get("message")))
    results = (step.get("observation") or {}).get("results") or []
    shown = "\n".join(_text(result.get("content")) for result in results if isinstance(result, dict))
    if shown:
        yield Message(role="user", content=shown)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _keystrokes(step: Mapping[str, Any]) -> Iterator[str]:
    for call in step.get("tool_calls") or ():
        if call.get("function_name") == "bash_command":
            yield str((call.get("arguments") or {}).get("keystrokes", ""))
    reply = _reply(_text(step.get("message")))
    commands = reply.get("commands") if not step.get("tool_calls") else ()
    for command in commands if isinstance(commands, list) else ():
        if isinstance(command, dict):
            yield str(command.get("keystrokes", ""))


def _says_done(step: Mapping[str, Any]) -> bool:
    called = {call.get("function_name") for call in step.get("tool_calls") or ()}
    return "mark_task_complete" in called or _reply(_text(step.get("message"))).get("task_complete") is True


def _reply(text: str) -> dict[str, Any]:
    """The JSON object in a raw reply, whatever stands around it; empty when there is none."""
    start = text.find("{")
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:]) if start >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
