from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Mapping

import pytest

from facet_dagster.adapters.memory_sandbox import MemorySandbox
from facet_dagster.domain.archive import pack
from facet_dagster.domain.environment import Environment, PlannedFile
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.certificate.leaks import Searched, search
from facet_dagster.stages.task.trial import Left
from tests.fixtures import task_example as example
from tests.fixtures.certificate_bench import OUTPUTS

TOTALS = OUTPUTS["out/totals.json"]
LINES = [f"{n},region {n},{n * 7}.25" for n in range(40)]


def searched(
    hidden: Mapping[str, bytes] | None = None,
    *,
    outputs: Mapping[str, bytes] = OUTPUTS,
    generator: str = "",
    planned: Mapping[str, bytes] | None = None,
) -> Searched:
    """``hidden`` files lie below /app without a plan, ``planned`` ones with; ``outputs`` is what the solution left."""
    planned = planned or {}
    files = {**example.FILES, **planned, **(hidden or {})}
    manifest = example.MANIFEST.model_copy(
        update={
            "files": [
                *example.MANIFEST.files,
                *(PlannedFile(path=path, purpose="p", how="generated", rows=1) for path in planned),
            ]
        }
    )
    recipe = example.RECIPE.model_copy(update={"generator": generator})
    environment: Environment = example.environment().model_copy(update={"manifest": manifest, "recipe": recipe})
    sandbox = MemorySandbox()
    built = sandbox.build(BuildContext({"Dockerfile": f"FROM {example.BASE}\n".encode()}), subject="s")
    assert isinstance(built, Built)
    left = Left(pack({f"app/{path}": data for path, data in {**files, **outputs}.items()}, folders=("app",)))
    e0 = pack({f"app/{path}": data for path, data in files.items()}, folders=("app",))
    final = Final.of(left, [f"/app/{path}" for path in outputs], e0)
    return search(example.draft(), environment, final, built.image, sandbox)


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("last.json", data)
    return buffer.getvalue()


def tarred(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("old/last.json")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (".last.json", TOTALS),
        ("data/old", b'{\n "north": 11.75,\n "south": 4.0,\n "east": 0.0\n}\n'),
        ("data/old.zip", zipped(TOTALS)),
        ("data/old.tgz", tarred(TOTALS)),
        (".git/objects/4b/825dc6", zlib.compress(b"blob 43\0" + TOTALS)),
        (".git/objects/pack/pack-1.pack", b"PACK" + b"\xff" * 40),
        ("notes.sh", example.SOLVE.encode()),
    ],
)
def test_the_answer_in_a_file_that_nobody_planned_is_a_leak(path: str, data: bytes) -> None:
    rejection = searched({path: data}).rejection
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_SOLUTION_LEAKED, Component.ENVIRONMENT)
    assert rejection.evidence["path"] == f"/app/{path}"


def test_a_large_part_of_an_output_is_a_leak_and_a_line_of_it_is_none() -> None:
    outputs = {"out/rows.csv": "\n".join(LINES).encode()}
    large, small = "\n".join(LINES[5:30]).encode(), "\n".join(LINES[5:7]).encode()
    assert searched({"old.csv": large}, outputs=outputs).rejection is not None
    assert searched({"old.csv": small}, outputs=outputs).rejection is None


def test_the_generator_is_searched_as_well() -> None:
    rejection = searched(generator=f"ANSWER = '{TOTALS.decode()}'\n").rejection
    assert rejection is not None
    assert rejection.evidence["path"] == "environment/build/generate.py"


def test_rows_that_a_planned_input_holds_are_no_secret() -> None:
    rows = "\n".join(LINES).encode()
    outputs = {"out/kept.csv": "\n".join(LINES[10:20]).encode(), "out/totals.json": TOTALS}
    found = searched(planned={"data/rows.csv": rows}, outputs=outputs, generator=f"ROWS = '''{rows.decode()}'''\n")
    assert found.rejection is None
    assert found.remarks == ["The output out/kept.csv stands whole in the input data/rows.csv."]


def test_inputs_that_hold_every_output_give_the_answer_away() -> None:
    rejection = searched(planned={"data/a.json": TOTALS}, outputs={"out/totals.json": TOTALS}).rejection
    assert rejection is not None
    assert rejection.evidence["path"] == "/app/data/a.json"


def test_rules_that_hold_every_output_give_the_answer_away() -> None:
    rules = example.RULES.encode() + b"\nExample:\n\n" + TOTALS + b"\n"
    rejection = searched({"RULES.md": rules}, outputs={"out/totals.json": TOTALS}).rejection
    assert rejection is not None
    assert rejection.evidence["path"] == "/app/RULES.md"


def test_rules_that_hold_one_output_of_two_are_remarked() -> None:
    rules = example.RULES.encode() + b"\n".join(line.encode() for line in LINES[:3])
    outputs = {"out/head.csv": "\n".join(LINES[:3]).encode(), "out/totals.json": TOTALS}
    found = searched({"RULES.md": rules}, outputs=outputs)
    assert (found.rejection, found.remarks) == (None, ["The output out/head.csv stands whole in the input RULES.md."])


def test_what_was_edited_in_place_is_like_what_it_was() -> None:
    before, after = "\n".join(LINES).encode(), "\n".join([*LINES[:-1], "39,moved,0"]).encode()
    assert searched(planned={"data/rows.csv": before}, outputs={"data/rows.csv": after}).rejection is None


def test_a_sound_environment_has_no_leak() -> None:
    found = searched()
    assert (found.rejection, found.remarks) == (None, [])
