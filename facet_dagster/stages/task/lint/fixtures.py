"""Does the initial state show what the rules distinguish? Six of nine defects that trials did not see lay here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from facet_dagster.domain.dockerfile import codec
from facet_dagster.domain.environment import WORKDIR, E0File, Environment, PlannedFile
from facet_dagster.domain.scenario import Scenario
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import parsed

_LIMIT = re.compile(
    r"\b(at least|at most|up to|(more|less|fewer|later|earlier) than)\s+\d|\b(inclusive|exclusive)(ly)?\b"
    r"|\w\s*[<>]=\s*\w|\w\s+[<>]\s+\d",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^\s*(\d+)")
_NUMBERS = re.compile(r"\d+")
_TORN = re.compile(
    r"\blast line\b[^.;]*\b(torn|without (a |its )?(LF|newline|line end))"
    r"|\bwithout (a |its )?(final|last|trailing) (LF|newline|line end)|\bno (final|trailing) newline",
    re.IGNORECASE,
)


def remarks(environment: Environment, scenario: Scenario) -> Iterator[Problem]:
    """Limits without a discriminator, one stream of chance for several files, claims that a file does not show."""
    yield from _limits(scenario)
    yield from _shared_random(environment)
    files = {file.path: file for file in environment.e0.files} if environment.e0 else {}
    written = {file.path: file.content for file in environment.recipe.files}
    for plan in environment.manifest.files:
        file = files.get(f"{WORKDIR}/{plan.path}")
        if file is not None and file.type == "file":
            yield from _claims(plan, file, written.get(plan.path, file.content))


def _limits(scenario: Scenario) -> Iterator[Problem]:
    """Rules with a limit that no discriminator names."""
    told = {number for d in scenario.reconstruction.discriminators for number in _leading_numbers(d.rule)}
    open_ = [number for number, text in _numbered(scenario) if _LIMIT.search(text) and number not in told]
    for number in open_:
        yield said("boundary-row", f"Rule {number} has a limit, and no discriminator says which row lies on it.")


def _numbered(scenario: Scenario) -> Iterator[tuple[str, str]]:
    for rule in scenario.reconstruction.rules:
        number = _NUMBER.match(rule)
        if number:
            yield number[1], rule


def _leading_numbers(text: str) -> list[str]:
    """Of ``Rules 3 and 8: exactly 10 %``: 3 and 8."""
    return _NUMBERS.findall(text.partition(":")[0])


def _shared_random(environment: Environment) -> Iterator[Problem]:
    planned = [plan.path for plan in environment.manifest.files if plan.how == "generated"]
    tree = parsed(environment.recipe.generator) if len(planned) > 1 else None
    made = [node for node in ast.walk(tree) if _makes_random(node)] if tree else []
    if len(made) == 1 and _is_fixed(made[0]):
        text = f"One Random serves {len(planned)} generated files, so that an edit of one moves the others."
        yield said("shared-random", text)


def _makes_random(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "Random"


def _is_fixed(node: ast.AST) -> bool:
    """Whether the seed is one constant: a computed one, such as the file's name, makes many streams."""
    return isinstance(node, ast.Call) and all(isinstance(argument, ast.Constant) for argument in node.args)


def _claims(plan: PlannedFile, file: E0File, content: str) -> Iterator[Problem]:
    whole = not file.truncated or len(content) > len(file.content)
    if file.encoding == "cp1252" and _is_windows(plan.encoding) and whole and not _differs_from_latin(content):
        text = f"{plan.path} reads the same as ISO-8859-1; add a character of Windows-1252 alone, such as €."
        yield said("encoding-claim", text)
    if _TORN.search(plan.purpose) and file.size and file.final_newline and file.encoding != "binary":
        yield said("encoding-claim", f"{plan.path} is planned with a torn last line and ends with a newline.")


def _is_windows(encoding: str) -> bool:
    try:
        return codec(encoding) == "cp1252"
    except LookupError:
        return False


def _differs_from_latin(text: str) -> bool:
    return any(0x80 <= byte <= 0x9F for byte in text.encode("cp1252", "ignore"))
