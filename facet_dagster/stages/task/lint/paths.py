"""Paths below /app that a text names and the task does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.lint.reading import app_paths, is_output
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import checks_module, markdown, parsed, rules_text

# Not cut at a blank, a quote or a bracket: what goes on behind <, { or * is a pattern and no path.
_PATH = re.compile(r"(?<![\w.])/app/[\w./+-]*[^\s`'\",;:)\]]*")
_PATTERN = re.compile(r"[<>{}*?$\[\]…]")


def remarks(draft: Draft, environment: Environment) -> Iterator[Problem]:
    """Both directions of the join between the instruction and what is there or has to be made."""
    present = [file.path for file in environment.e0.files] if environment.e0 else []
    outputs = draft.instruction.outputs

    def is_known(path: str) -> bool:
        plain = path.rstrip("/")
        return is_output(path, outputs) or any(p == plain or p.startswith(plain + "/") for p in present)

    text = markdown(draft.instruction)
    for path in dict.fromkeys(match[0].rstrip(".,") for match in _PATH.finditer(text)):
        if not _PATTERN.search(path) and not is_known(path):
            yield said("undeclared-path", f"The instruction names {path}, which is neither in e0 nor an output.")
    stated = f"{text}\n{rules_text(environment)}"
    module = parsed(checks_module(draft.verifier))
    for path in dict.fromkeys(app_paths(module)) if module else ():
        if not is_known(path) and path.rstrip("/").rpartition("/")[2] not in stated:
            yield said("unstated-output", f"The verifier looks at {path}, which instruction and rules do not name.")
