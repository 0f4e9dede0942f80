"""One factory per port. The web UI shows their configuration; the adapter is made when a run needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import dagster as dg

from facet_dagster import connect
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Harness, Ledger, Sandbox, TokenCounter, VectorStore
from facet_dagster.settings import Settings, load_settings


class LedgerResource(dg.ConfigurableResource[Ledger]):
    """PostgreSQL: a server, or the embedded one."""

    server: str

    def create_resource(self, context: dg.InitResourceContext) -> Ledger:
        return connect.open_ledger(load_settings())


class StoreResource(dg.ConfigurableResource[ArtifactStore]):
    """Content-addressed blobs."""

    folder: str

    def create_resource(self, context: dg.InitResourceContext) -> ArtifactStore:
        return connect.open_store(load_settings())


class SandboxResource(dg.ConfigurableResource[Sandbox]):
    """Docker Engine."""

    base_image: str

    def create_resource(self, context: dg.InitResourceContext) -> Sandbox:
        return connect.open_sandbox(load_settings())


class EmbedderResource(dg.ConfigurableResource[Embedder]):
    """sentence-transformers."""

    dtype: str

    def create_resource(self, context: dg.InitResourceContext) -> Embedder:
        return connect.open_embedder(load_settings())


class VectorStoreResource(dg.ConfigurableResource[VectorStore]):
    """Qdrant: a server, or the embedded shard, which one process at a time may open."""

    server: str

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[VectorStore]:
        with connect.open_vectors(load_settings()) as store:
            yield store


class LLMResource(dg.ConfigurableResource[LLM]):
    """A litellm model, or the tape."""

    model: str
    tape: str

    def create_resource(self, context: dg.InitResourceContext) -> LLM:
        settings = load_settings()
        run_id = context.run.run_id if context.run else ""
        return connect.open_llm(settings, connect.open_ledger(settings), connect.open_store(settings), run_id)


class HarnessResource(dg.ConfigurableResource[Harness]):
    """The Harbor tool, with an agent and a teacher."""

    agent: str
    teacher: str

    def create_resource(self, context: dg.InitResourceContext) -> Harness:
        return connect.open_harness(load_settings())


class TokenCounterResource(dg.ConfigurableResource[TokenCounter]):
    """A tokenizer, or an estimate."""

    tokenizer: str

    def create_resource(self, context: dg.InitResourceContext) -> TokenCounter:
        return connect.open_counter(load_settings())


def _models(settings: Settings) -> str:
    return settings.models.name if settings.models else settings.model or "tape"


def resources(settings: Settings) -> dict[str, object]:
    """The family of resources of this deployment. Nothing is opened here, and no secret is shown."""
    return {
        "settings": settings,
        "ledger": LedgerResource(server="FACET_POSTGRES_URL" if settings.postgres_url else "embedded"),
        "store": StoreResource(folder=str(settings.home / "artifacts")),
        "sandbox": SandboxResource(base_image=settings.base_image),
        "embedder": EmbedderResource(dtype=settings.embedder_dtype),
        "vectors": VectorStoreResource(server=settings.qdrant_url or "embedded"),
        "harness": HarnessResource(agent=settings.agent, teacher=settings.teacher or "none"),
        "evaluators": partial(connect.open_evaluator, settings),
        "tokens": TokenCounterResource(tokenizer=settings.tokenizer.name if settings.tokenizer else "estimate"),
        "llm": LLMResource(model=_models(settings), tape="" if settings.live else settings.tape.name),
    }
