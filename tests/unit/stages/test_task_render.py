from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from facet_dagster.domain.task import Check, VerifierReply
from facet_dagster.stages.task.package import SHIPPED
from facet_dagster.stages.task.render import body, checks_module, indented, markdown, script
from tests.fixtures import task_example as example


def a_check(source: str) -> Check:
    return Check(id="C1", rid="R1", title="t", body=source)


@pytest.mark.parametrize(
    "given",
    [
        "x = 1\nassert x == 1",
        "    x = 1\n    assert x == 1",
        "x = 1\n    assert x == 1",
        "\n\n\tx = 1\n\tassert x == 1\n\n",
        "x = 1\r\nassert x == 1\r\n",
    ],
)
def test_bodies_are_straightened_to_column_zero(given: str) -> None:
    assert body(a_check(given)) == "x = 1\nassert x == 1"


def test_a_body_given_as_a_function_is_called() -> None:
    source = body(a_check("def check_it():\n    assert False, 'ran'\n"))
    assert ast.parse(source)
    namespace: dict[str, object] = {}
    with pytest.raises(AssertionError, match="ran"):
        exec(source, namespace)


def test_lines_inside_long_strings_keep_their_columns() -> None:
    source = 'text = """a\nb\n  c"""\nassert text == f"""{1}\nx"""'
    function = f"def f():\n{indented(source)}\n    return text\n"
    namespace: dict[str, object] = {}
    exec(function.replace("assert", "other ="), namespace)
    assert namespace["f"]() == "a\nb\n  c"  # type: ignore[operator]


def test_a_body_that_is_no_python_is_rendered_all_the_same() -> None:
    assert "    assert (" in checks_module(VerifierReply(helpers="", checks=[a_check("assert (")] * 8))


def test_the_example_renders_to_a_module_that_python_loads() -> None:
    source = checks_module(example.VERIFIER)
    compile(source, "checks.py", "exec")
    assert 'APP = Path("/app")' in source
    assert source.count("\ndef check_C") == len(example.CHECKS)
    assert (
        '{"id": "C12", "rid": "R2", "title": "order by id", "invariant": False, "depends_on": ["C2"], '
        '"run": check_C12},' in source
    )


def test_helpers_may_import_from_the_future() -> None:
    verifier = VerifierReply(helpers="from __future__ import annotations\nX = 1", checks=example.CHECKS)
    compile(checks_module(verifier), "checks.py", "exec")


def test_titles_cannot_break_out_of_the_table() -> None:
    verifier = example.with_check(1, title='"}, exit() or {"\n# \\')
    module = ast.parse(checks_module(verifier))
    table = next(n for n in module.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "CHECKS")
    assert isinstance(table.value, ast.List)
    assert len(table.value.elts) == len(example.CHECKS)


def test_checks_read_pristine_files_beside_themselves(tmp_path: Path) -> None:
    (tmp_path / "e0").mkdir()
    (tmp_path / "e0" / "a.txt").write_text("pristine")
    (tmp_path / "e0.json").write_text('{"a.txt": "sha"}')
    one = a_check('assert (E0 / "a.txt").read_text() == "pristine" and E0_SHA == {"a.txt": "sha"}')
    (tmp_path / "checks.py").write_text(checks_module(VerifierReply.model_construct(helpers="", checks=[one])))
    argv = [sys.executable, "-I", str(SHIPPED / "run_checks.py"), str(tmp_path), str(tmp_path / "logs")]
    subprocess.run(argv, check=True, capture_output=True)
    assert (tmp_path / "logs" / "reward.txt").read_text() == "1"


def test_the_instruction_is_title_intro_sections_in_order() -> None:
    assert markdown(example.INSTRUCTION) == (
        "# Regional sales totals\n\n"
        "A shop needs its sales by region. The rows are in `/app/data/sales.csv`; read `/app/RULES.md` first.\n\n"
        "Write `/app/out/totals.json`: an object from region to total, rule 3 applies.\n\n"
        "Write `/app/out/rejects.csv` with the header `id,reason`, by rules 1, 2, 4.\n\n"
        "Leave the files below `/app/data` as they are.\n"
    )


def test_outputs_that_no_section_names_are_listed_at_the_end() -> None:
    text = markdown(example.INSTRUCTION.model_copy(update={"outputs": ["/app/out/totals.json", "/app/x.txt"]}))
    assert text.endswith("\n\nCreate these files:\n\n- `/app/x.txt`\n")


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("#!/bin/sh\nls\n", "#!/bin/sh\nls\n"),
        ("\nls", "#!/bin/bash\nls\n"),
        ("#!/bin/bash\r\nls\r\n", "#!/bin/bash\nls\n"),
    ],
)
def test_scripts_get_a_shebang_and_unix_line_ends(given: str, file: str) -> None:
    assert script(given) == file
