"""What the platform adds to a batch of rollouts, over bare `harbor run` on the same tasks. Prints one JSON object.

``FACET_HOME=... PYTHONPATH=. python benchmarks/rollouts.py [--tasks 4] [--attempts 2] [--rounds 3]``

The same scripted model on loopback answers Terminus-2 in both. Ours is the stage as a run of Dagster computes it:
packages written, one `harbor run`, every trial read, and in a PostgreSQL ledger as it ends. Bare is the command alone,
with the same options, on packages that lie there already; nobody reads its results. They run in turns, and the order
changes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from facet_dagster.adapters import embedded_postgres
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.harbor_harness import ENVIRONMENT, HarborHarness
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.child import end_orderly
from facet_dagster.domain.evaluation import Endpoint
from facet_dagster.pipeline.evaluation import Evaluation, evaluate
from facet_dagster.settings import load_settings
from facet_dagster.setup.harbor_tool import harbor_command, harbor_why_not
from tests.fixtures.agent_model import AgentModel
from tests.fixtures.benchmark_tasks import RIGHT, write_benchmark

MODEL, TRIALS = "openai/scripted", 2


class Bench:
    """Both ways over one folder of tasks and one model."""

    def __init__(self, folder: Path, api_base: str, attempts: int, url: str) -> None:
        home = load_settings().home
        tool = harbor_command(home)
        if tool is None:
            raise SystemExit(harbor_why_not(home))
        self.env = {**os.environ, **tool.env, "OPENAI_API_KEY": "none"}  # noqa: TID251 - a command
        self.argv, self.folder, self.api_base, self.attempts = tool.argv, folder, api_base, attempts
        self.url, self.number = url, 0

    def ours(self) -> float:
        """Seconds, with an endpoint's name that no result stands under yet."""
        self.number += 1
        mapping = {f"round{self.number}": {"model": MODEL, "api_base": self.api_base}}
        what = Evaluation.model_validate(
            {"benchmark": self.folder / "tasks", "endpoints": mapping, "attempts": self.attempts}
        )

        def harness(endpoint: Endpoint) -> HarborHarness:
            home = self.folder / "jobs"
            return HarborHarness(
                self.argv, self.env, "", home=home, api_base=endpoint.api_base, key=None, trials=TRIALS
            )

        store = FsspecArtifactStore(str(self.folder / "artifacts"))
        began = time.monotonic()
        with closing(PostgresLedger(self.url)) as ledger:
            failed = evaluate(what, harness, ledger=ledger, store=store)
        assert not failed, failed
        return time.monotonic() - began

    def bare(self) -> float:
        """Seconds of the command; its results are looked at after the clock has stopped."""
        jobs, config = self.folder / "bare", self.folder / "job.json"
        agent = {"name": "terminus-2", "model_name": MODEL, "override_timeout_sec": 7200}
        config.write_text(json.dumps({"agents": [agent]}))
        options = ["temperature=1.0", 'trajectory_config={"raw_content": true}', "record_terminal_session=false"]
        options += ['model_info={"max_input_tokens": 32768, "max_output_tokens": 8192}', f"api_base={self.api_base}"]
        argv = [*self.argv, "run", "-p", str(self.folder / "tasks"), "-c", str(config), "-k", str(self.attempts)]
        argv += ["-n", str(TRIALS), "-o", str(jobs), "--job-name", "bare", "-e", ENVIRONMENT, "-q", "-y"]
        argv += [part for option in options for part in ("--ak", option)]
        began = time.monotonic()
        with subprocess.Popen(argv, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as harbor:
            try:
                assert harbor.wait() == 0
            except BaseException:
                harbor.send_signal(signal.SIGINT)  # it removes its containers
                raise
        seconds = time.monotonic() - began
        results = [json.loads(path.read_bytes()) for path in jobs.glob("bare/*/result.json")]
        rewards = [(one["verifier_result"] or {}).get("rewards", {}).get("reward") for one in results]
        assert rewards == [1] * len(rewards), rewards
        shutil.rmtree(jobs)
        return seconds


@contextmanager
def database() -> Iterator[str]:
    """A migrated ledger of its own. The folder is plain: PostgreSQL's user must reach it."""
    with tempfile.TemporaryDirectory(prefix="facet-bench-", ignore_cleanup_errors=True) as folder:
        url = embedded_postgres.postgres_url(Path(folder), "facet")
        try:
            with closing(PostgresLedger(url)) as ledger:
                ledger.migrate()
            yield url
        finally:
            embedded_postgres.stop(Path(folder))


def measure(tasks: int, attempts: int, rounds: int) -> dict[str, Any]:
    marks = [f"task{number}" for number in range(tasks)]
    with (
        tempfile.TemporaryDirectory(prefix="facet-rollouts-") as folder,
        AgentModel(dict.fromkeys(marks, RIGHT)) as model,
        database() as url,
    ):
        write_benchmark(Path(folder) / "tasks", marks)
        bench = Bench(Path(folder), model.api_base, attempts, url)
        bench.bare()  # the layers of the images are built once, before the clock
        pairs = []
        for number in range(rounds):
            first, second = (bench.ours, bench.bare) if number % 2 else (bench.bare, bench.ours)
            one, other = first(), second()
            pairs.append((one, other) if number % 2 else (other, one))
            print(f"round {number + 1}: ours {pairs[-1][0]:.1f} s, bare {pairs[-1][1]:.1f} s", file=sys.stderr)
    ratios = [ours / bare for ours, bare in pairs]
    return {
        "tasks": tasks,
        "attempts": attempts,
        "trials_at_once": TRIALS,
        "seconds": [{"ours": round(ours, 2), "bare": round(bare, 2)} for ours, bare in pairs],
        "ratios": [round(ratio, 4) for ratio in ratios],
        "median_ratio": round(statistics.median(ratios), 4),
        "load": round(os.getloadavg()[1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Overhead of the platform on a batch of rollouts.")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--attempts", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    end_orderly()
    print(json.dumps(measure(options.tasks, options.attempts, options.rounds), indent=1))


if __name__ == "__main__":
    main()
