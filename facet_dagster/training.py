"""Asks the trainer, in its own environment, what it would train on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError
from facet_dagster.setup.trainer import trainer_env, trainer_python


class TrainCheck(Value):
    """What TRL makes of an export. Token counts are by ``tokenizer``, and those of ``tokens`` before truncation.

    ``truncated`` rows had more than ``max_length`` tokens; ``dropped`` ones had nothing left to train on. ``spans``
    counts trained spans by how they compare with the export's messages: equal, trimmed (blanks around it are gone),
    respaced (inner blanks differ), cut (at the end of a truncated row). ``not_trained`` assistant turns are kept from
    training by the export.
    """

    export: str
    kind: str | None
    rows: int
    tokenizer: str
    max_length: int
    tokens: dict[str, int]
    truncated: int
    dropped: int
    not_trained: int
    trained_tokens: int
    trained_share: float
    spans: dict[str, int]
    problems: tuple[str, ...]
    problem_count: int
    steps: dict[str, float] | None
    trainer: dict[str, str]
    table9: dict[str, Any]


def check_export(
    export: Path,
    home: Path,
    env: Mapping[str, str],
    *,
    tokenizer: Path | None = None,
    template: str = "",
    max_length: int = 0,
    steps: int = 0,
) -> TrainCheck:
    """Raises ConfigError when there is no trainer, or when it cannot read the export."""
    python = trainer_python(home)
    if python is None:
        raise ConfigError("The trainer is not set up: run `python3 -m facet_dagster.setup --with trainer`")
    argv = [str(python), "-m", "facet_trainer.check", str(export)]
    argv += ["--tokenizer", str(tokenizer)] if tokenizer else []
    argv += ["--template", template] if template else []
    argv += ["--max-length", str(max_length), "--steps", str(steps)]
    done = subprocess.run(argv, env={**env, **trainer_env()}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise ConfigError(said[-1] if said else f"The trainer ended with exit code {done.returncode}")
    return TrainCheck.model_validate(json.loads(done.stdout.splitlines()[-1]))
