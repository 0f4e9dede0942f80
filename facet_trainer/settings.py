"""Table 9 as TRL's SFTConfig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from trl import SFTConfig

TABLE9 = Path(__file__).with_name("table9.yaml")
BATCH = 64  # trajectories a step (paper, Table 9)


def table9(**changed: Any) -> SFTConfig:
    """The paper's values, with ``changed`` over them."""
    return SFTConfig(**{**yaml.safe_load(TABLE9.read_text(encoding="utf-8")), **changed})


def accumulation(processes: int, per_device: int) -> int:
    """Steps of gradient accumulation that make BATCH trajectories a step. Raises ValueError."""
    steps, rest = divmod(BATCH, processes * per_device)
    if rest or not steps:
        raise ValueError(f"{BATCH} trajectories a step cannot be dealt to {processes} processes of {per_device} each")
    return steps
