"""What a program can find wrong with the replies of scenario reconstruction, as sentences that a model can act on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from facet_dagster.domain.scenario import AlignmentReply, AnalysisReply, ReconstructReply, ReferencesReply, Requirement

_PATH = re.compile(r"/app(?:/[\w.@+-]+)+")
_FILE = re.compile(r"/app(?:/[\w.@+-]+)*/[\w@+-][\w.@+-]*\.\w+")
_NUMBER = re.compile(r"\s*(\d{1,4})[.):]")
# Web addresses are data only under names that never resolve; a service of the task answers on the loopback.
_URL = re.compile(
    r"https?://(?=\w)(?!(?:[\w.-]+\.)?(?:example(?:\.(?:com|org|net))?|test|invalid|localhost|127\.0\.0\.1)\b)",
    re.IGNORECASE,
)
# Installing or calling out is a demand; masking API keys in a file is not.
_NETWORK = re.compile(
    r"\b(?:(?:pip|npm|apt|apt-get|brew) install|git clone|npx"
    r"|(?:use|using|run|running|via|call|provide|export|obtain|your)\s+(?:an?\s+|the\s+|your\s+)?"
    r"(?:curl|wget|api[ _-]?keys?))\b",
    re.IGNORECASE,
)


def state_problems(built: ReconstructReply) -> list[str]:
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


def alignment_problems(references: ReferencesReply, alignment: AlignmentReply) -> list[str]:
    """What an alignment found wrong with the references that added sentences cannot mend."""
    found = [f"The two references differ: {text}" for text in alignment.differences]
    if not found and not (alignment.initial_same and alignment.final_same):
        which = "initial" if not alignment.initial_same else "final"
        found.append(f"The two references do not share their {which} state.")
    done = {rid for link in alignment.steps for rid in link.rids}
    found += [
        f"{requirement.rid} is fulfilled by no step of the solution reference: {requirement.text[:120]}"
        for requirement in references.requirements
        if requirement.kind != "invariant" and requirement.rid not in done
    ]
    known = {requirement.rid for requirement in references.requirements}
    serving = {link.step for link in alignment.steps if known & set(link.rids)}
    found += [
        f"Step {number} of the solution reference writes a result, but fulfils no requirement: {step[:120]}"
        for number, step in enumerate(references.solution_reference, 1)
        if number not in serving and any(path in step for path in references.outputs)
    ]
    return found


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
            found.append(
                f"{requirement.rid} asks for something outside the container ({word[0].strip()}): demand it of files, "
                "and use addresses below example.com or example.org."
            )
    return found


def source_problems(requirements: list[Requirement], analysis: AnalysisReply) -> list[str]:
    """Requirements that come from no operation of the analysis."""
    known = {operation.id for skill in analysis.skills for operation in skill.operations}
    found = []
    for requirement in requirements:
        strange = [source for source in requirement.sources if source not in known]
        if strange:
            found.append(f"{requirement.rid} names the source {strange[0]}, which is no operation of the analysis.")
        elif not requirement.sources and requirement.kind != "invariant":
            found.append(f"{requirement.rid} names no source; give the ids of the operations that it comes from.")
        elif requirement.sources and {source[0] for source in requirement.sources} != set(requirement.skill):
            found.append(
                f"{requirement.rid} says skill {requirement.skill}, but its sources are "
                f"{', '.join(requirement.sources)}."
            )
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
