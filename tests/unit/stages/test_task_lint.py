from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.domain.outcome import Component
from facet_dagster.domain.task import InstructionReply, Section, VerifierReply
from facet_dagster.stages.task.lint import lint, lint_instruction, lint_solution, lint_verifier
from tests.fixtures import task_example as example


def test_the_example_has_no_problems() -> None:
    assert lint(example.draft(), example.SCENARIO, "RULES.md") == ()


def instruction(**update: Any) -> InstructionReply:
    return example.INSTRUCTION.model_copy(update=update)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (instruction(sections=example.INSTRUCTION.sections[:2]), "Requirement R4 is stated in no section"),
        (
            instruction(sections=[*example.INSTRUCTION.sections, Section(rids=["R9"], text="x")]),
            "names R9, which is no requirement",
        ),
        (instruction(intro="The rows are in /app/data/sales.csv."), "does not mention the rules file /app/RULES.md"),
        (instruction(outputs=["/app/out/totals.json"]), "The scenario's output /app/out/rejects.csv is missing"),
        (instruction(outputs=[*example.INSTRUCTION.outputs, "/etc/x"]), "'/etc/x' is not an absolute path below /app"),
        (
            instruction(outputs=[*example.INSTRUCTION.outputs, "/app/../etc/x"]),
            "'/app/../etc/x' is not an absolute path below /app",
        ),
        (instruction(intro="See /app/RULES.md. The file solve.sh does it."), "speaks of solve.sh or of the tests"),
        (
            instruction(intro="See /app/RULES.md: totals, refused = {name: 0.0 for name in regions}, []"),
            "holds a line of the solution",
        ),
        (instruction(intro="/app/RULES.md " + "word " * 3000), "the limit is 12000"),
    ],
)
def test_instruction_problems(given: InstructionReply, said: str) -> None:
    problems = lint_instruction(given, example.SCENARIO, "RULES.md", example.SOLUTION)
    assert [said in p.text for p in problems] == [True]
    assert problems[0].component is Component.INSTRUCTION


def test_an_output_that_nobody_makes_is_the_instruction_s_fault() -> None:
    given = instruction(outputs=[*example.INSTRUCTION.outputs, "/app/out/notes.html"])
    assert lint_instruction(given, example.SCENARIO, "RULES.md") == ()  # there is no solution yet
    (problem,) = lint_instruction(given, example.SCENARIO, "RULES.md", example.SOLUTION)
    assert (
        problem.text
        == "The instruction's output /app/out/notes.html is none of the scenario, and solve.sh does not make it."
    )
    made = example.solution(f"{example.SOLVE}touch out/notes.html\n")
    assert lint_instruction(given, example.SCENARIO, "RULES.md", made) == ()


@pytest.mark.parametrize(
    "text",
    [
        "See /app/RULES.md. The project's own tests lie in /app/tests and in /app/data/tests.",
        "See /app/RULES.md. The columns are order_id,customer_name,net_amount,gross_amount,currency.",
    ],
)
def test_words_that_work_and_solution_share_are_no_leak(text: str) -> None:
    shared = "# The columns are order_id,customer_name,net_amount,gross_amount,currency.\n"
    shared += "cat <<X\norder_id,customer_name,net_amount,gross_amount,currency\nX\n"
    given = instruction(intro=text)
    assert lint_instruction(given, example.SCENARIO, "RULES.md", example.solution(shared)) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("if true; then echo", "no valid bash"),
        ("curl https://example.org/x", "calls 'curl'"),
        ("true && wget -q x", "calls 'wget'"),
        ("sudo apt-get install jq", "calls 'apt-get'"),
        ("pip install pandas", "calls 'pip'"),
        ("x=$(git clone y)", "calls 'git clone'"),
        ("python3 -c 'pass' <<'PY'\nimport urllib.request\nPY", "imports urllib.request"),
        ("cat /tests/checks.py", "uses /tests"),
        ("cp /solution/solve.sh /app/x", "uses /solution"),
        ("echo 1 > /logs/verifier/reward.txt", "uses /logs/verifier"),
        ("now=$(date +%s)", "is not the same each time"),
        ("python3 -c 'import random; print(random.random())'", "is not the same each time"),
        ("echo $RANDOM", "uses '$RANDOM', so"),
        ('echo "${EPOCHSECONDS}"', "is not the same each time"),
        ("printf 'made on %(%F)T\\n'", "is not the same each time"),
        ("python3 -c 'import os; print(os.urandom(4))'", "uses 'os.urandom('"),
        ("python3 -c 'import uuid; print(uuid.uuid4())'", "uses 'uuid.uuid4('"),
        ("head -c 4 /dev/urandom | od", "uses '/dev/urandom'"),
        ("# " + "x" * 50_000, "the limit is 48000"),
    ],
)
def test_solution_problems(line: str, said: str) -> None:
    problems = lint_solution(example.solution(f"set -e\n{line}\n"))
    assert [said in p.text for p in problems] == [True]
    assert problems[0].component is Component.SOLUTION


@pytest.mark.parametrize(
    "line",
    [
        "# curl is not there, and /tests neither",
        "mkdir -p /app/tests/unit; ls /app/logs",
        "cat > /app/runbook.md <<'EOF'\ncurl http://localhost/health\nEOF",
        "date -d @0 +%F; x=$(date -u -d @0 +%F)",
        "printf '%s (%d)T\\n' x 1; RANDOMISE=1; echo $RANDOMISE",
        "echo 'the pip was in the apple; wgetting'",
    ],
)
def test_harmless_solution_lines_pass(line: str) -> None:
    assert lint_solution(example.solution(f"set -e\n{line}\n")) == ()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("assert (", "is no valid Python"),
        ("pass", "cannot fail"),
        ("assert True", "cannot fail"),
        ('assert (1 == 2, "always true")', "cannot fail"),
        ("assert APP.name == 'x' or True", "cannot fail"),
        ("assert len(str(APP)) >= 0", "cannot fail"),
        ("x = str(APP)\nassert x == x", "cannot fail"),
        ("return\nassert 1 == 2", "cannot fail"),
        ("len(totals.__name__)", "cannot fail"),
        ("def inner():\n    assert 1 == 2\nx = 1", "cannot fail"),
        ("try:\n    assert totals()\nexcept Exception:\n    pass", "catches the failure of its own assert"),
        ("try:\n    assert totals()\nexcept:\n    pass", "catches the failure of its own assert"),
        ("yield 1\nassert totals()", "generator"),
        ("return totals() == 1", "must assert it"),
        ("return not (totals() == 1)", "must assert it"),
        ("if not totals():\n    return False", "must assert it"),
        ("totals() == 1", "must assert it"),
        ("totals() and refused()", "must assert it"),
        ("def check(x):\n    assert x", "a check takes none"),
        ("import subprocess\nassert subprocess", "imports subprocess"),
        ("import socket\nassert socket", "imports socket"),
        ("from urllib.request import urlopen\nassert urlopen", "imports urllib.request"),
        ("import time\nassert time", "imports time"),
        ("import random, json\nassert random", "imports random"),
        ("import uuid\nassert uuid", "imports uuid"),
        ("import os\nassert os.system('true') == 0", "uses os.system"),
        ("from os import system\nassert system('true') == 0", "imports system from os"),
        ("import os as o\nassert o.path", "imports os under another name"),
        ("import os\nassert getattr(os, 'system')", "looks up a name in os"),
        ("from datetime import datetime as D\nassert D.now()", "reads the clock with now()"),
        ("import datetime\nassert datetime.datetime.now()", "reads the clock with now()"),
        ("from datetime import date\nassert date.today()", "reads the clock with today()"),
        ("assert eval('1')", "calls eval()"),
        ("assert __import__('os')", "calls __import__()"),
        ("assert ().__class__", "uses __class__"),
        (f"assert text_of(APP) == '{'ab' * 32}'", "holds a typed hash"),
        ("assert totols()", "uses totols, which is not defined"),
        ('assert (totals() == 1, "always true")', "what it asserts is always true"),
        ("found = totals()\nassert found == found", "what it asserts is always true"),
    ],
)
def test_check_problems(body: str, said: str) -> None:
    problems = lint_verifier(example.with_check(5, body=body), example.SCENARIO, example.INSTRUCTION)
    assert any(said in p.text and p.text.startswith("Check C5") for p in problems)
    assert {p.component for p in problems} == {Component.VERIFIER}


@pytest.mark.parametrize(
    "body",
    [
        "totals()",
        "totals()\nassert True",
        "if totals():\n    pass",
        "raise AssertionError('x')",
        "for x in (1, 2):\n    assert x in totals()",
        "def ours():\n    assert totals() == 1\nours()",
        "def check():\n    assert totals() == 1\n",
        "return totals()",
        "assert totals() or refused()",
        "assert len(totals()) >= 1",
        "from os import path\nassert path.join('a')",
        "from datetime import datetime\nassert datetime.fromisoformat('2024-01-01')",
        "import os\nassert os.path.join('a', 'b')",
        "try:\n    int('x')\nexcept ValueError:\n    return\nraise AssertionError('accepted')",
        "match totals():\n    case {'north': n}:\n        assert n\n    case other:\n        raise ValueError(other)",
        "assert [w for w in totals()] and (lambda q: q)(1)",
        "assert '4bf92f3577b34da6a3ce929d0e0e4736' in totals()",
    ],
)
def test_good_checks_pass(body: str) -> None:
    assert lint_verifier(example.with_check(5, body=body), example.SCENARIO, example.INSTRUCTION) == ()


def test_a_name_that_is_nowhere_is_said_first() -> None:
    """Else a check whose only call is misspelled would be told that it asserts nothing."""
    problems = lint_verifier(example.with_check(5, body='total_was_right("north")'), example.SCENARIO)
    assert [p.rule for p in problems] == ["undefined-name", "cannot-fail"]


def test_an_idle_assert_in_a_helper_is_found() -> None:
    helpers = f'{example.HELPERS}\ndef same(a, b):\n    assert (a == b, "they differ")\n'
    (problem,) = lint_verifier(verifier(helpers=helpers), example.SCENARIO)
    assert problem.text.startswith("A helper cannot fail at ")


def verifier(**update: Any) -> VerifierReply:
    return example.VERIFIER.model_copy(update=update)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (verifier(checks=example.CHECKS[:12]), "Requirement R4 has no check"),
        (verifier(checks=example.CHECKS[2:]), "The verifier has 11 checks; write at least 12"),
        (verifier(checks=[*example.CHECKS, example.CHECKS[0]]), "Check id C1 is used more than once"),
        (example.with_check(3, rid="R9"), "Check C3 tests R9, which is no requirement"),
        (example.with_check(3, depends_on=["C99"]), "Check C3 depends on C99, which does not exist"),
        (example.with_check(1, depends_on=["C3"]), "Checks C1, C3, C4, C5, C6 depend on each other in a circle"),
        (
            verifier(helpers=example.HELPERS + "\ndef y():\n    return z1 + z2\n"),
            "The helpers use z1, z2, which is not",
        ),
        (verifier(helpers="def x(:"), "The helpers are no valid Python"),
        (verifier(helpers=example.HELPERS + "\nimport requests\n"), "The helpers: a function imports requests"),
        (verifier(helpers=example.HELPERS + "\nprint(totals())\n"), "The helpers run code on import"),
        (verifier(helpers=example.HELPERS.replace("totals.json", "t.json")), "No check names the output"),
        (verifier(helpers=example.HELPERS + "#" * 130_000), "the limit is 120000"),
    ],
)
def test_verifier_problems(given: VerifierReply, said: str) -> None:
    texts = [p.text for p in lint_verifier(given, example.SCENARIO, example.INSTRUCTION)]
    assert any(said in text for text in texts), texts


def test_a_helper_that_no_longer_asserts_leaves_checks_that_cannot_fail() -> None:
    weak = example.HELPERS.replace('assert got == want, f"row', 'print(f"row').replace('{got}"', '{got}")')
    texts = [p.text for p in lint_verifier(verifier(helpers=weak), example.SCENARIO)]
    # refused() still reads the file through a helper that asserts, so only a helper without any is noticed.
    assert texts == []
    idle = weak + "\ndef reason_is_right(ident):\n    return ident\n"
    texts = [p.text for p in lint_verifier(verifier(helpers=idle), example.SCENARIO)]
    assert [text.split(":")[0] for text in texts] == [f"Check C{n} cannot fail" for n in (9, 10, 11)]


def test_what_only_the_compiler_sees_is_reported() -> None:
    given = example.with_check(5, body="assert totals()\nnonlocal_name = 1\nglobal nonlocal_name")
    texts = [p.text for p in lint_verifier(given, example.SCENARIO)]
    assert [text.startswith("checks.py does not compile") for text in texts] == [True]
