"""Rollouts by the Harbor tool: one subprocess for a batch, its results read from files by Harbor's own classes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from facet_dagster.adapters.harbor_leftovers import remove_leftovers
from facet_dagster.domain.rollout import RawAttempt, RolloutProtocol
from facet_dagster.errors import ConfigError, SandboxError
from facet_dagster.ports import Order

ENVIRONMENT = "facet_harbor.offline:OfflineDockerEnvironment"
# What the verifier of a package left when it gave no valid reward.
_JUDGE_FAILED = ("RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError", "VerifierTimeoutError")
POLL_SECONDS = 0.5
GRACE_SECONDS = 60.0
CHECKS_CAP = 256 * 1024


class HarborHarness:
    """``Harness`` over ``harbor run``. The model is asked from this machine: containers need no network.

    ``argv`` begins the command, in the environment ``env``; None: there is no Harbor, and ``why_not`` says why.
    ``key`` goes into the environment and into no argument. Jobs lie below ``home``; ``trials`` run at once.
    """

    def __init__(
        self,
        argv: Sequence[str] | None,
        env: Mapping[str, str],
        why_not: str,
        *,
        home: Path,
        api_base: str,
        key: SecretStr | None,
        trials: int,
    ) -> None:
        self._argv, self._env, self._why_not = argv, env, why_not
        self._home, self._trials = home, trials
        self._api_base, self._key = api_base, key
        self._running: set[subprocess.Popen[str]] = set()
        self._guard, self._stopped = threading.Lock(), False

    def run(self, orders: Sequence[Order], protocol: RolloutProtocol, done: Callable[[RawAttempt], None]) -> None:
        if self._argv is None:
            raise ConfigError(f"Rollouts need the Harbor tool. {self._why_not}")
        env = dict(self._env)
        if self._key is not None:
            env["OPENAI_API_KEY"] = self._key.get_secret_value()
        self._home.mkdir(parents=True, exist_ok=True)
        by_count = defaultdict[int, list[Order]](list)
        for order in orders:
            by_count[order.attempts].append(order)
        for count, group in sorted(by_count.items()):
            with tempfile.TemporaryDirectory(prefix="rollouts-", dir=self._home) as scratch:
                self._job(self._argv, env, group, count, protocol, Path(scratch), done)

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            for process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)

    def _job(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        orders: Sequence[Order],
        attempts: int,
        protocol: RolloutProtocol,
        scratch: Path,
        done: Callable[[RawAttempt], None],
    ) -> None:
        for order in orders:
            order.write(scratch / "tasks" / order.key)
        seen, log = set[Path](), scratch / "harbor.log"
        command = [
            str(_python(argv[0])),
            "-m",
            "facet_harbor.run",
            *argv,
            *self._arguments(protocol, attempts, scratch),
        ]
        with log.open("wb") as out, _reader(argv[0], env) as read, self._started(command, env, out) as process:
            while True:
                over = process.poll() is not None
                for folder in _finished(scratch / "jobs", seen):
                    done(_attempt(read(folder)))
                if over:
                    break
                time.sleep(POLL_SECONDS)
        remove_leftovers([folder.name.lower() for folder in seen])
        if self._stopped or len(seen) < attempts * len(orders):
            tail = log.read_text("utf-8", "replace").strip()[-600:]
            raise SandboxError(
                f"Harbor ended after {len(seen)} of {attempts * len(orders)} rollouts: {tail}", transient=True
            )

    def _arguments(self, protocol: RolloutProtocol, attempts: int, scratch: Path) -> list[str]:
        options = [f"temperature={protocol.temperature}"]
        if protocol.agent == "terminus-2":
            # The words as the model wrote them; and no recording, which would need more tools in the image.
            options += ['trajectory_config={"raw_content": true}', "record_terminal_session=false"]
            options += [f"max_turns={protocol.max_turns}"] if protocol.max_turns else []
            options.append(f'model_info={{"max_input_tokens": {protocol.context_tokens}, "max_output_tokens": 8192}}')
        options += [f"api_base={self._api_base}"] if self._api_base else []
        who = self._who(protocol, scratch)
        return [
            *("run", "-p", str(scratch / "tasks"), *who, "-k", str(attempts)),
            *("-n", str(self._trials), "-o", str(scratch / "jobs"), "--job-name", "rollouts", "-e", ENVIRONMENT),
            *("-q", "-y", *(part for option in options for part in ("--ak", option))),
        ]

    @staticmethod
    def _who(protocol: RolloutProtocol, scratch: Path) -> list[str]:
        """Agent and model; no flag of the tool sets the time of an attempt, but its configuration file does."""
        if not protocol.seconds:
            return ["-a", protocol.agent, "-m", protocol.model]
        agent = {"name": protocol.agent, "model_name": protocol.model, "override_timeout_sec": protocol.seconds}
        path = scratch / "job.json"
        path.write_text(json.dumps({"agents": [agent]}), encoding="utf-8")
        return ["-c", str(path)]

    @contextmanager
    def _started(self, command: list[str], env: Mapping[str, str], out: Any) -> Iterator[subprocess.Popen[str]]:
        """The tool in a session of its own, so that Ctrl-C reaches it once, through ``stop``; ended in any case."""
        with self._guard:
            if self._stopped:
                raise SandboxError("Stopping: no rollout begins", transient=True)
            process = subprocess.Popen(
                command, env=dict(env), stdout=out, stderr=out, text=True, start_new_session=True
            )
            self._running.add(process)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(GRACE_SECONDS)
                except subprocess.TimeoutExpired:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            self._running.discard(process)


def _finished(jobs: Path, seen: set[Path]) -> Iterator[Path]:
    """Folders of trials that ended since the last look, each once."""
    for result in sorted(jobs.glob("rollouts/*/result.json")):
        if result.parent not in seen:
            try:
                over = json.loads(result.read_bytes()).get("finished_at")
            except ValueError:  # it is being written
                continue
            if over:
                seen.add(result.parent)
                yield result.parent


@contextmanager
def _reader(harbor: str, env: Mapping[str, str]) -> Iterator[Callable[[Path], dict[str, Any]]]:
    """Harbor's classes in their own environment: a folder in, what they say of it out."""
    process = subprocess.Popen(
        [str(_python(harbor)), "-m", "facet_harbor.trials"],
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def read(folder: Path) -> dict[str, Any]:
        try:
            print(folder, file=process.stdin, flush=True)
            line = process.stdout.readline() if process.stdout else ""
        except OSError as error:
            raise SandboxError(f"Harbor's reader of trials ended: {error}", transient=True) from error
        if not line:
            raise SandboxError("Harbor's reader of trials ended", transient=True)
        told: dict[str, Any] = json.loads(line)
        return told

    try:
        yield read
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
        process.stdout.close()


def _attempt(told: Mapping[str, Any]) -> RawAttempt:
    folder = Path(told["folder"])
    if "unreadable" in told:
        why = str(told["unreadable"])
        return RawAttempt(
            _key(folder, folder.name.rpartition("__")[0]),
            folder.name,
            None,
            None,
            0,
            0,
            None,
            0.0,
            why,
            True,
            False,
            None,
            why,
        )
    kind, path = str(told["error_type"]), str(told["trajectory"])
    reward = told["reward"]
    return RawAttempt(
        key=_key(folder, str(told["task"]).rpartition("/")[2]),
        trial=str(told["trial"]),
        reward=reward,
        checks=_small(folder / "verifier" / "checks.json"),
        prompt_tokens=int(told["prompt_tokens"]),
        completion_tokens=int(told["completion_tokens"]),
        cost=told["cost"],
        seconds=float(told["seconds"]),
        error=str(told["error"]),
        again=reward is None,
        judge_failed=kind in _JUDGE_FAILED,
        trajectory=Path(path).read_bytes() if path else None,
        problem=str(told["problem"]),
    )


def _python(harbor: str) -> Path:
    """Of Harbor's environment."""
    return Path(harbor).with_name("python")


def _key(folder: Path, otherwise: str) -> str:
    """Of the order: the name of the folder that the task was written to, whatever its package calls itself."""
    try:
        path = json.loads((folder / "config.json").read_bytes())["task"]["path"]
    except (OSError, ValueError, KeyError, TypeError):
        return otherwise
    return Path(path).name if isinstance(path, str) else otherwise


def _small(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= CHECKS_CAP else None
    except OSError:
        return None
