"""A night with nothing new, as seconds and as a ratio to the first night.

``python -m benchmarks.night [--skills FOLDER ...] [--tape FILE] [--batch LABEL] [--seeds N] [--replays N]`` runs
`facet night` in a home folder of its own: once over the skills with the tape, then three times with nothing new, and
prints one JSON object. Needs Docker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HANDMADE = ROOT / "tests" / "fixtures" / "handmade"
AGAIN = 3


def night(environment: dict[str, str], batch: str) -> tuple[float, dict[str, Any]]:
    """Wall seconds of the whole command, and its report."""
    began = time.monotonic()
    done = facet(environment, "night", "--batch", batch, "--json")
    return time.monotonic() - began, json.loads(done)


def facet(environment: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "facet_dagster.cli", *words]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.night", description=__doc__)
    parser.add_argument("--skills", type=Path, nargs="+", default=[HANDMADE / "skills", HANDMADE / "repairs"])
    parser.add_argument("--tape", type=Path, default=ROOT / "tests" / "fixtures" / "tapes" / "handmade.jsonl")
    parser.add_argument("--batch", default="e2e", help="as the tape names it")
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--replays", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facet-night-", ignore_cleanup_errors=True) as name:
        print(json.dumps(measure(options, Path(name)), indent=1))


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    sources = folder / "sources.yaml"
    sources.write_text("sources:\n" + "".join(f"  - folder: {path.resolve()}\n" for path in options.skills))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FACET_")}  # noqa: TID251
    environment = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "FACET_HOME": str(folder / "home"),
        "FACET_TAPE": str(options.tape),
        "FACET_SOURCES": str(sources),
        "FACET_NIGHT_SEEDS": str(options.seeds),
        "FACET_NIGHT_REPLAYS": str(options.replays),
        "FACET_CERTIFICATE": "basic",
        "FACET_NEIGHBOURS": "1",
        "FACET_TASK_REPAIRS": "2",
        "FACET_SKILL_SHARE": "1",
        "FACET_SAME_SCENARIO": "1",
    }
    (folder / "home").mkdir()
    try:
        first, made = night(environment, options.batch)
        again = [night(environment, f"nothing-{number}") for number in range(AGAIN)]
    finally:
        facet(environment, "stop")
    assert all(not report["stages"] and not report["release"]["written"] for _, report in again)
    return {
        "skills": made["new_skills"],
        "seeds": made["minted"],
        "released": made["release"]["tasks"],
        "replayed": [len(report["health"]["lines"]) if report["health"] else 0 for _, report in again],
        "first_seconds": round(first, 1),
        "nothing_new_seconds": [round(seconds, 1) for seconds, _ in again],
        "ratio": round(median(seconds for seconds, _ in again) / first, 3),
    }


if __name__ == "__main__":
    main()
