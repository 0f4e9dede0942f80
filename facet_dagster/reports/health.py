"""Whether released tasks still hold: some of them are replayed, and those that rotted are quarantined."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from facet_dagster.domain.archive import ArchiveError
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError, PortError
from facet_dagster.pipeline.quarantine import quarantine, quarantined
from facet_dagster.ports import ArtifactStore, Ledger, Sandbox
from facet_dagster.reports.revalidate import package_of
from facet_dagster.stages.task.certificate.replay import Replay, replay

STAGE, KIND = "health", "replay"


class Replayed(Value):
    """One task. ``replay`` is None where it could not be run: ``trouble`` says why, which is no verdict."""

    key: str
    replay: Replay | None
    trouble: str = ""
    quarantined: bool = False


class Health(Value):
    """``doubted``: so much failed that the machine is to blame rather than the tasks; nothing was quarantined then."""

    lines: tuple[Replayed, ...]
    doubted: bool = False

    @property
    def rotten(self) -> list[Replayed]:
        return [line for line in self.lines if line.replay is not None and line.replay.rotten]

    @property
    def unknown(self) -> list[Replayed]:
        """Neither stands nor rotted: no engine, a limit that was hit."""
        return [line for line in self.lines if line.replay is None or not (line.replay.stands or line.replay.rotten)]


def sample(packages: Mapping[str, str], ledger: Ledger, size: int) -> dict[str, str]:
    """``size`` of the tasks (key -> package) whose last replay is longest ago, those never replayed first.

    Tasks in quarantine are left out.
    """
    apart = quarantined(ledger)
    last = {key: place for place, (key,) in enumerate(ledger.values(AttemptFact, "key", stage=STAGE))}
    order = sorted(set(packages) - set(apart), key=lambda key: (last.get(key, -1), key))
    return {key: packages[key] for key in order[:size]}


def health(
    packages: Mapping[str, str],
    *,
    ledger: Ledger,
    store: ArtifactStore,
    sandbox: Sandbox,
    workers: int,
) -> Health:
    """Replay every task (key -> package), ``workers`` at once; each replay is a row of the ledger.

    A task is quarantined only while at least as many others stand, which shows that this machine can judge.
    """
    one = partial(_one, ledger=ledger, store=store, sandbox=sandbox)
    with ThreadPoolExecutor(max(1, workers)) as pool:
        lines = list(pool.map(one, packages.items()))
    found = Health(lines=tuple(lines))
    standing = sum(line.replay is not None and line.replay.stands for line in lines)
    if len(found.rotten) > standing:
        return found.model_copy(update={"doubted": True})
    for line in found.rotten:
        assert line.replay is not None
        note = f"Replayed and found rotten. {line.replay.what}"
        quarantine(ledger, line.key, note, by="check", name=STAGE, package=packages[line.key])
    marked = tuple(line.model_copy(update={"quarantined": line in found.rotten}) for line in lines)
    return Health(lines=marked)


def _one(item: tuple[str, str], *, ledger: Ledger, store: ArtifactStore, sandbox: Sandbox) -> Replayed:
    key, package = item
    try:
        found = replay(package_of(store.get(package)), sandbox=sandbox)
    except (PortError, ConfigError, ArchiveError) as error:
        return Replayed(key=key, replay=None, trouble=" ".join(str(error).split())[:500])
    ledger.append([_fact(key, found, ledger, store)])
    return Replayed(key=key, replay=found)


def _fact(key: str, found: Replay, ledger: Ledger, store: ArtifactStore) -> AttemptFact:
    """Rounds count from 0, so that equal replays are rows of their own."""
    return AttemptFact(
        stage=STAGE,
        key=key,
        kind=KIND,
        round=len(ledger.find(AttemptFact, stage=STAGE, key=key)),
        ok=found.stands,
        component="verifier" if found.rotten else "",
        summary=(found.what or "Baseline 0, oracle 1.")[:1000],
        artifact=store.put(to_json(found).encode()),
    )


def health_markdown(found: Health) -> str:
    """As a table."""
    rows = [f"| {line.key} | {_verdict(line)} | {_why(line)} |" for line in found.lines]
    return "\n".join(["| task | verdict | what was seen |", "|---|---|---|", *rows])


def _verdict(line: Replayed) -> str:
    if line.replay is None:
        return "unknown"
    if line.replay.stands:
        return "stands"
    return "rotten" if line.replay.rotten else "unknown"


def _why(line: Replayed) -> str:
    text = line.trouble if line.replay is None else line.replay.what
    return (text + " Quarantined." if line.quarantined else text).replace("|", "/")
