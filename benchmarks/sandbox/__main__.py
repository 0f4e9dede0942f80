"""The sandbox against the floors below it and the ways beside it: prints one JSON object.

``PYTHONPATH=. python -m benchmarks.sandbox [--only round_trip,hardening,validation,throughput,endurance]``

Every figure is a ratio inside one run, of medians of interleaved repetitions, on the local engine:

- round_trip: a fresh container, five small files in, a script, its result out, all limits on; against `runc run`
  with its default specification and with the engine's own, bind mounts with a joined network by bare docker-py, and
  the way of the paper's official release (a container idling on `sleep`, put, exec, get, kill, remove).
- hardening: the round trip with our limits against the same calls with the engine's defaults.
- validation: a task's image built, its initial state read, baseline and oracle trial, all removed; against the same
  engine operations barely, the official release's, and `harbor run` with its oracle and its nop agent.
- throughput: validations a second at 1, 2, 4 and 8 at once, ours, barely and as the official release.
- endurance: many trials; what is left on the engine and in this process.

Use a machine that does nothing else. runc needs root, Harbor `make verify-harbor` in FACET_HOME.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docker import APIClient

from benchmarks.sandbox import endurance, round_trip, validation
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.settings import load_settings
from tests.fixtures.task_example import BASE

PARTS = ("round_trip", "hardening", "validation", "throughput", "endurance")


def machine() -> dict[str, Any]:
    """What the figures were taken on; ``load`` is the load average of the last minute."""
    api = APIClient(version="auto")
    info, version = api.info(), api.version()
    api.close()
    components = {part["Name"]: part["Version"] for part in version.get("Components") or ()}
    return {
        "engine": version["Version"],
        "runc": components.get("runc", ""),
        "storage": [info["Driver"], *(value for name, value in info["DriverStatus"] if name == "Backing Filesystem")],
        "cgroup": f"v{info.get('CgroupVersion', '1')} {info['CgroupDriver']}",
        "kernel": platform.release(),
        "cpus": info["NCPU"],
        "memory_gib": round(info["MemTotal"] / 2**30, 1),
        "image": BASE,
        "load": round(os.getloadavg()[0], 2),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--repeat", type=int, default=15, help="round trips of each way; half as many validations")
    parser.add_argument("--result", choices=("outbox", "collect"), default="outbox", help="how results come back")
    parser.add_argument("--levels", default="1,2,4,8", help="validations at once")
    parser.add_argument("--harbor-repeat", type=int, default=2)
    parser.add_argument("--trials", type=int, default=1000)
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return options


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was made is removed
    result: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="facet-bench-") as slots:
        # Slots of its own: no other process of this machine is waited for.
        common: dict[str, Any] = {"pause_image": BASE, "slots_dir": Path(slots)}
        for name in PARTS:
            if name in options.only.split(","):
                began = time.monotonic()
                try:
                    result[name] = _part(name, options, common)
                except Exception as error:  # noqa: BLE001 - the figures of the other parts are told all the same
                    traceback.print_exc()
                    result[name] = {"error": f"{type(error).__name__}: {error}"[:2000]}
                result[name]["seconds_in_all"] = round(time.monotonic() - began, 1)
                print(f"{name}: {json.dumps(result[name])}", file=sys.stderr)
    print(json.dumps(result, indent=1))
    if any("error" in part for part in result.values()):
        sys.exit(1)


def _part(name: str, options: argparse.Namespace, common: dict[str, Any]) -> dict[str, Any]:
    repeat, way = options.repeat, options.result
    fewer, home = max(3, repeat // 2), load_settings().home
    levels = tuple(int(level) for level in options.levels.split(","))
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "round_trip": lambda: _with(common, lambda box: round_trip.measure(box, BASE, repeat, way)),
        "hardening": lambda: round_trip.hardening(BASE, repeat, way, **common),
        "validation": lambda: _with(common, lambda box: validation.measure(box, fewer, home, options.harbor_repeat)),
        "throughput": lambda: validation.throughput(common, levels, 2),
        "endurance": lambda: endurance.measure(BASE, options.trials, way, **common),
    }
    return parts[name]()


def _with(common: dict[str, Any], act: Callable[[DockerSandbox], dict[str, Any]]) -> dict[str, Any]:
    sandbox = DockerSandbox(**common)
    try:
        return act(sandbox)
    finally:
        sandbox.close()


if __name__ == "__main__":
    main()
