"""Paths below /app that a text names and the task does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from facet_dagster.domain.environment import WORKDIR, Environment
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.lint.reading import app_paths, is_output
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import checks_module, markdown, parsed, rules_text, script

# Not cut at a blank, a quote or a bracket: what goes on behind <, { or * is a pattern and no path.
_PATH = re.compile(r"(?<![\w.])/app/[\w./+-]*[^\s`'\",;:)\]]*")
_PATTERN = re.compile(r"[<>{}*?$\[\]…]")


def problems(draft: Draft, environment: Environment) -> Iterator[Problem]:
    """Paths of the instruction that nobody has, makes or looks at: a slip, or a demand that nothing tests."""
    if environment.e0 is None:
        return
    written = "\n".join([script(draft.solution.solve_sh), checks_module(draft.verifier), rules_text(environment)])
    names = {_name(path) for path in (*_present(environment), *draft.instruction.outputs)}
    for path in _unknown(draft, environment):
        meant = path.removeprefix(f"{WORKDIR}/") in written or (_name(path) in written and _name(path) not in names)
        if not meant:
            text = (
                f"The instruction names {path}, which is not there, and neither rules, solution nor verifier know it."
            )
            yield said("lost-path", text)


def remarks(draft: Draft, environment: Environment) -> Iterator[Problem]:
    """Both directions of the join between the instruction and what is there or has to be made."""
    for path in _unknown(draft, environment):
        yield said("undeclared-path", f"The instruction names {path}, which is neither in e0 nor an output.")
    stated = f"{markdown(draft.instruction)}\n{rules_text(environment)}"
    module = parsed(checks_module(draft.verifier))
    for path in dict.fromkeys(app_paths(module)) if module else ():
        if not _is_known(path, draft, environment) and _name(path) not in stated:
            yield said("unstated-output", f"The verifier looks at {path}, which instruction and rules do not name.")


def _unknown(draft: Draft, environment: Environment) -> Iterator[str]:
    """Paths below /app in the instruction that are neither in e0 nor outputs. Patterns are no paths."""
    found = (match[0].rstrip(".,") for match in _PATH.finditer(markdown(draft.instruction)))
    for path in dict.fromkeys(found):
        if not _PATTERN.search(path) and not _is_known(path, draft, environment):
            yield path


def _is_known(path: str, draft: Draft, environment: Environment) -> bool:
    plain = path.rstrip("/")
    present = _present(environment)
    return is_output(path, draft.instruction.outputs) or any(p == plain or p.startswith(plain + "/") for p in present)


def _present(environment: Environment) -> list[str]:
    return [file.path for file in environment.e0.files] if environment.e0 else []


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
