"""What all processes of this machine share about one engine: slots, holds on images, folders, one build a name."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from facet_dagster.adapters.docker_engine import Engine
from facet_dagster.adapters.docker_exchange import Exchange
from facet_dagster.adapters.docker_holds import Holds
from facet_dagster.adapters.docker_slots import Slots, one_at_a_time
from facet_dagster.domain.ids import digest


class EngineShare:
    """Files below ``folder`` in a folder of the engine's own: another engine has other CPUs and images."""

    def __init__(self, engine: Engine, folder: Path, owner: str, *, builds: int, trials: int) -> None:
        self.folder = folder / digest(str(engine.info.get("ID") or ""))[:12]
        self.builds = Slots(self.folder, "build", builds, engine.check_stopping)
        self.trials = Slots(self.folder, "trial", trials, engine.check_stopping)
        # Slots of their own: a block that holds a session open may run a trial inside it.
        self.sessions = Slots(self.folder, "session", trials, engine.check_stopping)
        self.holds = Holds(self.folder)
        self.exchange = Exchange(self.folder / "exchange", owner)

    def alone_with(self, tag: str) -> AbstractContextManager[None]:
        """Nobody else builds ``tag`` during the block."""
        return one_at_a_time(self.folder, tag.rpartition(":")[2])
