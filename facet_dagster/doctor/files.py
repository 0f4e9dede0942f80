"""What lies in files: configured ones, the artifact store, the vector store."""

from __future__ import annotations

import fcntl
import os
from itertools import islice
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.qdrant_client_vector_store import QdrantClientVectorStore
from facet_dagster.adapters.tape import Tape
from facet_dagster.connect import COLLECTION
from facet_dagster.doctor.database import ledger
from facet_dagster.doctor.finding import Finding, Patient, broken, ok, warn
from facet_dagster.errors import LedgerError, VectorStoreError
from facet_dagster.settings import Settings

_SAMPLE = 20
_SHOWN = 3


def configured(patient: Patient) -> Finding:
    """Every file that a setting names is there, and the tape can be read where it is replayed."""
    s = patient.settings
    named = {
        "FACET_SOURCES": s.sources,
        "FACET_TOKENIZER": s.tokenizer,
        "FACET_SKILLS": s.skills,
        "FACET_MODELS": s.models,
    }
    absent = [f"{name}={path}" for name, path in named.items() if path is not None and not path.exists()]
    if absent:
        return broken("files", f"there is no {', no '.join(absent)}", "correct the path, or unset the variable")
    if s.live:
        return ok("files", "every configured file is there")
    if not s.tape.is_file():
        mend = "correct FACET_TAPE, or set FACET_MODEL to ask a model instead"
        return broken("files", f"there is no tape FACET_TAPE={s.tape}", mend)
    tape = Tape.load(s.tape)
    return ok("files", f"every configured file is there; the tape {s.tape.name} holds {len(tape.replies)} replies")


def artifacts(patient: Patient) -> Finding:
    """The store can be read: a sample of what the ledger names, or of what lies there, has its hash."""
    folder = patient.settings.home / "artifacts"
    named, wanted = _named(patient.settings)
    if not folder.exists():
        if named:
            return broken("artifacts", f"the ledger names {named}, but {folder} is gone", _RESTORE)
        return ok("artifacts", "none was stored yet")
    if not folder.is_dir():
        return broken("artifacts", f"{folder} is no folder", f"move that file away. {_RESTORE}")
    try:
        hashes = wanted or [path.name for path in islice(folder.glob("[0-9a-f][0-9a-f]/??/*"), _SAMPLE)]
        store = FsspecArtifactStore(str(folder), sweep=False)
        wrong = {sha: said for sha in hashes if (said := _unread(store, sha))}
    except OSError as error:
        return broken("artifacts", f"{folder} cannot be read ({error.strerror})", f"make it readable. {_RESTORE}")
    if wrong:
        first = "; ".join(list(wrong.values())[:_SHOWN])
        return broken("artifacts", f"{len(wrong)} of {len(hashes)} that were tried cannot be read: {first}", _RESTORE)
    return ok(
        "artifacts", f"{len(hashes)} of {named or 'those that lie there'} were read, with the hash they should have"
    )


_RESTORE = (
    "Bring the artifacts back with `facet restore` of a backup, or remove what is damaged and run its stage again"
)


def _named(settings: Settings) -> tuple[int, list[str]]:
    """How many artifacts the ledger names, and some of them; nothing where it cannot be asked now."""
    try:
        found = ledger(settings)
    except LedgerError:
        return 0, []
    return (found.artifacts, list(found.sample)) if found else (0, [])


def _unread(store: FsspecArtifactStore, sha: str) -> str:
    try:
        store.get(sha)
    except LedgerError as error:
        return str(error)
    return ""


def vectors(patient: Patient) -> Finding:
    """The Qdrant server answers, or the embedded shard is free."""
    url, path = patient.settings.qdrant_url, patient.settings.home / "vectors"
    if url:
        return _server(url)
    if path.exists() and not path.is_dir():
        return broken("vectors", f"{path} is no folder", "remove it: the shard is filled again from cached vectors")
    if _is_locked(path.with_name(path.name + ".lock")):
        return _held(path)
    if not (path / "segments").is_dir():
        return ok("vectors", "there is no shard yet: `skill_index` makes it")
    return ok("vectors", "the embedded shard is free")


def _server(url: str) -> Finding:
    store = QdrantClientVectorStore(url, COLLECTION, seconds=10)
    try:
        there = store.is_there()
    except VectorStoreError as error:
        return broken("vectors", str(error), "start the Qdrant server, or correct FACET_QDRANT_URL")
    finally:
        store.close()
    return ok(
        "vectors", f"Qdrant answers; the collection {COLLECTION} is {'there' if there else 'made when it is needed'}"
    )


def _held(path: Path) -> Finding:
    pid = _holder(path.with_name(path.name + ".holder"))
    arguments = _arguments(pid)
    if arguments is None:
        return broken("vectors", f"the shard {path} is locked by a process that cannot be seen", _END)
    if _is_run(arguments):
        return warn(
            "vectors", f"the shard is in use by the run of process {pid}", "wait for it: others wait 60 s, then fail"
        )
    what = f"the shard {path} is locked by process {pid} ({' '.join(arguments)[:80]})"
    return broken("vectors", what, _END)


_END = "end that process: stages that need the shard wait 60 s for it and then fail"


def _is_locked(lock: Path) -> bool:
    """Whether another process holds the lock. A shared one is taken and given back at once; no file is made."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _holder(file: Path) -> int:
    """The process that the shard's own note names; 0 where there is none."""
    try:
        return int(file.read_text(encoding="utf-8").rpartition(" ")[2])
    except (OSError, ValueError):
        return 0


def _arguments(pid: int) -> list[str] | None:
    try:
        return list(psutil.Process(pid).cmdline()) if pid else None
    except psutil.Error:
        return None


def _is_run(arguments: list[str]) -> bool:
    """Whether the process is one of our runs, or Dagster's."""
    return "facet_dagster.launch" in arguments or {"dagster", "api"} <= set(arguments)
