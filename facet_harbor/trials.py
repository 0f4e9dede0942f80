"""Reads finished trials with Harbor's own classes, one JSON line for each folder named on standard input.

    PYTHONPATH=<checkout> python -m facet_harbor.trials < folders

It stays while its input is open, so that a job's trials are read as they end. A trial that another version of Harbor
wrote, or that cannot be read, is told as such in its line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harbor.models.trial.result import TrialResult
from harbor.utils.trajectory_validator import TrajectoryValidator

LARGEST = 64 * 1024 * 1024


def read(folder: Path) -> dict[str, Any]:
    """What a trial's folder says. Raises ValueError or OSError for what Harbor's classes refuse."""
    result = TrialResult.model_validate_json((folder / "result.json").read_bytes())
    asked, _, given, cost = result.compute_token_cost_totals()
    error = result.exception_info
    rewards = (result.verifier_result.rewards if result.verifier_result else None) or {}
    trajectory, problem = _trajectory(folder / "agent" / "trajectory.json")
    return {
        "task": result.task_name,
        "trial": result.trial_name,
        "reward": rewards.get("reward") if result.reward_valid else None,
        "error": f"{error.exception_type}: {error.exception_message}"[:1000] if error else "",
        "error_type": error.exception_type if error else "",
        "retry": bool(error and error.policy.should_retry),
        "prompt_tokens": asked or 0,
        "completion_tokens": given or 0,
        "cost": cost,
        "seconds": (result.finished_at - result.started_at).total_seconds() if result.finished_at else 0.0,
        "trajectory": trajectory,
        "problem": problem,
    }


def _trajectory(path: Path) -> tuple[str, str]:
    """Its path when it is valid, and otherwise why it is not."""
    if not path.is_file():
        return "", "no trajectory was written"
    if path.stat().st_size > LARGEST:
        return "", f"a trajectory of more than {LARGEST} bytes"
    validator = TrajectoryValidator()
    if validator.validate(path):
        return str(path), ""
    return "", f"no valid ATIF trajectory: {'; '.join(validator.errors)[:500]}"


def main() -> None:
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        try:
            told: dict[str, Any] = read(folder)
        except Exception as error:  # noqa: BLE001 - whatever a foreign file makes of Harbor's classes
            told = {"unreadable": f"{type(error).__name__}: {error}"[:1000]}
        sys.stdout.write(json.dumps({"folder": str(folder), **told}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
