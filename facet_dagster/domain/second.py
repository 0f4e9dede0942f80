"""Second solutions: whose fault it is when the verifier refuses one, as far as rules can tell. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.trial import CheckResult, ExecResult

QUOTE_WORDS = 3
_PYTHON = re.compile(r"^[^#\n]*\bpython3?\b", re.MULTILINE)


class SecondReply(Value):
    """Reply of the ``second_solution`` call."""

    language: Literal["shell", "python"] = Field(
        description="shell: bash with awk, sed, sort, join and what else the initial state lists; python: python3"
    )
    style: str = Field(description="one sentence: the way of working that you chose")
    solve_sh: str = Field(description="complete bash script, runs as user 'agent' with working directory /app")


class TriageReply(Value):
    """Reply of the ``triage_refusal`` call."""

    fault: Literal["solver", "verifier", "instruction"]
    quote: str = Field(
        description="the one sentence of the instruction or the rules file, letter by letter, that demands what the "
        "refusing checks expect; empty if there is none"
    )
    why: str = Field(
        description="at most three sentences: the row or value in question, and what each side makes of it"
    )


class Fault(NamedTuple):
    """Why a refusal is the solver's own fault. ``certain``: no verifier could have accepted what it left."""

    text: str
    certain: bool


def other_language(solve_sh: str) -> Literal["shell", "python"]:
    """The language for a second solution: not the one in which the first does its work."""
    return "shell" if _PYTHON.search(solve_sh) else "python"


def solvers_fault(
    program: ExecResult | None, missing: Sequence[str], outputs: Sequence[str], checks: Sequence[CheckResult]
) -> Fault | None:
    """``missing`` are those of the ``outputs`` that do not exist. None when a few single checks refuse the work."""
    if program is None or not program.ok:
        how = f"{program.end}, exit code {program.exit_code}" if program else "it was not started"
        return Fault(f"The program failed ({how}).", certain=True)
    if outputs and len(missing) == len(outputs):
        return Fault("None of the outputs exists.", certain=True)
    failed = [check for check in checks if check.status != "pass"]
    roots = [check for check in failed if check.status != "blocked"]
    if 2 * len(failed) > len(checks):
        return Fault(f"{len(failed)} of {len(checks)} checks do not pass.", certain=False)
    if len(roots) == 1 and len(failed) > 1:
        return Fault(f"All that does not pass waits for {roots[0].id}.", certain=False)
    return None


def quoted(quote: str, *texts: str) -> bool:
    """Whether ``quote``, of three words at least, stands in one of the texts; blanks do not count."""
    wanted = " ".join(quote.strip().strip("\"'“”`").split())
    return len(wanted.split()) >= QUOTE_WORDS and any(wanted in " ".join(text.split()) for text in texts)
