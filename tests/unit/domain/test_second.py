"""Whose fault a refusal is, as far as rules can tell."""

from __future__ import annotations

import pytest

from facet_dagster.domain.second import other_language, quoted, solvers_fault
from facet_dagster.domain.trial import CheckResult, End, ExecResult

OUTPUTS = ("/app/a", "/app/b")
WELL = ExecResult(end=End.EXITED, exit_code=0, output="", seconds=0)
DEAD = ExecResult(end=End.TIMEOUT, exit_code=137, output="", seconds=9)


def checks(statuses: str) -> list[CheckResult]:
    words = {"p": "pass", "f": "fail", "b": "blocked", "e": "error"}
    return [
        CheckResult.model_validate({"id": f"C{n}", "requirement": "R1", "status": words[s]})
        for n, s in enumerate(statuses, 1)
    ]


@pytest.mark.parametrize(
    ("program", "missing", "statuses", "text", "certain"),
    [
        (DEAD, (), "", "The program failed (timeout, exit code 137).", True),
        (None, (), "", "The program failed (it was not started).", True),
        (WELL, OUTPUTS, "ffff", "None of the outputs exists.", True),
        (WELL, (), "ffepp", "3 of 5 checks do not pass.", False),
        (WELL, ("/app/a",), "fbppppp", "All that does not pass waits for C1.", False),
    ],
)
def test_the_solver_is_at_fault(
    program: ExecResult | None, missing: tuple[str, ...], statuses: str, text: str, *, certain: bool
) -> None:
    assert solvers_fault(program, missing, OUTPUTS, checks(statuses)) == (text, certain)


@pytest.mark.parametrize("statuses", ["fpppp", "ffpppp", "ffbppppp", "eppp"])
def test_single_checks_that_refuse_leave_the_question_open(statuses: str) -> None:
    assert solvers_fault(WELL, (), OUTPUTS, checks(statuses)) is None


@pytest.mark.parametrize(
    ("quote", "there"),
    [
        ("are refused with   the reason", True),
        ('"are refused with the reason"', True),
        ("refused with", False),
        ("", False),
        ("are refused for the reason", False),
    ],
)
def test_a_quote_counts_when_it_is_written(quote: str, *, there: bool) -> None:
    assert quoted(quote, "Nothing.", "Rows are refused\n  with the reason `empty`.") is there


def test_the_other_language() -> None:
    assert other_language("#!/bin/bash\n# no python3\nawk 1 x\n") == "python"
    assert other_language("cd /app\npython3 - <<'PY'\nPY\n") == "shell"
