"""One factory per port. The web UI shows their configuration; the adapter is made when a run needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from facet_dagster import connect
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Harness, Ledger, Sandbox, TokenCounter, VectorStore
from facet_dagster.settings import Settings, load_settings


def _shown(what: str, setting: str) -> Any:
    """A field that the Launchpad shows: a run takes its ports from the environment alone."""
    return Field(default="", description=f"For information: {what}. {setting} in the environment sets it.")


class LedgerResource(dg.ConfigurableResource[Ledger]):
    """PostgreSQL: a server, or the embedded one."""

    server: str = _shown("where the ledger is", "FACET_POSTGRES_URL")

    def create_resource(self, context: dg.InitResourceContext) -> Ledger:
        return connect.open_ledger(load_settings())


class StoreResource(dg.ConfigurableResource[ArtifactStore]):
    """Content-addressed blobs."""

    folder: str = _shown("where artifacts lie", "FACET_HOME")

    def create_resource(self, context: dg.InitResourceContext) -> ArtifactStore:
        return connect.open_store(load_settings())


class SandboxResource(dg.ConfigurableResource[Sandbox]):
    """Docker Engine."""

    base_image: str = _shown("what environments are built on", "FACET_BASE_IMAGE")

    def create_resource(self, context: dg.InitResourceContext) -> Sandbox:
        return connect.open_sandbox(load_settings())


class EmbedderResource(dg.ConfigurableResource[Embedder]):
    """sentence-transformers."""

    dtype: str = _shown("number format of the embedder", "FACET_EMBEDDER_DTYPE")

    def create_resource(self, context: dg.InitResourceContext) -> Embedder:
        return connect.open_embedder(load_settings())


class VectorStoreResource(dg.ConfigurableResource[VectorStore]):
    """Qdrant: a server, or the embedded shard, which one process at a time may open."""

    server: str = _shown("where vectors lie", "FACET_QDRANT_URL")

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[VectorStore]:
        with connect.open_vectors(load_settings()) as store:
            yield store


class LLMResource(dg.ConfigurableResource[LLM]):
    """A litellm model, or the tape."""

    model: str = _shown("what answers model calls", "FACET_MODEL or FACET_MODELS")
    tape: str = _shown("which recording is replayed, where no model is set", "FACET_TAPE")

    def create_resource(self, context: dg.InitResourceContext) -> LLM:
        settings = load_settings()
        run_id = context.run.run_id if context.run else ""
        return connect.open_llm(settings, connect.open_ledger(settings), connect.open_store(settings), run_id)


class HarnessResource(dg.ConfigurableResource[Harness]):
    """The Harbor tool, with an agent and a teacher."""

    agent: str = _shown("who tries tasks", "FACET_AGENT")
    teacher: str = _shown("the model of that agent", "FACET_TEACHER")

    def create_resource(self, context: dg.InitResourceContext) -> Harness:
        return connect.open_harness(load_settings())


class TokenCounterResource(dg.ConfigurableResource[TokenCounter]):
    """A tokenizer, or an estimate."""

    tokenizer: str = _shown("by what tokens are counted", "FACET_TOKENIZER")

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
