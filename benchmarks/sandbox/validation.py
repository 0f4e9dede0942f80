"""One prepared task, built and validated in full: by our own code, barely, as the official release does, by Harbor."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.sandbox.bare import Bare, contents, folder, unpacked
from benchmarks.sandbox.calls import counted
from benchmarks.sandbox.official import Official, OfficialCommand
from benchmarks.sandbox.timing import Clock, Contender, interleaved, ratio, told
from facet_dagster import proof
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.archive import pack
from facet_dagster.domain.dockerfile import bare_verifier_dockerfile, environment_executables, environment_files
from facet_dagster.domain.environment import Recipe, SourceFile
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.python_source import nodes
from facet_dagster.domain.task import Task
from facet_dagster.errors import ConfigError
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.package import TaskLimits, build_package, export, verifier_context
from facet_dagster.stages.task.render import remembered, script
from facet_dagster.stages.task.trial import ENV
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example

LOGS = "/logs/verifier"
SECONDS = 60.0
SOLVE = script(example.SOLVE).encode()
DRAFT = example.draft()
# The tests/ folder but for the copies of the initial files, which each validation makes anew.
TESTS = {
    path: data
    for path, data in verifier_context(DRAFT, example.E0_ARCHIVE, example.BASE).files.items()
    if not path.startswith("e0")
}
JUDGE = bare_verifier_dockerfile(example.BASE, ()).encode()
SOLUTION = ("bash", "/solution/solve.sh")
TEST = ("bash", "/tests/test.sh")


def prepared() -> tuple[Recipe, dict[str, bytes]]:
    """The recipe and the build context of the example, with a file that no build has seen."""
    mark = SourceFile(path="notes.txt", content=uuid.uuid4().hex)
    recipe = example.RECIPE.model_copy(update={"files": (*example.RECIPE.files, mark)})
    return recipe, environment_files(recipe, example.MANIFEST, example.BASE)


def ours(sandbox: DockerSandbox, clock: Clock) -> None:
    """The draft is always the same, so what was remembered of its text is forgotten."""
    remembered.cache_clear()
    nodes.cache_clear()
    recipe, files = prepared()
    with clock.phase("build"):
        built = sandbox.build(BuildContext(files, environment_executables(recipe)), subject=DRAFT.seed)
    assert isinstance(built, Built), built
    assert not built.reused
    environment = example.environment(built.image).model_copy(update={"recipe": recipe})
    draft = DRAFT.model_copy(update={"image": built.image})
    try:
        with clock.phase("first_validation"):
            outcome = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=SECONDS)
    finally:
        with clock.phase("remove image"):
            sandbox.remove_image(built.image)
    assert isinstance(outcome.value, Task)
    assert outcome.value.valid, outcome.value.validations


def barely(bare: Bare, clock: Clock) -> None:
    """The same operations by the best sequence known: no limits, no policy, nothing parsed but the initial files.

    The verifier's image is the same for all tasks and is built once; nothing runs where the baseline does nothing.
    """
    judge = bare.once("judge", lambda: bare.build(Clock(), {"Dockerfile": JUDGE})[0])
    with bare.joined():
        work, _ = bare.build(clock, prepared()[1])
        with bare.container(clock, work, ("true",), bare.host({}), user="agent") as ident:
            e0 = bare.get(clock, ident, "/app")
        tests = tests_of(contents(e0))
        assert _judged(bare, clock, judge, e0, tests) == b"0"
        assert _judged(bare, clock, judge, _solved(bare, clock, work), tests) == b"1"
        bare.remove_image(clock, work)


def _solved(bare: Bare, clock: Clock, image: str) -> bytes:
    """What solve.sh leaves below /app."""
    with folder(clock, {"solve.sh": SOLVE}) as path:
        host = bare.host({str(path / "in"): "/solution:ro"})
        with bare.container(clock, image, SOLUTION, host, user="agent", working_dir="/app", environment=ENV) as ident:
            assert bare.execute(clock, ident) == 0
            return bare.get(clock, ident, "/app")


def _judged(bare: Bare, clock: Clock, image: str, app: bytes, tests: Mapping[str, bytes]) -> bytes:
    with folder(clock, tests) as path:
        with clock.phase("files"):
            unpacked(app, path)
        binds = {str(path / "app"): "/app", str(path / "in"): "/tests:ro", str(path / "out"): LOGS}
        bare.run(clock, image, TEST, binds, working_dir="/app")
        return (path / "out" / "reward.txt").read_bytes()


def tests_of(e0: Mapping[str, bytes]) -> dict[str, bytes]:
    """The tests/ folder on the initial files ``e0``."""
    hashes = to_json({path: digest(data) for path, data in e0.items()}).encode()
    return {**TESTS, "e0.json": hashes, **{f"e0/{path}": data for path, data in e0.items()}}


def officially(official: Official, clock: Clock) -> None:
    """Solution and tests of a trial run in one container, in the image that was built for the work."""
    recipe, files = prepared()
    image = official.build(clock, files)
    official.look(clock, image)
    tests = tests_of({file.path: file.content.encode() for file in recipe.files})
    judge = ({f"tests/{path}": data for path, data in tests.items()}, TEST)
    solve = ({"solution/solve.sh": SOLVE}, SOLUTION)
    assert official.trial(clock, image, [solve, judge], LOGS)["reward.txt"] == b"1"
    assert official.trial(clock, image, [judge], LOGS)["reward.txt"] == b"0"
    official.remove_image(clock, image)


def by_harbor(home: Path, clock: Clock) -> None:
    """`harbor run` with the oracle and with the nop agent over the package. Raises ConfigError without Harbor."""
    recipe, files = prepared()
    tool = proof.open_tool(home, os.environ)  # noqa: TID251 - a composition root
    e0 = pack({path: data for path, data in files.items() if path.startswith("app/")}, folders=("app",))
    environment = example.environment().model_copy(update={"recipe": recipe})
    package = build_package(
        DRAFT, environment, example.SCENARIO, example.SKILLS, e0_archive=e0, limits=TaskLimits.of(SECONDS)
    )
    with tempfile.TemporaryDirectory(prefix="facet-bench-") as scratch:
        export(package.tar(), Path(scratch) / "tasks" / DRAFT.seed)
        for agent, reward in (("oracle", 1.0), ("nop", 0.0)):
            with clock.phase(agent):
                found = proof.run_agent(tool, Path(scratch) / "tasks", agent, Path(scratch) / "jobs")
            assert [trial.reward for trial in found.values()] == [reward], found


def measure(sandbox: DockerSandbox, repeat: int, home: Path, harbor_repeat: int) -> dict[str, Any]:
    bare, notes = Bare(example.BASE), []
    command, api = OfficialCommand(bare), Official(bare)
    contenders: dict[str, Contender] = {
        "ours": lambda clock: ours(sandbox, clock),
        "barely": lambda clock: barely(bare, clock),
        "official": lambda clock: officially(command, clock),
        "official_api": lambda clock: officially(api, clock),
        "harbor": lambda clock: by_harbor(home, clock),
    }
    try:
        proof.open_tool(home, {})
    except ConfigError as why:
        notes.append(f"harbor: {why}")
        del contenders["harbor"]
    try:
        with _classic_toolchain(api):
            clocks = interleaved(contenders, repeat, seldom={"harbor": harbor_repeat})
            calls = {name: _calls(contenders[name]) for name in ("ours", "barely")}
        api.litter |= command.litter
        api.tidy()
    finally:
        bare.close()
    return {
        "ours_over_barely": ratio(clocks, "ours", "barely"),
        **{f"{name}_over_ours": ratio(clocks, name, "ours") for name in contenders if name not in ("ours", "barely")},
        "engine_calls": calls,
        "times": told(clocks),
        "notes": notes,
    }


@contextmanager
def _classic_toolchain(official: Official) -> Iterator[None]:
    """The classic builder keeps a layer only while an image needs it: this one keeps the tool chain of all tasks."""
    dockerfile, _, _ = prepared()[1]["Dockerfile"].decode().partition("\nFROM toolchain")
    image = official.build(Clock(), {"Dockerfile": dockerfile.encode() + b"\n"})
    try:
        yield
    finally:
        official.remove_image(Clock(), image)


def _calls(contender: Contender) -> dict[str, dict[str, float]]:
    """How often one validation asks the engine for what, and the ms until the answers."""
    clock = Clock()
    with counted(clock) as counts:
        contender(Clock())
    return {name: {"n": counts[name], "ms": round(clock.phases[name] * 1e3, 1)} for name in sorted(counts)}


def throughput(options: Mapping[str, Any], levels: tuple[int, ...], repeat: int) -> dict[str, Any]:
    """Validations a second, ours, barely and officially, at each number in flight at once."""
    bare, sandbox = Bare(example.BASE), DockerSandbox(**{**options, "workers": max(levels)})
    official = OfficialCommand(bare)
    acts: dict[str, Callable[[], None]] = {
        "ours": lambda: ours(sandbox, Clock()),
        "barely": lambda: barely(bare, Clock()),
        "official": lambda: officially(official, Clock()),
    }
    try:
        with _classic_toolchain(official):
            found = {str(level): _rates(acts, level, repeat) for level in levels}
        official.tidy()
    finally:
        sandbox.close()
        bare.close()
    return found


def _rates(acts: Mapping[str, Callable[[], None]], level: int, repeat: int) -> dict[str, float]:
    for act in acts.values():
        _rate(act, level, level)  # warm: idle containers, connections
    rates: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(repeat):
        for name, act in acts.items():
            rates[name].append(_rate(act, level, max(4, level)))
    middle = {name: median(values) for name, values in rates.items()}
    ratios = {f"ours_over_{name}": middle["ours"] / middle[name] for name in acts if name != "ours"}
    return {name: round(value, 3) for name, value in {**middle, **ratios}.items()}


def _rate(act: Callable[[], None], level: int, count: int) -> float:
    with ThreadPoolExecutor(level) as pool:
        began = time.perf_counter()
        for done in [pool.submit(act) for _ in range(count)]:
            done.result()
        return count / (time.perf_counter() - began)
