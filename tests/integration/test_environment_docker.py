"""A recipe with a generator on a real engine: built, captured, repaired, and nothing of the making left behind."""

from __future__ import annotations

import gzip
import io
import tarfile
import uuid
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import docker
import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.dockerfile import environment_files
from facet_dagster.domain.environment import Environment, SourceFile
from facet_dagster.domain.ids import canonical, digest
from facet_dagster.errors import SandboxError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.environment import first_build, realise
from tests.fixtures import task_example as example
from tests.unit.stages.sample_scenario import SEED, scenario

pytestmark = pytest.mark.docker

BASE = "python:3.11-slim-bookworm"
GENERATOR = """\
import gzip, json, os, random, sqlite3

os.makedirs("data", exist_ok=True)
rng = random.Random("data/events.jsonl.gz")
rows = [{"id": f"e-{n}", "cents": rng.randrange(500)} for n in range(200)]
rows.insert(50, {"id": "o-901", "cents": 10000})
text = "".join(json.dumps(row) + "\\n" for row in rows)
with open("data/events.jsonl.gz", "wb") as out:
    out.write(gzip.compress(text.encode(), mtime=0))
with open("data/names.txt", "w", encoding="utf-8", newline="\\n") as out:
    out.write("\\n".join({"ada", "ben", "cleo", "dan", "eve"}) + "\\n")
"""
MANIFEST: dict[str, Any] = {
    "packages": ["bc"],
    "rules_file": "RULES.md",
    "files": [
        {"path": "RULES.md", "purpose": "rules", "how": "literal", "rows": 2},
        {"path": "data/orders.csv", "purpose": "o", "how": "literal", "rows": 2, "encoding": "windows-1252"},
        {"path": "data/events.jsonl.gz", "purpose": "e", "how": "generated", "rows": 201, "encoding": "binary"},
        {"path": "data/names.txt", "purpose": "n", "how": "generated", "rows": 5},
    ],
}
RECIPE: dict[str, Any] = {
    "files": [
        {"path": "RULES.md", "content": "1. Read.\n2. At least 10000.\n"},
        {"path": "data/orders.csv", "content": "id;price\no-902;9 €\no-903;8 €\n"},
        {"path": "bin/check.sh", "content": "#!/bin/sh\n", "executable": True},
    ],
    "generator": GENERATOR,
    "rows": [
        {"id": "D1", "path": "data/events.jsonl.gz", "find": "o-901"},
        {"id": "D2", "path": "data/orders.csv", "find": "o-902"},
        {"id": "D3", "path": "data/orders.csv", "find": "o-903"},
    ],
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


def built(sandbox: DockerSandbox, recipe: dict[str, Any], *repairs: dict[str, Any]) -> tuple[Outcome, Outcome]:
    llm = ScriptedLLM({"manifest": [MANIFEST], "environment": [recipe], "repair_environment": list(repairs)})
    first = first_build(SEED, scenario(), llm=llm, sandbox=sandbox, base_image=BASE, build_seconds=300)
    return first, realise(value(first), scenario(), llm=llm, sandbox=sandbox, repairs=len(repairs), build_seconds=300)


def value(outcome: Outcome) -> Environment:
    assert isinstance(outcome.value, Environment)
    return outcome.value


@pytest.fixture(scope="module")
def environment(sandbox: DockerSandbox) -> Iterator[Environment]:
    outcome = built(sandbox, RECIPE)[1]
    assert outcome.rejection is None, outcome.rejection
    image = value(outcome).image
    assert image
    yield value(outcome)
    sandbox.remove_image(image)


def read(sandbox: DockerSandbox, environment: Environment, path: str) -> Any:
    assert environment.image
    archive = sandbox.read(environment.image, path)
    return unpack(archive) if archive else None


def test_the_captured_state_holds_literal_and_generated_files(environment: Environment) -> None:
    assert environment.e0
    files = {file.path: file for file in environment.e0.files}
    assert files["/app/data/orders.csv"].encoding == "cp1252"
    assert files["/app/data/orders.csv"].inner["header"] == ["id", "price"]
    assert files["/app/data/events.jsonl.gz"].inner["records"] == 201
    assert files["/app/data/events.jsonl.gz"].rows == {"D1": '{"id": "o-901", "cents": 10000}'}
    assert files["/app/bin/check.sh"].mode == "0755"
    assert {file.uid for file in environment.e0.files} == {1000}


def test_tools_are_those_of_the_image(environment: Environment) -> None:
    assert environment.e0
    assert {"bash", "bc", "mawk", "perl", "python3", "sed", "sort"} <= set(environment.e0.tools)
    assert not {"git", "jq", "gawk", "sqlite3"} & set(environment.e0.tools)


def layer_paths(image: str) -> Iterator[str]:
    """Every path of every layer. The engine's history is no evidence: BuildKit mixes up its lines."""
    client = docker.from_env()
    try:
        stream = _Joined(client.images.get(image).save())
        with tarfile.open(fileobj=stream, mode="r|") as saved:
            for entry in saved:
                content = saved.extractfile(entry) if entry.isreg() else None
                if content and (entry.name.endswith("layer.tar") or entry.name.startswith("blobs/")):
                    yield from _inner_paths(content)
    finally:
        client.close()


def _inner_paths(content: IO[bytes]) -> Iterator[str]:
    try:
        with tarfile.open(fileobj=content, mode="r|*") as layer:
            yield from (entry.name for entry in layer)
    except tarfile.ReadError:  # a JSON blob of the OCI layout
        return


class _Joined(io.RawIOBase):
    """Chunks as one stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = chunks, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._left) < size and (chunk := next(self._chunks, b"")):
            self._left += chunk
        taken, self._left = self._left[:size], self._left[size:]
        return taken


def test_the_generator_is_in_no_file_and_no_layer(sandbox: DockerSandbox, environment: Environment) -> None:
    assert environment.image
    paths = set(layer_paths(environment.image))
    assert read(sandbox, environment, "/build") is None
    assert "app/data/names.txt" in paths
    assert "usr/bin/bc" in paths
    assert not [path for path in paths if path.startswith("build") or path.endswith("generate.py")]


def test_layers_hold_no_package_caches(environment: Environment) -> None:
    assert environment.image
    kept = ("var/cache/apt/pkgcache.bin", "var/cache/apt/srcpkgcache.bin")
    assert not set(kept) & set(layer_paths(environment.image))


FIXED = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())


def times(archive: bytes | None) -> dict[str, int]:
    """Of all that is below /app; the folder itself has the time of its image's last layer."""
    return {path: member.mtime for path, member in unpack(archive or b"").items() if path != "app"}


def test_everything_has_the_same_fixed_time(sandbox: DockerSandbox, environment: Environment) -> None:
    assert environment.image
    found = times(sandbox.read(environment.image, "/app"))
    assert {"app/data", "app/data/names.txt", "app/data/orders.csv", "app/bin/check.sh"} <= set(found)
    assert set(found.values()) == {FIXED}


@pytest.mark.parametrize("classic", [False, True], ids=["BuildKit", "classic"])
def test_without_a_generator_the_build_context_gives_the_time(tmp_path: Path, classic: bool) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path, classic_builder=classic)
    recipe = example.RECIPE.model_copy(update={"files": (*example.RECIPE.files, fresh())})
    files = environment_files(recipe, example.MANIFEST, BASE)
    _, _, rest = files["Dockerfile"].decode().partition("STOPSIGNAL SIGKILL\n")  # without the tool chain's packages
    files["Dockerfile"] = f"FROM {BASE} AS toolchain\nRUN useradd agent && mkdir /app\n{rest}".encode()
    try:
        image = sandbox.build(BuildContext(files), subject="times")
        assert isinstance(image, Built)
        found = times(sandbox.read(image.image, "/app"))
        sandbox.remove_image(image.image)
    finally:
        sandbox.close()
    assert {"app/deep", "app/deep/er", "app/deep/er/fresh.txt"} <= set(found)
    assert set(found.values()) == {FIXED}


def fresh() -> SourceFile:
    """In folders of its own, and in no builder's cache."""
    return SourceFile(path="deep/er/fresh.txt", content=uuid.uuid4().hex)


def test_a_second_build_of_the_generator_gives_the_same_bytes(sandbox: DockerSandbox, environment: Environment) -> None:
    again = deepcopy(RECIPE)
    again["generator"] += "# another layer, the same files\n"
    other = value(built(sandbox, again)[1])
    assert other.e0
    assert environment.e0
    assert other.image != environment.image
    assert other.image
    sandbox.remove_image(other.image)
    assert [file.sha256 for file in other.e0.files] == [file.sha256 for file in environment.e0.files]
    assert digest(canonical(other.e0)) == digest(canonical(environment.e0))


def test_generated_archives_can_be_read_back(sandbox: DockerSandbox, environment: Environment) -> None:
    member = next(iter(read(sandbox, environment, "/app/data/events.jsonl.gz").values()))
    assert gzip.decompress(member.data).count(b"\n") == 201


def test_a_generator_that_fails_is_repaired_on_its_traceback(sandbox: DockerSandbox) -> None:
    broken = {**deepcopy(RECIPE), "generator": GENERATOR + "print(rows[5000])\n"}
    edit = {"path": "generator", "find": "print(rows[5000])", "replace": "print(rows[5])"}
    first, outcome = built(sandbox, broken, {"diagnosis": "index", "edits": [edit]})
    assert first.numbers == {"ok": 0.0}
    assert "IndexError" in value(first).attempts[0].log_tail
    assert outcome.rejection is None
    assert outcome.numbers["repairs"] == 1
    image = value(outcome).image
    assert image
    sandbox.remove_image(image)


def test_a_package_that_does_not_exist_is_evidence_not_an_error(sandbox: DockerSandbox) -> None:
    llm = ScriptedLLM({"manifest": [{**MANIFEST, "packages": ["no-such-package-here"]}], "environment": [RECIPE]})
    outcome = first_build(SEED, scenario(), llm=llm, sandbox=sandbox, base_image=BASE, build_seconds=300)
    attempt = value(outcome).attempts[0]
    assert not attempt.ok
    assert "no-such-package-here" in attempt.log_tail


def test_a_generator_that_takes_too_much_memory_is_told_where(sandbox: DockerSandbox) -> None:
    greedy = {**deepcopy(RECIPE), "generator": GENERATOR + "table = bytearray(5 << 30)\n"}
    llm = ScriptedLLM({"manifest": [MANIFEST], "environment": [greedy]})
    outcome = first_build(SEED, scenario(), llm=llm, sandbox=sandbox, base_image=BASE, build_seconds=300)
    attempt = value(outcome).attempts[0]
    assert not attempt.ok
    assert "table = bytearray(5 << 30)" in attempt.log_tail
    assert "MemoryError" in attempt.log_tail


def test_an_archive_that_cannot_be_reached_is_no_fault_of_the_recipe(tmp_path: Path) -> None:
    """Without network apt ends as it does when its mirror is away: it has fetched nothing and knows no package."""
    sandbox = DockerSandbox(slots_dir=tmp_path, build_network="none")
    try:
        with pytest.raises(SandboxError, match="Debian's archive cannot be reached") as caught:
            built(sandbox, {**RECIPE, "files": [*RECIPE["files"], {"path": "mark", "content": uuid.uuid4().hex}]})
    finally:
        sandbox.close()
    assert caught.value.transient
