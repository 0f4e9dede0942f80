"""From settings to ports: which adapter stands behind each port of this installation."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from facet_dagster import __version__
from facet_dagster.adapters.cached_embedder import CachedEmbedder
from facet_dagster.adapters.docker_disk import DiskLimits
from facet_dagster.adapters.docker_publish import LayoutPublisher, RegistryPublisher
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.docker_slots import default_slots_dir
from facet_dagster.adapters.embedded_postgres import postgres_url, stop
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.git_repository import git_tree, newest, sweep
from facet_dagster.adapters.harbor_harness import HarborHarness
from facet_dagster.adapters.ledger_copy import LedgerCopy
from facet_dagster.adapters.litellm_client import LitellmClient
from facet_dagster.adapters.litellm_llm import LitellmLLM
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.adapters.qdrant_client_vector_store import QdrantClientVectorStore
from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
from facet_dagster.adapters.reap_on_start import reap_on_start
from facet_dagster.adapters.sentence_transformers_embedder import SentenceTransformersEmbedder
from facet_dagster.adapters.spending import Budgets, Purse, Spending, today
from facet_dagster.adapters.tape import Tape, TapeMeta
from facet_dagster.adapters.tape_llm import TapeLLM
from facet_dagster.adapters.tape_recorder import TapeRecorder
from facet_dagster.adapters.tape_server import TapeServer, beside
from facet_dagster.adapters.token_counter import TokenizersTokenCounter
from facet_dagster.deployments import load_models
from facet_dagster.domain.evaluation import Endpoint
from facet_dagster.errors import BudgetExceeded, ConfigError
from facet_dagster.instance import instance_environment
from facet_dagster.pipeline.sources import Source
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Harness, Ledger, TokenCounter, VectorStore
from facet_dagster.reports.exports.harbor import Publish
from facet_dagster.reports.exports.images import publishing
from facet_dagster.settings import ROOT, Settings
from facet_dagster.setup.harbor_tool import harbor_command, harbor_why_not
from facet_dagster.stages.collect import Collected, Origin, Unread, collect, collect_folder, collect_tree, folder_state

COLLECTION = "skills"
ROLLOUTS_TAPE = ROOT / "examples" / "tapes" / "rollouts.jsonl"
ROLLOUTS_TEACHER = "openai/tape/demo-*"
FULL_BYTES = 64 * 2**20  # PostgreSQL stops when it cannot make its next log file of 16 MiB
_PURSE = Purse()  # of this process: every Dagster run opens ports of its own


def open_ledger(settings: Settings) -> Ledger:
    """The ledger of this installation, migrated; starts the embedded PostgreSQL when it is down."""
    ledger = PostgresLedger(postgres_url(settings.home, "facet", server=settings.postgres_url))
    ledger.migrate()
    return ledger


def open_copy(settings: Settings) -> LedgerCopy:
    """The ledger's tables as a whole, as they are; starts the embedded PostgreSQL when it is down."""
    return LedgerCopy(postgres_url(settings.home, "facet", server=settings.postgres_url))


def open_store(settings: Settings) -> FsspecArtifactStore:
    return FsspecArtifactStore(str(settings.home / "artifacts"))


@contextmanager
def open_source(settings: Settings, source: Source, unread: Unread) -> Iterator[Iterator[Collected]]:
    """The skills of one source; a repository is fetched for the block. Raises ConfigError, SourceError."""
    if not source.git:
        path = source.folder or source.table
        assert path is not None
        yield collect_folder(path, rule=source.rule, unread=unread) if source.folder else collect(path, unread=unread)
        return
    below = settings.home / "sources"
    sweep(below)  # one ingest reads at a time
    with git_tree(
        source.git[0], source.ref, below=below, megabytes=source.max_megabytes, seconds=source.max_seconds
    ) as tree:
        yield collect_tree(tree, _origin(source), unread=unread)


def look_at(settings: Settings, source: Source) -> str:
    """In which state the source is, without reading it; empty when only reading can tell. Raises as reading would."""
    if source.git:
        below = settings.home / "sources"
        return newest(source.git[0], source.ref, below=below, seconds=source.max_seconds)
    path = source.folder or source.table
    assert path is not None
    if source.folder:
        return folder_state(path.resolve(), now=time.time())
    facts = path.stat() if path.is_file() else None
    return f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}" if facts else ""


def _origin(source: Source) -> Origin:
    parts = urlsplit(source.git[0])
    path = parts.path.strip("/").removesuffix(".git")
    owner, _, name = path.rpartition("/")
    repository = f"{parts.hostname}/{path}" if parts.hostname else f"/{path}"
    return Origin("git", name, owner.rpartition("/")[2], repository, source.below, source.rule)


def open_sandbox(settings: Settings, *, reap: bool = True) -> DockerSandbox:
    """Docker; build and trial slots are shared by all processes of this machine.

    ``reap``: also remove the containers of dead processes, in a thread, at most once a minute on this machine.
    """
    sandbox = DockerSandbox(
        workers=settings.llm_workers,
        build_network=settings.build_network,
        pause_image=settings.base_image,
        build_slots=settings.build_slots,
        trial_slots=settings.trial_slots,
        disk=DiskLimits(settings.disk_watermark, settings.disk_floor, settings.build_cache),
        deployment=settings.deployment,
    )
    if reap:
        reap_on_start(sandbox, default_slots_dir())
    return sandbox


def open_embedder(settings: Settings) -> Embedder:
    """MiniLM; its vectors are kept below the home folder, and none is computed twice."""
    return CachedEmbedder(SentenceTransformersEmbedder(settings.embedder_dtype), settings.home / "embeddings")


@contextmanager
def open_vectors(settings: Settings) -> Iterator[VectorStore]:
    """The Qdrant server's collection, or the embedded shard, locked until the block ends."""
    store: VectorStore
    if settings.qdrant_url:
        store = QdrantClientVectorStore(settings.qdrant_url, COLLECTION)
    else:
        store = QdrantEdgeVectorStore(settings.home / "vectors")
    try:
        yield store
    finally:
        store.close()


def open_llm(settings: Settings, ledger: Ledger, store: ArtifactStore, run_id: str = "") -> LLM:
    """The live models when FACET_MODEL or FACET_MODELS is set, else the tape."""
    if not settings.live:
        lenient = settings.tape_mode == "lenient"
        return TapeLLM(Tape.load(settings.tape), ledger=ledger, store=store, run_id=run_id, lenient=lenient)
    return LitellmLLM(
        load_models(settings, os.environ),  # noqa: TID251 - a composition root
        ledger=ledger,
        store=store,
        run_id=run_id,
        budgets=Budgets(settings.budget_run, settings.budget_day, settings.budget_seed),
        record=settings.record,
        purse=_PURSE,
    )


def used_up(settings: Settings, ledger: Ledger) -> str:
    """Which budget of this process or of the day is used up; empty when none is."""
    try:
        Spending(Budgets(settings.budget_run, settings.budget_day), ledger, _PURSE).check("")
    except BudgetExceeded as error:
        return str(error)
    return ""


def spent() -> float:
    """USD that this process paid for model calls."""
    return _PURSE.spent


@contextmanager
def open_publisher(settings: Settings, where: str, repository: str) -> Iterator[Publish]:
    """What builds and publishes the images of packages: ``oci:FOLDER``, or a repository to push to."""
    sandbox = open_sandbox(settings)
    scheme, _, rest = where.partition(":")
    sink = LayoutPublisher(Path(rest), repository) if scheme == "oci" else RegistryPublisher(where)
    try:
        with publishing(sandbox, sink) as publish:
            yield publish
    finally:
        sink.close()
        sandbox.close()


def open_counter(settings: Settings) -> TokenCounter:
    return TokenizersTokenCounter(settings.tokenizer)


def open_harness(settings: Settings) -> Harness:
    """What makes rollouts."""
    tool = harbor_command(settings.home)
    return HarborHarness(
        tool.argv if tool else None,
        {**os.environ, **tool.env} if tool else {},  # noqa: TID251 - a composition root
        harbor_why_not(settings.home),
        home=settings.home / "jobs",
        api_base=settings.teacher_base,
        key=settings.teacher_key,
        trials=settings.rollout_trials,
    )


def open_evaluator(settings: Settings, endpoint: Endpoint) -> Harness:
    """What tries one endpoint on a benchmark. Raises ConfigError when the variable that holds its key is not set."""
    key = os.environ.get(endpoint.key_env, "") if endpoint.key_env else ""  # noqa: TID251 - a composition root
    if endpoint.key_env and not key:
        raise ConfigError(f"Endpoint {endpoint.name} has its key in {endpoint.key_env}, which is not set")
    # A server of one's own wants some key, and none in particular.
    secret = SecretStr(key or "none") if key or endpoint.api_base else None
    update = {"teacher_base": endpoint.api_base, "teacher_key": secret}
    return open_harness(settings.model_copy(update=update))


def open_tape_server(settings: Settings, path: Path, *, strict: bool, record: bool) -> TapeServer:
    """A tape for other programs; ``record`` asks the default model for what is missing, and makes the file."""
    if not record:
        return TapeServer(Tape.load(path), strict=strict)
    client = LitellmClient(load_models(settings, os.environ).of("default"))  # noqa: TID251 - a composition root
    meta = TapeMeta(model=client.model, how="recorded for another program", made=today(), project=__version__)
    tape = Tape.load(path) if path.exists() else Tape(meta)
    recorder = TapeRecorder(path, meta)
    return TapeServer(tape, strict=strict, recorder=recorder, upstream=lambda m: client.complete(m).raw)


@contextmanager
def recorded_teacher(settings: Settings) -> Iterator[Settings | str]:
    """Settings under which agents replay the recorded rollouts, or why they cannot."""
    if harbor_command(settings.home) is None:
        yield harbor_why_not(settings.home)
        return
    with beside(TapeServer(Tape.load(ROLLOUTS_TAPE), strict=False).app()) as api_base:
        update = {"teacher": ROLLOUTS_TEACHER, "teacher_base": api_base, "teacher_key": SecretStr("tape")}
        yield settings.model_copy(update=update)


def rollout_price(settings: Settings, tokens: tuple[int, int]) -> float | None:
    """USD for one rollout of so many tokens (in, out) by the default model; None when its price is unknown."""
    spec = load_models(settings, os.environ).of("default")  # noqa: TID251 - a composition root
    return LitellmClient(spec).price_of(*tokens)


def describe_models(settings: Settings) -> list[str]:
    """One line for each model of a live run, then warnings. Raises ConfigError."""
    table = load_models(settings, os.environ)  # noqa: TID251 - a composition root
    where = [f"{d.model} {d.api_base}".strip() for spec in table.used() for d in spec.deployments]
    return [*dict.fromkeys(where), *table.warnings()]


def probe_llm(settings: Settings, ledger: Ledger, store: ArtifactStore) -> None:
    """Fail before anything runs: on a missing tape, or by one cheap call on a wrong key, model or endpoint."""
    llm = open_llm(settings, ledger, store)
    if isinstance(llm, LitellmLLM):
        llm.probe()


def describe_tape(settings: Settings) -> str:
    """Which model answered on the tape, how, and when."""
    meta = Tape.load(settings.tape).meta
    return f"{settings.tape.name} (made {meta.made} by {meta.model}: {meta.how})"


def full_disk(settings: Settings) -> str:
    """A sentence when the disk of this installation is full, else nothing: few programs say so when they fail of it."""
    home = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    free = shutil.disk_usage(home).free
    if free >= FULL_BYTES:
        return ""
    return f"The disk that holds {settings.home} is full ({free // 2**20} MiB free): free some space and run again."


def stop_postgres(settings: Settings) -> None:
    """Stop the embedded PostgreSQL; a server named by FACET_POSTGRES_URL is left alone."""
    if not settings.postgres_url:
        stop(settings.home)


def dagster_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """Environment of every Dagster process; writes $FACET_HOME/dagster/dagster.yaml from the template.

    Starts the embedded PostgreSQL when it is down.
    """
    url = postgres_url(settings.home, "dagster", server=settings.postgres_url)
    return instance_environment(settings, url, inherited)
