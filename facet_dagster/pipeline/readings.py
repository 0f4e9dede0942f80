"""What each collected skill says by itself, kept in one Parquet file a bucket: read once, whoever asks again.

A cache: it can be removed at any time. Files are replaced whole, so a killed process leaves the old one.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import polars as pl

from facet_dagster.adapters.file_locks import held
from facet_dagster.domain.ids import bucket_of, digest
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import RawSkill, Skill, describe
from facet_dagster.ports import ArtifactStore
from facet_dagster.stages.curate import VERSION, Policy, examine
from facet_dagster.stages.curate.dedup import SCHEMA as MARKS
from facet_dagster.stages.curate.marks import Shingles, mark, shingles, tokens

PARALLEL = 2_000  # skills from which on several processes pay
_PR_SET_PDEATHSIG = 1

# ``found`` is a Skill, or with ``kept`` false a Rejection, as JSON; ``text`` is what the skill is compared by.
SCHEMA = {
    **MARKS,
    "bucket": pl.String,
    "origin": pl.String,
    "kept": pl.Boolean,
    "found": pl.String,
    "text": pl.String,
}

Missing = Mapping[str, Sequence[RawSkill]]
Reading = tuple[str, str, Skill | Rejection]


class Readings:
    """Files in ``folder``, one set for each version of the code and each policy."""

    def __init__(self, folder: Path, policy: Policy, *, workers: int = 1) -> None:
        self.folder = folder / digest([VERSION, repr(policy_parts(policy))])[:16]
        self._policy = policy
        self._workers = workers

    def missing(self, shares: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
        """Bucket -> ids of ``shares`` that were not read yet."""
        lacking = {bucket: set(ids) - set(self._open(bucket, ["id"])["id"]) for bucket, ids in shares.items()}
        return {bucket: ids for bucket, ids in lacking.items() if ids}

    def read(self, raws: Missing, store: ArtifactStore) -> None:
        """Examine these skills, all cores at work when they are many. Raises LedgerError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        jobs = [(self.folder / f"{bucket}.parquet", list(items), store, self._policy) for bucket, items in raws.items()]
        if self._workers < 2 or sum(len(job[1]) for job in jobs) < PARALLEL:
            for job in jobs:
                _read_bucket(*job)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._workers, context, initializer=_die_with, initargs=(os.getpid(),)) as pool:
            for done in [pool.submit(_read_bucket, *job) for job in jobs]:
                done.result()

    def table(self, ids: Sequence[str]) -> pl.DataFrame:
        """Skills that passed, one a row with ``SCHEMA`` of deduplication, bucket and text, in the order of ``ids``."""
        columns = [*MARKS, "bucket", "text"]
        parts = [self._open(bucket, ["kept", *columns]) for bucket in sorted({bucket_of(ident) for ident in ids})]
        rows = pl.concat([part.filter("kept").select(columns) for part in parts or [pl.DataFrame(schema=SCHEMA)]])
        return _in_order(ids, rows).select(columns)

    def of(self, bucket: str, ids: Sequence[str]) -> list[Reading]:
        """What was read of these skills of one bucket, in their order."""
        rows = _in_order(ids, self._open(bucket, ["id", "origin", "kept", "found"]))
        columns = rows.select("id", "origin", "kept", "found").iter_rows()
        return [(ident, origin, _found(found, kept=kept)) for ident, origin, kept, found in columns]

    def shingles_of(self, table: pl.DataFrame) -> Callable[[Iterable[bytes]], Mapping[bytes, Shingles]]:
        """For bodies (by hash) of ``table`` their shingles, read file by file."""
        firsts = table.unique("body", keep="first", maintain_order=True)
        places = {body: (bucket, ident) for body, bucket, ident in firsts.select("body", "bucket", "id").iter_rows()}

        def load(bodies: Iterable[bytes]) -> dict[bytes, Shingles]:
            wanted = defaultdict[str, dict[str, bytes]](dict)
            for body in bodies:
                bucket, ident = places[body]
                wanted[bucket][ident] = body
            found: dict[bytes, Shingles] = {}
            for bucket, names in wanted.items():
                rows = self._open(bucket, ["id", "found"]).filter(pl.col("id").is_in(list(names)))
                for ident, text in rows.iter_rows():
                    found[names[ident]] = shingles(tokens(json.loads(text)["body"]))
            return found

        return load

    def _open(self, bucket: str, columns: Sequence[str]) -> pl.DataFrame:
        return _open(self.folder / f"{bucket}.parquet", columns)


def policy_parts(policy: Policy) -> list[object]:
    """The policy as plain data, in an order that does not depend on the process."""
    return [sorted(value) if isinstance(value, frozenset) else value for value in vars(policy).values()]


def _in_order(ids: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    wanted = pl.DataFrame({"id": list(ids)}, schema={"id": pl.String}).with_row_index("arrival")
    return wanted.join(rows, on="id").sort("arrival")


def _open(path: Path, columns: Sequence[str] = tuple(SCHEMA)) -> pl.DataFrame:
    """The file as a table; empty when it is absent or damaged, so that its skills are read again."""
    wanted = {name: SCHEMA[name] for name in columns}
    try:
        table = pl.read_parquet(path, columns=list(columns), memory_map=False)
    except (OSError, pl.exceptions.PolarsError):
        return pl.DataFrame(schema=wanted)
    return table if dict(table.schema) == wanted else pl.DataFrame(schema=wanted)


def _read_bucket(path: Path, raws: Sequence[RawSkill], store: ArtifactStore, policy: Policy) -> None:
    with held(path.with_suffix(".lock")):
        old = _open(path)
        known = set(old["id"])
        rows = [_row(raw, store.get(raw.text), policy) for raw in raws if raw.id not in known]
        aside = path.with_suffix(".new")
        pl.concat([old, pl.DataFrame(rows, schema=SCHEMA, orient="row")]).write_parquet(aside, compression="zstd")
        aside.replace(path)


def _row(raw: RawSkill, data: bytes, policy: Policy) -> tuple[object, ...]:
    found = examine(raw, data, policy)
    kept = isinstance(found, Skill)
    body, rank, signature = mark(found) if isinstance(found, Skill) else (b"", 0, b"")
    text = describe(found.name, found.description, found.body) if isinstance(found, Skill) else ""
    place = bucket_of(raw.id)
    # What no UTF-8 can hold (a lone surrogate) becomes a question mark, as in every stored value.
    found_json = json.dumps(found.model_dump(mode="json"), ensure_ascii=False).encode("utf-8", "replace").decode()
    text = text.encode("utf-8", "replace").decode()
    return raw.id, raw.text, body, rank, signature, place, raw.origin, kept, found_json, text


def _found(text: str, *, kept: bool) -> Skill | Rejection:
    return Skill.model_validate_json(text) if kept else Rejection.model_validate_json(text)


def _die_with(parent: int) -> None:
    """A pool's process waits for work for ever when its parent was killed; an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
