"""Stage 2 of the baselines: a minimal scenario in one call, without the five modules (paper, Table 10).

It has what later stages cannot do without: states, rules, requirements and outputs. What reconstruction alone gives
(analysis, transitions, discriminators, dimensions, a solution reference) stays empty, and alignment is not checked.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from facet_dagster.domain.outcome import Reason, reject
from facet_dagster.domain.scenario import (
    AnalysisReply,
    BareReconstruction,
    BriefReply,
    Dimensions,
    ReferencesReply,
    Scenario,
    SkillAnalysis,
)
from facet_dagster.domain.seed import Seed
from facet_dagster.domain.skill import Skill
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM
from facet_dagster.prompts import version

VERSION = f"1-{version('brief')}"
BODY = 9_000  # characters of a skill's text, as in the full reconstruction
_PATH = re.compile(r"/app(?:/[\w.@+-]+)+")
_NUMBER = re.compile(r"\s*(\d{1,4})[.):]")


def brief(seed: Seed, first: Skill, second: Skill, *, llm: LLM) -> Outcome:
    """Value Scenario; parents are both skill ids.

    A reply whose ids, numbers or outputs are unusable is asked for once more; then the seed is rejected as
    SCENARIO_MISALIGNED. Raises MalformedReply and other LLMErrors.
    """
    variables = {"joint": seed.scenario, "skill_a": _shown(first), "skill_b": _shown(second)}
    reply = llm.ask("brief", {**variables, "problems": []}, BriefReply, subject=seed.key)
    problems = _problems(reply)
    if problems:
        reply = llm.ask("brief", {**variables, "problems": problems}, BriefReply, subject=seed.key, attempt=1)
        problems = _problems(reply)
    if problems:
        text = f"The brief stays unusable: {problems[0]}"
        return Outcome(rejection=reject(Reason.SCENARIO_MISALIGNED, text, problems=problems))
    return Outcome(
        value=_scenario(seed, first, second, reply),
        numbers={
            "requirements": len(reply.requirements),
            "rules": len(reply.rules),
            "discriminators": 0,
            "outputs": len(reply.outputs),
        },
        parents=((first.id, "skill"), (second.id, "skill")),
    )


def _scenario(seed: Seed, first: Skill, second: Skill, reply: BriefReply) -> Scenario:
    return Scenario(
        seed=seed.key,
        analysis=AnalysisReply(skills=[_bare("A", first), _bare("B", second)], explored=[], chosen=reply.title, why=""),
        reconstruction=BareReconstruction(
            kept=[],
            dropped=[],
            initial_state=reply.initial_state,
            transitions=[],
            final_state=[f"{path} exists" for path in reply.outputs],
            rules=reply.rules,
        ),
        references=ReferencesReply(
            title=reply.title,
            family=reply.family,
            scenario=reply.scenario,
            dimensions=Dimensions(goal="", context="", capability=[], state=[], io_and_tools=[]),
            solution_reference=[],
            instruction_goal=reply.scenario,
            requirements=reply.requirements,
            outputs=reply.outputs,
        ),
    )


def _bare(ref: Literal["A", "B"], skill: Skill) -> SkillAnalysis:
    purpose = skill.description[:1_000]
    return SkillAnalysis(ref=ref, purpose=purpose, operations=[], formats=[], invariants=[], offline_form="")


def _shown(skill: Skill) -> dict[str, Any]:
    body = skill.body if len(skill.body) <= BODY else skill.body[:BODY] + "\n[the rest is left out]"
    return {"name": skill.name, "title": skill.title, "description": skill.description[:1_000], "body": body}


def _problems(reply: BriefReply) -> list[str]:
    """What no later stage could work with, as sentences."""
    found = []
    numbers = [int(match[1]) for match in map(_NUMBER.match, reply.rules) if match]
    if numbers != list(range(1, len(reply.rules) + 1)):
        found.append("The rules must begin with '1. ', '2. ', '3. ' and so on, without gaps.")
    ids = [requirement.rid for requirement in reply.requirements]
    if ids != [f"R{n}" for n in range(1, len(ids) + 1)]:
        found.append(f"Requirement ids must be R1, R2, ... without gaps or repeats; they are {', '.join(ids)}.")
    found += [
        f"Output {path!r} must be one absolute file path below /app, without blanks or wildcards."
        for path in reply.outputs
        if not _PATH.fullmatch(path) or ".." in path
    ]
    return found
