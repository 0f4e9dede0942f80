"""Expected values come from the pristine initial state, and not from files that the work may have changed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from facet_dagster.domain.task import VerifierReply
from facet_dagster.stages.task.lint.reading import app_paths, is_output, library
from facet_dagster.stages.task.lint.rules import Problem, said

_EXPECTATION = re.compile(r"(expect(ed|ation)?|want(ed)?|truth|pristine|should_be)(_|$)")


def problems(verifier: VerifierReply, outputs: Sequence[str]) -> Iterator[Problem]:
    """A helper that is named as an expectation, gives a value, and reads a file of /app that is no output."""
    for name, tree in library(verifier).items():
        if not _EXPECTATION.match(name) or not _gives_a_value(tree):
            continue
        for path in dict.fromkeys(app_paths(tree)):
            if not is_output(path, outputs):
                text = f"The helper {name} takes expected values from {path}, which the work may change; read E0."
                yield said("expectation-from-app", text)


def _gives_a_value(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(tree))
