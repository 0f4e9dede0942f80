"""Artifacts that nothing names: left by runs that were killed before they recorded anything.

Named is an artifact whose hash stands in any column of any row of the ledger, whether its result is current or not,
or in the content of an artifact that is named.
"""

from __future__ import annotations

import re
import time

from facet_dagster.adapters.fsspec_artifact_store import Blob, FsspecArtifactStore
from facet_dagster.adapters.ledger_copy import LedgerCopy
from facet_dagster.domain.outcome import Value

DAY = 86_400.0
_HASH = re.compile(rb"(?=([0-9a-f]{64}))")


class Tidied(Value):
    """``removed`` artifacts, or those that would be, of ``bytes`` together; ``young`` are not named either, but new."""

    artifacts: int
    removed: tuple[str, ...]
    bytes: int
    young: int


def tidy(ledger: LedgerCopy, store: FsspecArtifactStore, *, days: float, dry_run: bool) -> Tidied:
    """Remove what nothing names and nobody stored for ``days``.

    Raises LedgerError, also when an artifact that is named cannot be read: what it names is not known then, and
    nothing is removed.
    """
    before = time.time() - days * DAY
    blobs = {blob.sha256: blob for blob in store.each()}  # first: what is stored from now on is young
    with ledger.snapshot() as snapshot:
        named = snapshot.hashes()
    unnamed = {sha for sha in blobs if sha not in named}
    old = {sha for sha in unnamed if blobs[sha].used < before}
    doomed = _without_reached(store, blobs, old)
    gone = [sha for sha in sorted(doomed) if dry_run or store.remove(sha, before)]
    return Tidied(
        artifacts=len(blobs),
        removed=tuple(gone),
        bytes=sum(blobs[sha].size for sha in gone),
        young=len(unnamed) - len(old),
    )


def _without_reached(store: FsspecArtifactStore, blobs: dict[str, Blob], old: set[str]) -> set[str]:
    """``old`` without what the others name, directly or by way of each other."""
    doomed = set(old)
    queue = [sha for sha in blobs if sha not in doomed]
    while doomed and queue:
        for found in {match.decode() for match in _HASH.findall(store.get(queue.pop()))} & doomed:
            doomed.discard(found)
            queue.append(found)
    return doomed
