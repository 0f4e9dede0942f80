"""Variants of a sound task: edits after which it is still sound, and edits that break it. Deterministic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from facet_dagster.domain.environment import Environment, Recipe, SourceFile
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Check, Draft

Edited = tuple[Draft, Environment]


@dataclass(frozen=True)
class Base:
    """A certified task, as the pipeline left it."""

    draft: Draft
    environment: Environment
    scenario: Scenario
    skills: tuple[Skill, ...]


@dataclass(frozen=True)
class Variant:
    """``kind`` names the edit; ``sound`` says whether the task should still be accepted."""

    key: str
    kind: str
    sound: bool
    base: Base
    draft: Draft
    environment: Environment


def distractor(base: Base, number: int) -> Edited:
    """One more initial file that nobody asks for."""
    return base.draft, _with_file(base.environment, SourceFile(path="README.local", content=f"Copy {number}.\n"))


def folder(base: Base, number: int) -> Edited:
    note = SourceFile(path=f"archive/{number}/old.txt", content="superseded\n")
    return base.draft, _with_file(base.environment, note)


def executable(base: Base, number: int) -> Edited:
    """An initial file of another mode."""
    tool = SourceFile(path="hello", content=f"#!/bin/sh\necho {number}\n", executable=True)
    return base.draft, _with_file(base.environment, tool)


def title(base: Base, number: int) -> Edited:
    instruction = base.draft.instruction.model_copy(update={"title": f"Job {number}"})
    return base.draft.model_copy(update={"instruction": instruction}), base.environment


def comment(base: Base, number: int) -> Edited:
    return _after_shebang(base, f"# Variant {number}."), base.environment


def whitespace(base: Base, number: int) -> Edited:
    return _after_shebang(base, "\n" * (number % 7 + 1) + "  :  "), base.environment


def one_more_check(base: Base, number: int) -> Edited:
    verifier = base.draft.verifier
    ident = 1 + max(int(check.id[1:]) for check in verifier.checks)
    check = Check(
        id=f"C{ident}",
        rid=verifier.checks[0].rid,
        title=f"the work directory is there ({number})",
        invariant=True,
        body='assert APP.is_dir(), "the work directory is gone"',
    )
    changed = verifier.model_copy(update={"checks": [*verifier.checks, check]})
    return base.draft.model_copy(update={"verifier": changed}), base.environment


def idle(base: Base, number: int) -> Edited:
    """A solution that does nothing."""
    return _with_script(base.draft, f"#!/bin/bash\n# {number}\nexit 0\n"), base.environment


def early_exit(base: Base, number: int) -> Edited:
    return _after_shebang(base, f"echo {number}; exit 3"), base.environment


def lost_output(base: Base, number: int) -> Edited:
    """The solution removes an output at its end."""
    lost = base.draft.instruction.outputs[0]
    text = f"{base.draft.solution.solve_sh.rstrip()}\nrm -rf '{lost}'  # {number}\n"
    return _with_script(base.draft, text), base.environment


def accepts_everything(base: Base, number: int) -> Edited:
    return _with_bodies(base.draft, f"assert {number} >= 0"), base.environment


def accepts_nothing(base: Base, number: int) -> Edited:
    return _with_bodies(base.draft, f"assert {number} < 0, 'never'"), base.environment


def broken_import(base: Base, number: int) -> Edited:
    """checks.py cannot be imported."""
    verifier = base.draft.verifier
    changed = verifier.model_copy(update={"helpers": f"{verifier.helpers}\nraise RuntimeError({number})\n"})
    return base.draft.model_copy(update={"verifier": changed}), base.environment


Edit = Callable[[Base, int], Edited]
SOUND: Mapping[str, Edit] = {
    edit.__name__: edit for edit in (distractor, title, comment, folder, whitespace, executable, one_more_check)
}
BROKEN: Mapping[str, Edit] = {
    edit.__name__: edit for edit in (idle, accepts_everything, lost_output, accepts_nothing, early_exit, broken_import)
}


def variant(bases: list[Base], number: int, *, sound: bool) -> Variant:
    """The ``number``-th sound or broken variant: each base in turn, and each edit on each base."""
    edits = SOUND if sound else BROKEN
    turn, at = divmod(number, len(bases))
    name = list(edits)[(turn + at) % len(edits)]
    base = bases[at]
    draft, environment = edits[name](base, number)
    key = f"{base.draft.seed}-{'s' if sound else 'b'}{number:03d}"
    return Variant(
        key=key,
        kind=name,
        sound=sound,
        base=base,
        draft=draft.model_copy(update={"seed": key}),
        environment=environment.model_copy(update={"seed": key}),
    )


def _with_file(environment: Environment, file: SourceFile) -> Environment:
    """The environment before its build, with one more file."""
    recipe: Recipe = environment.recipe.model_copy(update={"files": (*environment.recipe.files, file)})
    return environment.model_copy(update={"recipe": recipe, "attempts": ()})


def _with_script(draft: Draft, text: str) -> Draft:
    return draft.model_copy(update={"solution": draft.solution.model_copy(update={"solve_sh": text})})


def _after_shebang(base: Base, line: str) -> Draft:
    first, _, rest = base.draft.solution.solve_sh.lstrip("\n").partition("\n")
    text = f"{first}\n{line}\n{rest}" if first.startswith("#!") else f"{line}\n{first}\n{rest}"
    return _with_script(base.draft, text)


def _with_bodies(draft: Draft, body: str) -> Draft:
    checks = [check.model_copy(update={"body": body, "depends_on": []}) for check in draft.verifier.checks]
    return draft.model_copy(update={"verifier": draft.verifier.model_copy(update={"checks": checks})})
