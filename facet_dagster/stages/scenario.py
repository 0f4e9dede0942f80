"""Stage 2, second half: from a pair of skills to the complete scenario C and its references.

Paper, section 3.2: five modules (analysis, exploration, association, evolution, expansion), five
dimensions, the solution reference, then the instruction reference, and the check that both share their
initial and final states. Modules 1-2 are the call ``analyse``, 3-5 ``reconstruct``, the rest ``references``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.scenario import (
    AnalysisReply,
    ReconstructReply,
    ReferencesReply,
    Requirement,
    Scenario,
    Seed,
)
from facet_dagster.domain.skill import Skill
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM
from facet_dagster.prompts import version

VERSION = f"1-{version('analyse', 'reconstruct', 'references')}"
BODY = 9_000

_PATH = re.compile(r"/app(?:/[\w.@+-]+)+")
_FILE = re.compile(r"/app(?:/[\w.@+-]+)*/[\w@+-][\w.@+-]*\.\w+")
_NUMBER = re.compile(r"\s*(\d+)[.):]")
# Web addresses are data only under names that never resolve; a service of the task answers on the loopback.
_URL = re.compile(
    r"https?://(?!(?:[\w.-]+\.)?(?:example(?:\.(?:com|org|net))?|test|invalid|localhost|127\.0\.0\.1)\b)", re.IGNORECASE
)
# Installing or calling out is a demand; masking API keys in a file is not.
_NETWORK = re.compile(
    r"\b(?:(?:pip|npm|apt|apt-get|brew) install|git clone|npx"
    r"|(?:use|using|run|running|via|call|provide|export|obtain|your)\s+(?:an?\s+|the\s+|your\s+)?"
    r"(?:curl|wget|api[ _-]?keys?))\b",
    re.IGNORECASE,
)

Reply = TypeVar("Reply", bound=BaseModel)


def reconstruct(seed: Seed, first: Skill, second: Skill, *, llm: LLM) -> Outcome:
    """The Scenario of a seed, whose skills are ``first`` (A) and ``second`` (B); parents are both skill ids.

    A misaligned reply is asked for once more with its problems; then the seed is rejected as
    SCENARIO_MISALIGNED. Raises MalformedReply and other LLMErrors of the model.
    """
    variables = {"joint": seed.scenario, "skill_a": _shown(first), "skill_b": _shown(second)}
    analysis = llm.ask("analyse", variables, AnalysisReply, subject=seed.key)
    built, problems = _aligned(llm, "reconstruct", {"analysis": analysis}, ReconstructReply, _state_problems, seed.key)
    if problems:
        return _misaligned("reconstruction", problems)

    def check(references: ReferencesReply) -> list[str]:
        return reference_problems(references, built)

    given = {"analysis": analysis, "reconstruction": built}
    references, problems = _aligned(llm, "references", given, ReferencesReply, check, seed.key)
    if problems:
        return _misaligned("references", problems)
    value = Scenario(seed=seed.key, analysis=analysis, reconstruction=built, references=references)
    return Outcome(
        value=value,
        numbers={
            "requirements": len(references.requirements),
            "rules": len(built.rules),
            "discriminators": len(built.discriminators),
            "outputs": len(references.outputs),
        },
        parents=((first.id, "skill"), (second.id, "skill")),
    )


def _aligned(
    llm: LLM,
    call: str,
    variables: Mapping[str, Any],
    schema: type[Reply],
    check: Callable[[Reply], list[str]],
    subject: str,
) -> tuple[Reply, list[str]]:
    """The first reply without problems of at most two, or the second one with its problems."""
    reply = llm.ask(call, {**variables, "problems": []}, schema, subject=subject)
    problems = check(reply)
    if problems:
        reply = llm.ask(call, {**variables, "problems": problems}, schema, subject=subject, attempt=1)
        problems = check(reply)
    return reply, problems


def _misaligned(part: str, problems: list[str]) -> Outcome:
    return Outcome(rejection=_rejection(part, problems))


def _rejection(part: str, problems: list[str]) -> Rejection:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return reject(Reason.SCENARIO_MISALIGNED, f"The {part} stays misaligned: {problems[0]}{more}", problems=problems)


def _shown(skill: Skill) -> dict[str, str]:
    body = skill.body if len(skill.body) <= BODY else skill.body[:BODY] + "\n[the rest is left out]"
    return {"name": skill.name, "title": skill.title, "description": skill.description[:1_000], "body": body}


def _state_problems(built: ReconstructReply) -> list[str]:
    """What modules 3-5 got wrong, as sentences."""
    found = [f"Discriminator id {ident} occurs more than once." for ident in _twice(d.id for d in built.discriminators)]
    numbers = [int(match[1]) for match in map(_NUMBER.match, built.rules) if match]
    if numbers != list(range(1, len(built.rules) + 1)):
        found.append("The rules must begin with '1. ', '2. ', '3. ' and so on, without gaps.")
    if len(_paths(built.initial_state)) < 3:
        found.append("The initial state must name at least three files below /app, the rules file among them.")
    if not _paths(built.final_state):
        found.append("The final state must name the files below /app that the work creates.")
    return found


def reference_problems(references: ReferencesReply, built: ReconstructReply) -> list[str]:
    """Where the references disagree with each other or with the states of ``built``, as sentences."""
    return [
        *_output_problems(references, built),
        *_requirement_problems(references.requirements),
        *_grounding_problems(references, built),
    ]


def _output_problems(references: ReferencesReply, built: ReconstructReply) -> list[str]:
    found = [f"Output {path} is listed more than once." for path in _twice(references.outputs)]
    for path in dict.fromkeys(references.outputs):
        if not _PATH.fullmatch(path) or ".." in path:
            found.append(f"Output {path!r} must be one absolute file path below /app, without blanks or wildcards.")
            continue
        places = {
            "requirement": [requirement.text for requirement in references.requirements],
            "step of the solution reference": references.solution_reference,
            "line of the final state": built.final_state,
        }
        found += [
            f"Output {path} is named in no {place}."
            for place, texts in places.items()
            if not any(path in text for text in texts)
        ]
    return found


def _requirement_problems(requirements: list[Requirement]) -> list[str]:
    found = []
    ids = [requirement.rid for requirement in requirements]
    if ids != [f"R{n}" for n in range(1, len(ids) + 1)]:
        found.append(f"Requirement ids must be R1, R2, ... without gaps or repeats; they are {', '.join(ids)}.")
    found += [
        f"No requirement comes from skill {ref}; both skills must shape the result."
        for ref in "AB"
        if not any(ref in requirement.skill for requirement in requirements)
    ]
    for requirement in requirements:
        word = _NETWORK.search(requirement.text) or _URL.search(requirement.text)
        if word:
            found.append(f"{requirement.rid} asks for something outside the container ({word[0].strip()}); drop it.")
    return found


def _grounding_problems(references: ReferencesReply, built: ReconstructReply) -> list[str]:
    known = _paths([*built.initial_state, *built.final_state, *references.solution_reference, *references.outputs])
    return [
        f"{requirement.rid} names {path}, which is neither in a state nor in the solution reference nor an output."
        for requirement in references.requirements
        for path in dict.fromkeys(_FILE.findall(requirement.text))
        if path.rstrip(".") not in known
    ]


def _paths(texts: Iterable[str]) -> set[str]:
    return {path.rstrip(".") for text in texts for path in _PATH.findall(text)}


def _twice(values: Iterable[str]) -> list[str]:
    return [value for value, times in Counter(values).items() if times > 1]
