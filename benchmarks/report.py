"""The report page over a made-up run: 6,000 certified tasks, 18,000 attempts, 500,000 commands.

``python -m benchmarks.report [--tasks 6000]`` fills a home folder of its own, which is not timed, then runs the real
``facet report`` as a process and prints one JSON object: seconds, processor seconds and peak resident memory of that
process (PostgreSQL's left out), and what the page counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.made_up_attempts import fill_attempts
from benchmarks.made_up_run import ATTEMPTS, SKILLS, TASKS, Filler, fill_seeds, fill_skills
from facet_dagster import connect
from facet_dagster.settings import Settings


def measured(home: Path, folder: Path) -> dict[str, Any]:
    """Seconds and peak resident memory of the real command, as a process of its own."""
    command = [str(Path(sys.executable).with_name("facet")), "report", str(folder), "--json"]
    root = str(Path(__file__).resolve().parents[1])
    inherited = os.environ.items()  # noqa: TID251 - a program of its own
    kept = {name: text for name, text in inherited if not name.startswith("FACET_")}
    environment = {**kept, "FACET_HOME": str(home), "PYTHONPATH": root}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    memory = after.ru_maxrss / 2**20  # KiB on Linux
    return {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "peak_memory_gb": round(memory, 2)}


def counted(folder: Path) -> dict[str, str]:
    """What the page says of the whole, so that nobody measures an empty one."""
    told = {one["id"]: one for one in json.loads((folder / "report.json").read_text())}
    lines = {row[0]: row[2] for one in told["commands"]["tables"] for row in one["rows"] if len(row) == 4}
    attempts = {row[0]: row[1] for row in told["rollouts"]["tables"][0]["rows"]}
    return {"attempts": attempts["Attempts"], "commands": lines["Commands"], "trajectories": lines["Trajectories"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--skills", type=int, default=SKILLS)
    parser.add_argument("--keep", type=Path, help="write the page to this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facet-report-", ignore_cleanup_errors=True) as name:
        home = Path(name) / "home"
        settings = Settings(home=home, teacher="openai/synthetic", attempts=ATTEMPTS)
        try:
            filler = Filler(settings, connect.open_ledger(settings), options.tasks, options.skills)
            began = time.monotonic()
            keys, memo = fill_seeds(filler, fill_skills(filler))
            fill_attempts(filler, keys, memo, connect.open_counter(settings).name)
            filled = round(time.monotonic() - began, 1)
            folder = options.keep or Path(name) / "page"
            found = measured(home, folder)
            size = (folder / "report.html").stat().st_size
            print(json.dumps({**found, **counted(folder), "page_mb": round(size / 1e6, 2), "filling_seconds": filled}))
        finally:
            connect.stop_postgres(settings)


if __name__ == "__main__":
    main()
