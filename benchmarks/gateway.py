"""The model gateway against litellm alone, before a scripted OpenAI-compatible server: prints one JSON object.

``PYTHONPATH=. python benchmarks/gateway.py [--calls 2000] [--latency 1.0] [--concurrency 64] [--memory-calls 50000]``

Measured in one run, alternating: the same calls through bare ``litellm.acompletion`` (ratio to the ideal,
calls x latency / concurrency) and through ``LitellmLLM.ask`` with its ledger in PostgreSQL (ratio to bare). Then
a cache hit against a bare call to a server without latency, and the memory of this process over many calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel

from facet_dagster.adapters import embedded_postgres
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.litellm_llm import LitellmLLM
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.deployments import Deployment, ModelSpec, ModelTable, Price

PROMPT = "You count.\n\n=== user ===\nCount to {{ number }}. {{ text }}\n"
TEXT = "The quick brown fox jumps over the lazy dog. " * 60  # about 2,700 characters, as a small prompt has
REPLY = {"count": 1, "words": "one " * 200}


class Counted(BaseModel):
    count: int
    words: str


def serve(port: int, latency: float) -> None:
    """The scripted server, in a process of its own."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    message = {"role": "assistant", "content": json.dumps(REPLY)}
    usage = {"prompt_tokens": 700, "completion_tokens": 210, "total_tokens": 910}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = json.dumps(
        {"id": "b", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    ).encode()

    async def complete(request: Any) -> Response:
        await request.body()
        await asyncio.sleep(latency)
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error")


@contextmanager
def server(latency: float) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(port, latency), daemon=True)
    process.start()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/v1"
    process.kill()
    process.join()


def bare(base: str, calls: int, concurrency: int) -> float:
    """Seconds of ``calls`` times litellm.acompletion."""
    import litellm

    async def everything() -> float:
        gate = asyncio.Semaphore(concurrency)

        async def one(number: int) -> None:
            async with gate:
                messages = [{"role": "user", "content": f"Count to {number}. {TEXT}"}]
                await litellm.acompletion(
                    model="openai/m", messages=messages, api_base=base, api_key="none", num_retries=0
                )

        began = time.monotonic()
        await asyncio.gather(*(one(number) for number in range(calls)))
        return time.monotonic() - began

    return asyncio.run(everything())


class Ours:
    """The gateway with a real ledger, in a folder of its own."""

    def __init__(self, home: Path, base: str) -> None:
        (home / "prompts").mkdir(exist_ok=True)
        (home / "prompts" / "count.md").write_text(PROMPT)
        self.ledger = PostgresLedger(embedded_postgres.postgres_url(home, "facet"))
        self.ledger.migrate()
        deployment = Deployment(model="openai/m", api_base=base)
        spec = ModelSpec(name="default", deployments=(deployment,), price=Price(input=1, output=1))
        table = ModelTable.model_construct(models={"default": spec}, calls={"default": "default"})
        store = FsspecArtifactStore(str(home / "artifacts"))
        self.llm = LitellmLLM(table, ledger=self.ledger, store=store, prompts=home / "prompts")

    def ask(self, number: int, attempt: int = 0) -> None:
        variables = {"number": number, "text": TEXT}
        self.llm.ask("count", variables, Counted, subject=f"s{number % 97}", attempt=attempt)

    def run(self, numbers: range, concurrency: int, attempt: int = 0) -> float:
        """Seconds."""
        began = time.monotonic()
        with ThreadPoolExecutor(concurrency) as pool:
            for done in pool.map(lambda number: self.ask(number, attempt), numbers):
                assert done is None
        return time.monotonic() - began


def throughput(home: Path, calls: int, latency: float, concurrency: int) -> dict[str, Any]:
    with server(latency) as base:
        ours = Ours(home, base)
        ours.run(range(-concurrency, 0), concurrency)  # warm: imports, connections
        bare(base, concurrency, concurrency)
        bares, others = [], []
        for turn in range(2):
            bares.append(bare(base, calls, concurrency))
            others.append(ours.run(range(calls), concurrency, attempt=turn))
    ideal = calls * latency / concurrency
    return {
        "calls": calls,
        "latency_s": latency,
        "concurrency": concurrency,
        "ideal_s": ideal,
        "bare_s": [round(s, 2) for s in bares],
        "ours_s": [round(s, 2) for s in others],
        "bare_over_ideal": round(min(bares) / ideal, 3),
        "ours_over_ideal": round(min(others) / ideal, 3),
        "ours_over_bare": round(min(others) / min(bares), 3),
    }


def hits(home: Path, calls: int) -> dict[str, Any]:
    with server(0.0) as base:
        ours = Ours(home, base)
        bare(base, 20, 1)
        ours.run(range(10**6, 10**6 + calls), 1)
        one_bare = bare(base, calls, 1) / calls
        one_hit = statistics.median(_timed(lambda n=n: ours.ask(10**6 + n)) for n in range(calls))
    return {
        "bare_call_ms": round(one_bare * 1e3, 3),
        "hit_ms": round(one_hit * 1e3, 3),
        "hit_over_bare": round(one_hit / one_bare, 4),
        "counters": ours.llm.counters(),
    }


def _timed(act: Any) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def memory(home: Path, calls: int, concurrency: int) -> dict[str, Any]:
    """Resident memory in MiB after each tenth of the calls; one in ten is paid, the others are hits."""
    process, sizes = psutil.Process(os.getpid()), []
    with server(0.0) as base:
        ours = Ours(home, base)
        paid = max(1, calls // 10)
        for tenth in range(10):
            span = range(2 * 10**6 + tenth * paid // 10, 2 * 10**6 + (tenth + 1) * paid // 10)
            for _ in range(10):
                ours.run(span, concurrency)
            sizes.append(round(process.memory_info().rss / 2**20, 1))
    return {"calls": calls, "rss_mib": sizes, "last_over_second": round(sizes[-1] / sizes[1], 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--memory-calls", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facet-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        result = {"throughput": throughput(home, options.calls, options.latency, options.concurrency)}
        result["cache"] = hits(home, 200)
        if options.memory_calls:
            result["memory"] = memory(home, options.memory_calls, 8)
        embedded_postgres.stop(home)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
