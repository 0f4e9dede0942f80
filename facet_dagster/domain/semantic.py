"""Semantic mutants: one-place edits of a solution, each of them one wrong reading of one rule. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from facet_dagster.domain.outcome import Component, Value
from facet_dagster.domain.python_source import parse

FEWEST, MOST = 8, 14
PLACE_CHARS = 800
_OPENING = re.compile(r"""<<-?[ \t]*(['"]?)(\w+)\1""")
_PYTHON = re.compile(r"\bpython3?\b")


class SemanticMutant(Value):
    """``discriminator`` is the id of the one that it reads wrongly, or empty for another rule."""

    id: str = Field(description="M1, M2, ...")
    discriminator: str = Field(default="", description="id of the discriminator, D1, D2, ...; empty for another rule")
    rule: str = Field(description="the rule that is read wrongly: its number, and its words that decide")
    wrong_reading: str = Field(description="one sentence: what a careless reader takes the rule to mean")
    find: str = Field(description="text of solve.sh, letter by letter; occurs there exactly once", min_length=1)
    replace: str = Field(description="what stands in its place")
    expect_failed_rids: list[str] = Field(default=[], description="requirements whose checks should refuse the result")


class MutantsReply(Value):
    """Reply of the ``semantic_mutants`` call."""

    mutants: list[SemanticMutant] = Field(description="8 to 14, at least one for every discriminator", min_length=1)


class Usable(Value):
    """A mutant and the whole script that it makes."""

    mutant: SemanticMutant
    script: str


class Refused(Value):
    """A mutant that is not tried, and the sentence that says why."""

    mutant: SemanticMutant
    why: str


class Sorted(Value):
    """The mutants of a solution: those that can be tried, numbered M1, M2, ..., and those that cannot."""

    usable: tuple[Usable, ...] = ()
    refused: tuple[Refused, ...] = ()

    def missing(self, discriminators: Sequence[str]) -> tuple[str, ...]:
        """Discriminators that no usable mutant reads wrongly."""
        return tuple(name for name in discriminators if name not in {one.mutant.discriminator for one in self.usable})

    def enough(self, discriminators: Sequence[str]) -> bool:
        return len(self.usable) >= FEWEST and not self.missing(discriminators)


class Finding(Value):
    """What a probe says against a task. ``probe`` is its id, ``component`` the one that is blamed.

    ``decides`` is false where right work may look the same: a person or a repair may still want to know.
    """

    probe: str
    component: Component
    what: str
    decides: bool = True
    evidence: dict[str, Any] = {}


def sort_out(
    script: str,
    mutants: Sequence[SemanticMutant],
    discriminators: Sequence[str],
    problem: Callable[[str], str],
    before: Sorted | None = None,
) -> Sorted:
    """Apply each mutant to ``script``, after those of ``before``. Above MOST only a new discriminator's is usable.

    ``problem`` gives a sentence for a script that breaks a rule of solutions, and nothing for a good one.
    """
    usable, refused = list(before.usable if before else ()), []
    for mutant in mutants:
        text = script.replace(mutant.find, mutant.replace)
        why = _unusable(script, text, mutant, discriminators) or _superfluous(text, mutant, usable) or problem(text)
        if why:
            refused.append(Refused(mutant=mutant, why=why))
        else:
            numbered = mutant.model_copy(update={"id": f"M{len(usable) + 1}"})
            usable.append(Usable(mutant=numbered, script=text))
    return Sorted(usable=tuple(usable), refused=tuple(refused))


def _unusable(script: str, text: str, mutant: SemanticMutant, discriminators: Sequence[str]) -> str:
    count = script.count(mutant.find)
    if count != 1:
        return f"find occurs {count} times in solve.sh; it must occur exactly once."
    if max(len(mutant.find), len(mutant.replace)) > PLACE_CHARS:
        return f"find or replace is longer than {PLACE_CHARS} characters; change one place."
    if mutant.discriminator and mutant.discriminator not in discriminators:
        return f"There is no discriminator {mutant.discriminator}."
    broken = next((error for error in map(_syntax_error, programs(text)) if error), "")
    if broken and not any(map(_syntax_error, programs(script))):
        return f"The Python program is no longer valid: {broken}"
    if _meaning(script) == _meaning(text):
        return "Only comments or blanks differ; the program does the same as before."
    return ""


def _superfluous(text: str, mutant: SemanticMutant, usable: Sequence[Usable]) -> str:
    twin = next((one.mutant.id for one in usable if _meaning(one.script) == _meaning(text)), "")
    if twin:
        return f"It makes the same program as {twin}."
    new = mutant.discriminator and mutant.discriminator not in {one.mutant.discriminator for one in usable}
    return f"There are {MOST} mutants already." if len(usable) >= MOST and not new else ""


def programs(script: str) -> list[str]:
    """The Python programs that a script holds in here-documents."""
    return _parts(script)[1]


def _parts(script: str) -> tuple[list[str], list[str]]:
    """The script's lines outside of Python programs, and those programs."""
    lines, outer, inner = script.split("\n"), [], []
    closing = {line.lstrip("\t"): number for number, line in enumerate(lines)}  # the last line of each kind
    at = 0
    while at < len(lines):
        line = lines[at]
        outer.append(line)
        at += 1
        opened = _OPENING.search(line) if _PYTHON.search(line.partition("#")[0]) else None
        if opened is None or closing.get(opened[2], -1) < at:
            continue
        end = next(n for n in range(at, len(lines)) if lines[n].lstrip("\t") == opened[2])
        inner.append("".join(f"{text}\n" for text in lines[at:end]))
        at = end
    return outer, inner


def _syntax_error(source: str) -> str:
    try:
        parse(source)
    except SyntaxError as error:
        return f"{error.msg} in its line {error.lineno}"
    except (ValueError, RecursionError, MemoryError) as error:
        return type(error).__name__
    return ""


def _meaning(script: str) -> tuple[str, ...]:
    """The script without what does nothing: comments, blank lines, the layout of its Python."""
    outer, inner = _parts(script)
    lines = (line.strip() for line in outer)
    return (*(line for line in lines if line and not line.startswith("#")), *map(_tree, inner))


def _tree(source: str) -> str:
    return source if _syntax_error(source) else ast.dump(parse(source))
