"""Rows for training, from judged attempts: exactly what was written, with what may be learnt from."""

from __future__ import annotations

from typing import Any

from facet_dagster.domain.rollout import Attempt, Conversation, Judged, RolloutProtocol

_SHAREGPT = {"user": "human", "assistant": "gpt", "system": "system"}


def sft_row(
    seed: str, attempt: Attempt, judged: Judged, said: Conversation, protocol: RolloutProtocol, about: dict[str, Any]
) -> dict[str, Any]:
    """One conversation in both common forms. ``train`` says of each message whether a loss is taken on it."""
    return {
        "id": f"{seed}-{attempt.number}",
        "task": seed,
        **about,
        "model": protocol.model,
        "agent": protocol.agent,
        "reward": attempt.reward,
        "turns": attempt.turns,
        "tokens": judged.tokens,
        "messages": [{"role": m.role, "content": m.content} for m in said.messages],
        "train": [m.role == "assistant" for m in said.messages],
        "conversations": [{"from": _SHAREGPT[m.role], "value": m.content} for m in said.messages],
    }


def near_miss_row(
    seed: str, attempt: Attempt, judged: Judged, said: Conversation, protocol: RolloutProtocol, about: dict[str, Any]
) -> dict[str, Any]:
    """A failed attempt with what each check said: the signal that a reward of 0 hides (paper, Figure 2a)."""
    passed = len(attempt.checks) - len(attempt.missed)
    return {
        **sft_row(seed, attempt, judged, said, protocol, about),
        "checks": [{"id": c.id, "requirement": c.requirement, "status": c.status} for c in attempt.checks],
        "passed": passed,
        "missed": len(attempt.missed),
        "check_reward": passed / len(attempt.checks) if attempt.checks else 0.0,
    }
