"""Bounded edits of a draft: only the blamed component, never ambiguous, never a weaker verifier.

Every function returns the new value, or one sentence that says why the edit is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from facet_dagster.domain.environment import FileEdit
from facet_dagster.domain.outcome import Component
from facet_dagster.domain.task import (
    Check,
    CollectCommand,
    Draft,
    InstructionReply,
    TaskEdit,
    TaskRepairReply,
    VerifierReply,
)
from facet_dagster.stages.task import syntax

COLLECTED = re.compile(r"/logs/artifacts/[\w.-]+")
SECTION = re.compile(r"section (\d+)")
UNCHANGED = "The edits change nothing."
NO_EDITS = "There are no edits."


def apply_edits(draft: Draft, reply: TaskRepairReply) -> Draft | str:
    """The draft after the reply's edits of instruction, solution or verifier."""
    stray = _stray(reply)
    if stray:
        return stray
    component = Component(reply.component)
    edited: Draft | str
    if component is Component.INSTRUCTION:
        edited = _instruction(draft, reply)
    elif component is Component.SOLUTION:
        edited = _solution(draft, reply)
    else:
        edited = _verifier(draft, reply)
    if isinstance(edited, Draft) and edited == draft:
        return UNCHANGED
    return edited


def file_edits(reply: TaskRepairReply) -> tuple[FileEdit, ...] | str:
    """The reply's edits as edits of the environment's recipe."""
    stray = _stray(reply)
    if stray:
        return stray
    if not reply.edits and not reply.put_services:
        return NO_EDITS
    return tuple(
        FileEdit(path=edit.target.removeprefix("/app/"), find=edit.find, replace=edit.replace) for edit in reply.edits
    )


def changed_targets(reply: TaskRepairReply) -> tuple[str, ...]:
    added = [f"section +{n}" for n in range(1, len(reply.add_sections) + 1)]
    put = [*(c.id for c in reply.put_checks), *(f"service {service.name}" for service in reply.put_services)]
    lists = [
        name
        for name, whole in (("collect", reply.put_collect), ("outputs", reply.outputs), ("steps", reply.steps))
        if whole
    ]
    return tuple(dict.fromkeys([*(e.target for e in reply.edits), *put, *added, *lists]))


def owner(target: str) -> Component:
    """The component to which a target belongs; whatever is not known otherwise is a file of the environment."""
    if target == "instruction" or SECTION.fullmatch(target):
        return Component.INSTRUCTION
    if target == "solve.sh":
        return Component.SOLUTION
    if target == "helpers" or re.fullmatch(r"C\d+", target):
        return Component.VERIFIER
    return Component.ENVIRONMENT


def _stray(reply: TaskRepairReply) -> str:
    component = Component(reply.component)
    for edit in reply.edits:
        if owner(edit.target) is not component:
            return f"The blamed component is {component}, but an edit writes {edit.target!r} ({owner(edit.target)})."
    for name, given, writes in (
        ("put_checks", reply.put_checks, Component.VERIFIER),
        ("put_collect", reply.put_collect, Component.VERIFIER),
        ("put_services", reply.put_services, Component.ENVIRONMENT),
        ("add_sections", reply.add_sections, Component.INSTRUCTION),
        ("outputs", reply.outputs, Component.INSTRUCTION),
        ("steps", reply.steps, Component.SOLUTION),
    ):
        if given and component is not writes:
            return f"The blamed component is {component}, but {name} writes the {writes}."
    return ""


def _replaced(text: str, edits: Sequence[TaskEdit]) -> str:
    """All edits of one target, in order. Raises ValueError with the reason."""
    for edit in edits:
        count = text.count(edit.find) if edit.find else 0
        if count != 1:
            shown = edit.find[:60] or "(empty)"
            raise ValueError(f"In {edit.target}, find {shown!r} occurs {count} times; it must occur exactly once.")
        text = text.replace(edit.find, edit.replace)
    return text


def _of(reply: TaskRepairReply, target: str) -> list[TaskEdit]:
    return [edit for edit in reply.edits if edit.target == target]


def _instruction(draft: Draft, reply: TaskRepairReply) -> Draft | str:
    old = draft.instruction
    known = {"instruction", *(f"section {n}" for n in range(len(old.sections)))}
    unknown = next((edit.target for edit in reply.edits if edit.target not in known), None)
    if unknown is not None:
        return f"The instruction has no {unknown}; its last is section {len(old.sections) - 1}."
    try:
        sections = [
            section.model_copy(update={"text": _replaced(section.text, _of(reply, f"section {n}"))})
            for n, section in enumerate(old.sections)
        ]
        intro = _replaced(old.intro, _of(reply, "instruction"))
    except ValueError as error:
        return str(error)
    sections += reply.add_sections
    outputs = reply.outputs or old.outputs
    return draft.model_copy(
        update={"instruction": InstructionReply(title=old.title, intro=intro, sections=sections, outputs=outputs)}
    )


def _solution(draft: Draft, reply: TaskRepairReply) -> Draft | str:
    try:
        text = _replaced(draft.solution.solve_sh, reply.edits)
    except ValueError as error:
        return str(error)
    update = {"solve_sh": text, "steps": reply.steps or draft.solution.steps}
    return draft.model_copy(update={"solution": draft.solution.model_copy(update=update)})


def _verifier(draft: Draft, reply: TaskRepairReply) -> Draft | str:
    old = draft.verifier
    ids = {check.id for check in old.checks}
    unknown = next((e.target for e in reply.edits if e.target != "helpers" and e.target not in ids), None)
    if unknown is not None:
        return f"The verifier has no check {unknown}; use put_checks to add one."
    put = {check.id: check for check in reply.put_checks}
    try:
        new_helpers = _replaced(old.helpers, _of(reply, "helpers"))
        checks = [put.pop(c.id) if c.id in put else _edited_check(c, _of(reply, c.id)) for c in old.checks]
    except ValueError as error:
        return str(error)
    new = VerifierReply(helpers=new_helpers, checks=[*checks, *put.values()])
    collect = tuple(reply.put_collect) or draft.collect
    weaker = weakening(old, new) or _unseen(draft.collect, collect)
    return weaker or draft.model_copy(update={"verifier": new, "collect": collect})


def _unseen(old: Sequence[CollectCommand], new: Sequence[CollectCommand]) -> str:
    """Why ``new`` collects less than ``old``, as far as the names of files can tell; empty when it does not."""
    before, after = (dict.fromkeys(COLLECTED.findall(" ".join(c.command for c in them))) for them in (old, new))
    lost = [path for path in before if path not in after]
    return f"The collect commands would no longer write {lost[0]}; put_collect gives all of them anew." if lost else ""


def _edited_check(check: Check, edits: Sequence[TaskEdit]) -> Check:
    return check.model_copy(update={"body": _replaced(check.body, edits)}) if edits else check


def weakening(old: VerifierReply, new: VerifierReply) -> str:
    """Why ``new`` asks for less than ``old``; empty when it does not as far as its form can tell."""
    if len(new.checks) < len(old.checks):
        return f"The verifier would fall from {len(old.checks)} to {len(new.checks)} checks."
    lost = sorted({check.rid for check in old.checks} - {check.rid for check in new.checks})
    if lost:
        return f"Requirement {lost[0]} would lose its last check."
    before, after = (_able_to_fail(verifier) for verifier in (old, new))
    idle = [check.id for check in new.checks if check.id in before and check.id not in after]
    if idle:
        return f"Check {idle[0]} could no longer fail."
    fewer = _asserts(old) - _asserts(new)
    if fewer > _asserts(old) // 4:
        return f"The verifier would lose {fewer} of its {_asserts(old)} assertions."
    return ""


def _able_to_fail(verifier: VerifierReply) -> set[str]:
    raisers = syntax.raising_helpers(verifier)
    trees = {check.id: syntax.tree_of(check) for check in verifier.checks}
    return {ident for ident, tree in trees.items() if tree is not None and syntax.can_fail(tree.body, raisers)}


def _asserts(verifier: VerifierReply) -> int:
    return sum(syntax.count_asserts(verifier))
