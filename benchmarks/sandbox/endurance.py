"""Many trials by one sandbox: what stays on the engine and in this process."""

from __future__ import annotations

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
from docker import APIClient

from benchmarks.sandbox.round_trip import Ours
from benchmarks.sandbox.timing import Clock
from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox

_WARM = 100
_THREADS = 4


def measure(image: str, trials: int, way: str, **options: Any) -> dict[str, Any]:
    """Counts at the start, after the first 100 trials, at the end, and after the sandbox was closed."""
    sandbox, api = DockerSandbox(**options), APIClient(version="auto")
    warm = min(_WARM, trials // 2)
    seen = {"start": _snapshot(api, sandbox.run_id)}
    one = Ours(sandbox, image, way)
    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda _: one(Clock()), range(warm)))
            seen["warm"] = _snapshot(api, sandbox.run_id)
            list(pool.map(lambda _: one(Clock()), range(trials - warm)))
            seen["end"] = _snapshot(api, sandbox.run_id)
    finally:
        sandbox.close()
    seconds = time.perf_counter() - began
    seen["closed"] = _snapshot(api, sandbox.run_id)
    api.close()
    return {
        "trials": trials,
        "seconds": round(seconds, 1),
        "after_first": warm,
        "rss_end_over_warm": round(seen["end"]["rss_mib"] / seen["warm"]["rss_mib"], 3),
        "counts": seen,
    }


def _snapshot(api: Any, run_id: str) -> dict[str, float]:
    """The engine as a whole (others may use it, too), what carries our label, and this process."""
    gc.collect()
    ours = {"label": f"{RUN}={run_id}"}
    process = psutil.Process(os.getpid())
    return {
        "containers": len(api.containers(all=True)),
        "images": len(api.images(all=True)),
        "volumes": len(api.volumes()["Volumes"] or ()),
        "networks": len(api.networks()),
        "our_containers": len(api.containers(all=True, filters=ours)),
        "our_volumes": len(api.volumes(filters=ours)["Volumes"] or ()),
        "our_networks": len(api.networks(filters=ours)),
        "file_descriptors": process.num_fds(),
        "threads": threading.active_count(),
        "rss_mib": round(process.memory_info().rss / 2**20, 1),
    }
