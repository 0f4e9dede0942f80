"""Rewards of an exported task set under `verifiers` (PyPI), a consumer of Harbor tasks for reinforcement learning.

    python3.12 -m venv v && v/bin/pip install "verifiers[harbor]==0.4.0"
    facet export harbor out --images 127.0.0.1:5000/facet
    v/bin/python benchmarks/consumers/verifiers_rewards.py out [TASK ...]

It is loaded by verifiers' own HarborTaskset, worked on in its own Docker runtime and graded by its own HarborEnv in a
second container, from the images that task.toml pins. Two programs take the place of an agent: the reference solution,
which must get 1, and one that does nothing, which must get 0, as under Harbor. No model takes part. Its rules for
networks are switched off, since it builds an image from the internet for them: containers are on Docker's bridge.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

NAME = "facet_export"


def taskset(folder: Path, home: Path, names: list[str]) -> list:
    """The tasks of ``folder``, by way of the cache in which verifiers looks before it downloads a dataset."""
    (home / ".cache" / "harbor").mkdir(parents=True)
    (home / ".cache" / "harbor" / NAME).symlink_to(folder.resolve())
    from verifiers.v1.tasksets.harbor import taskset as harbor

    harbor.CACHE = home / ".cache" / "harbor"
    return list(harbor.HarborTaskset(harbor.HarborConfig(dataset=NAME, tasks=names or None)).load())


async def reward(task, *, solve: bool) -> float:
    """What HarborEnv gives to the work of a program."""
    import verifiers.v1 as vf
    from verifiers.v1.runtimes import provision_runtime
    from verifiers.v1.runtimes.docker import DockerConfig
    from verifiers.v1.tasksets.harbor.env import HarborEnv, HarborEnvConfig
    from verifiers.v1.tasksets.harbor.taskset import HarborTask, verifier_box_data
    from verifiers.v1.utils.compile import resolve_runtime_config

    box = task.data.verifier.model_copy(update={"network_allow": ["*"]})
    task = HarborTask(task.data.model_copy(update={"network_allow": ["*"], "verifier": box}), task.config)
    trace = vf.Trace.model_construct(state=vf.State(), metrics={}, rewards={})  # nobody talked
    async with provision_runtime(resolve_runtime_config(DockerConfig(), task), env={}) as runtime:
        await task.setup(runtime)
        if solve:
            script = (Path(task.data.task_dir) / "solution" / "solve.sh").read_bytes()
            await runtime.write("/tmp/solve.sh", script)
            agent = runtime.with_user(task.data.agent_user)
            done = await agent.run(["bash", "/tmp/solve.sh"], {})
            if done.exit_code:
                raise SystemExit(f"{task.data.name}: the solution ended with {done.exit_code}: {done.stderr[-500:]}")
        await task.finalize(trace, runtime)
    grader = HarborTask(verifier_box_data(task.data), task.config)
    config = resolve_runtime_config(DockerConfig(), grader)
    env = HarborEnv.__new__(HarborEnv)
    env.config = HarborEnvConfig()
    scores, _ = await env.grade(config, grader, trace, scoring_timeout_covers_attempt=True)
    return float(scores["reward"] if isinstance(scores, dict) else scores)


async def main(folder: Path, names: list[str]) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as home:
        for task in taskset(folder, Path(home), names):
            found = {"solution": await reward(task, solve=True), "nothing": await reward(task, solve=False)}
            wrong += found != {"solution": 1.0, "nothing": 0.0}
            print(json.dumps({"task": task.data.name, **found}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:])))
