"""One night: changed sources in, new seeds through every stage, released tasks replayed, a dated release out.

``python -m facet_dagster.night [--batch LABEL]``. What is done is not done again, so a killed night goes on with the
next one, today's or another day's, and a night with nothing new runs no stage. Runs are made as ``launch`` makes them.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg

from facet_dagster import connect
from facet_dagster.child import INTERRUPTED
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.errors import BudgetExceeded, FacetError, Held
from facet_dagster.funnel import Stage, stale
from facet_dagster.launch import (
    SELECTION,
    Ran,
    carry,
    console,
    die_with,
    materialize,
    reported,
    unforeseen,
    watching,
)
from facet_dagster.pipeline.changed import Gathered, ingest_changed
from facet_dagster.pipeline.corpus import withdraw
from facet_dagster.pipeline.graph import SkillStages, skill_stages
from facet_dagster.pipeline.policy import policy_of
from facet_dagster.pipeline.selection import unused
from facet_dagster.pipeline.sources import sources_of
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports import nights
from facet_dagster.reports.nights import NightReport, StageRun
from facet_dagster.settings import Settings, load_settings

CLAIM = "night"
ROUNDS = 3  # new decisions about duplicates may touch further buckets


class Over(Exception):
    """No further stage begins; ``state`` says why."""

    def __init__(self, state: str, said: str) -> None:
        super().__init__(said)
        self.state, self.said = state, said


@dataclass
class Night:
    """A night at work; ``run`` gives its report."""

    settings: Settings
    ledger: Ledger
    store: ArtifactStore
    instance: dg.DagsterInstance
    name: str
    said: list[str] = field(default_factory=list)
    stages: list[Ran] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    state: str = nights.DONE
    probed: bool = False

    def run(self) -> NightReport:
        """Every step in order. An interrupt is noted and raised again."""
        began = time.monotonic()
        carried = nights.unfinished(self.ledger, self.name)
        nights.note(self.ledger, self.name, nights.BEGUN)
        try:
            self._make(carried)
            self._show()
        except KeyboardInterrupt:
            self._say(nights.STOPPED, "Stopped. What was computed and paid for is kept.")
            raise
        except BaseException as error:
            self._say(nights.TROUBLE, f"{type(error).__name__}: {error}")
            raise
        finally:
            report = NightReport(
                night=self.name,
                state=self.state,
                said=tuple(self.said),
                carried=tuple(carried),
                stages=tuple(StageRun(stage=r.asset, **_counts(r)) for r in self.stages),
                spent=round(connect.spent(), 6),
                seconds=round(time.monotonic() - began, 1),
                **self.facts,
            )
            nights.end(report, self.ledger, self.store)
        return report

    def _make(self, carried: list[str]) -> None:
        """New tasks. What is left of earlier nights comes first, so that it does not grow."""
        try:
            self._ingest()
            self._carry(nights.seeds_of(self.ledger, carried))
            self._skills(everything=bool(carried))
            self._carry(self._mint())
        except BudgetExceeded as error:
            self._say(nights.BUDGET, str(error))
        except Over as over:
            self._say(over.state, over.said)
        except FacetError as error:
            self._say(nights.TROUBLE, str(error))

    def _show(self) -> None:
        """Health first: what rotted is not in the release."""
        if self.settings.night_replays and self.settings.releases.is_dir():
            self.facts["health"] = self._asset("release_health", {})
        if any(run.asset == "seed" for run in self.stages):
            self.facts["yields"] = self._asset("yields", {})
        self.facts["release"] = self._asset("release", {"night": self.name})

    def _asset(self, asset: str, config: dict[str, Any]) -> Any:
        ran = reported(materialize, self.instance, asset, [], {"ops": {asset: {"config": config}}})
        if ran.error:
            self._say(nights.TROUBLE, f"{asset} failed: {ran.error}")
        return ran.report

    def _ingest(self) -> None:
        if self.settings.sources is None:
            return
        found = ingest_changed(
            sources_of(str(self.settings.sources)),
            look=partial(connect.look_at, self.settings),
            open_source=partial(connect.open_source, self.settings),
            ledger=self.ledger,
            store=self.store,
            policy=policy_of(self.settings),
            presence=lambda ids, there: withdraw(ids, self.ledger, present=there),
        )
        self.facts |= _sources(found)
        new = self.facts["new_skills"]
        console.print(f"  {'sources':<20} {found.unchanged} unchanged, {new} new skills")
        for error in found.errors:
            self._say(nights.TROUBLE, error)

    def _skills(self, *, everything: bool) -> None:
        """The stages over skills, where something is stale; ``everything`` shows again what a killed run settled."""
        for name in SkillStages._fields:
            touched = bucket_keys() if everything else self._stale(name)
            for _ in range(ROUNDS):
                if not touched:
                    break
                self._run(name, touched)
                touched = self._stale(name)

    def _stale(self, name: str) -> list[str]:
        stage: Stage = skill_stages(self.settings, self.ledger)._asdict()[name]
        return sorted(stale(stage, bucket_keys(), self.ledger))

    def _run(self, asset: str, keys: Sequence[str], config: dict[str, Any] | None = None) -> None:
        """Raises Over when it failed."""
        if asset not in ("skills", "skill_index"):
            self._probe()
        self.stages.append(reported(materialize, self.instance, asset, keys, config))
        if error := self.stages[-1].error:
            raise self._over(f"{asset} failed: {error}")

    def _over(self, said: str) -> Over:
        budget = connect.used_up(self.settings, self.ledger)
        return Over(nights.BUDGET, budget) if budget else Over(nights.TROUBLE, said)

    def _mint(self) -> list[str]:
        """Keys of this night's seeds, as many as the night shall hold where pairs are left."""
        before = nights.seeds_of(self.ledger, [self.name])
        count = self.settings.night_seeds or self.settings.seeds
        if len(before) < count and unused(self.settings, self.ledger, self.store):
            config = {"batch": self.name, "count": count, "may_be_empty": True}
            self._run(SELECTION, [], {"ops": {SELECTION: {"config": config}}})
        keys = nights.seeds_of(self.ledger, [self.name])
        self.facts["minted"] = len(keys) - len(before)
        return keys

    def _carry(self, keys: list[str]) -> None:
        if not keys:
            return
        self.instance.add_dynamic_partitions("seed", keys)  # the selection may have been killed before it did
        self._probe()
        until = "trajectories" if self.settings.teacher else "certificate"
        spent = partial(connect.used_up, self.settings, self.ledger)
        ran = carry(self.settings, self.ledger, self.instance, keys, until=until, over=lambda: bool(spent()))
        self.stages += ran
        for run in ran:
            if run.error and not spent():
                self._say(nights.TROUBLE, f"{run.asset} failed: {run.error}")
        if any(run.error for run in ran) and (budget := spent()):
            raise Over(nights.BUDGET, budget)

    def _probe(self) -> None:
        """Once, before the first stage that may ask a model. Raises what a wrong key or endpoint raises."""
        if not self.probed:
            connect.probe_llm(self.settings, self.ledger, self.store)
            self.probed = True

    def _say(self, state: str, said: str) -> None:
        """The gravest state stays: stopped, then budget, then trouble."""
        order = [nights.DONE, nights.TROUBLE, nights.BUDGET, nights.STOPPED]
        self.state = max(self.state, state, key=order.index)
        if said not in self.said:
            self.said.append(said)
            console.print(f"  {said}", markup=False, soft_wrap=True)


def _counts(ran: Ran) -> dict[str, Any]:
    return {"settled": ran.settled, "cached": ran.cached, "rejected": ran.rejected, "error": ran.error}


def _sources(found: Gathered) -> dict[str, Any]:
    read = len(found.report.sources) if found.report else 0
    counts = {"unchanged": found.unchanged, "read": read - len(found.errors), "failed": len(found.errors)}
    return {"sources": counts, "new_skills": found.report.new if found.report else 0}


def tonight(settings: Settings) -> str:
    """The label of a night that begins now: yymmdd in FACET_NIGHT_TIMEZONE."""
    return f"{datetime.now(ZoneInfo(settings.night_timezone)):%y%m%d}"


def run(settings: Settings, batch: str) -> NightReport:
    """Raises Held while another night is at work."""
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    with ledger.claim(CLAIM, wait=False), dg.DagsterInstance.get() as instance, watching(instance):
        return Night(settings, ledger, store, instance, batch or tonight(settings)).run()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m facet_dagster.night", description=__doc__)
    parser.add_argument("--batch", default="", help="label of the night; today's yymmdd when empty")
    parser.add_argument("--parent", type=int, default=0, help="id of the process with which this one shall end")
    options = parser.parse_args(argv)
    die_with(options.parent)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = run(load_settings(), options.batch)
    except Held:
        console.print("Another night is at work: nothing was begun. It goes on, and `facet night` runs after it.")
        return 0
    except FacetError as error:
        console.print(f"facet: {error}", markup=False, soft_wrap=True)
        return 1
    except Exception as error:  # noqa: BLE001 - the last resort: one sentence, and the whole story in a file
        console.print(f"facet: {unforeseen(error, load_settings())}", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped. Run again to go on: what was computed and paid for is kept.", soft_wrap=True)
        return INTERRUPTED
    return 1 if report.state == nights.TROUBLE else 0


if __name__ == "__main__":
    sys.exit(main())
