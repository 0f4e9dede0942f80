"""From a pair of skills to the complete scenario C and its references.

Paper, section 3.2: five modules (analysis, exploration, association, evolution, expansion), five
dimensions, the solution reference, then the instruction reference, and the check that both share their
initial and final states. Modules 1-2 are the call ``analyse``, 3-5 ``reconstruct``, the rest ``references``;
``align`` compares the two references. Every module is an artifact of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.facts import ArtifactFact, AttemptFact, Fact
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.scenario import (
    AlignmentReply,
    AnalysisReply,
    ReconstructReply,
    ReferencesReply,
    Scenario,
    specification,
)
from facet_dagster.domain.seed import Seed, Span
from facet_dagster.domain.skill import Skill
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.prompts import version
from facet_dagster.stages.scenario.problems import (
    alignment_problems,
    reference_problems,
    source_problems,
    state_problems,
)
from facet_dagster.stages.scenario.spans import operation_problems, spans_of, thin

VERSION = f"2-{version('analyse', 'reconstruct', 'references', 'align')}"
STAGE = "scenario"
BODY = 9_000

Reply = TypeVar("Reply", bound=BaseModel)


class _Refused(Exception):
    """Ends a reconstruction whose replies stay wrong."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


@dataclass
class _Dialogue:
    """The calls of one seed and the facts that they leave."""

    llm: LLM
    seed: str
    store: ArtifactStore | None
    facts: list[Fact] = field(default_factory=list)

    def ask(
        self,
        call: str,
        variables: Mapping[str, Any],
        schema: type[Reply],
        check: Callable[[Reply], list[str]],
        attempt: int = 0,
    ) -> tuple[Reply, list[str]]:
        """One reply and its problems."""
        reply = self.llm.ask(call, variables, schema, subject=self.seed, attempt=attempt)
        problems = check(reply)
        self.facts += _kept(self.store, self.seed, call, reply.model_dump(mode="json"), attempt, problems)
        return reply, problems

    def aligned(
        self,
        call: str,
        variables: Mapping[str, Any],
        schema: type[Reply],
        check: Callable[[Reply], list[str]],
        reason: Reason = Reason.SCENARIO_MISALIGNED,
    ) -> Reply:
        """The first reply without problems of at most two. Raises _Refused."""
        reply, problems = self.ask(call, {**variables, "problems": [], "previous": None}, schema, check)
        if problems:
            again = {**variables, "problems": problems, "previous": reply}
            reply, problems = self.ask(call, again, schema, check, 1)
        if problems:
            raise _Refused(_rejection(call, problems, reason))
        return reply


def reconstruct(seed: Seed, first: Skill, second: Skill, *, llm: LLM, store: ArtifactStore | None = None) -> Outcome:
    """The Scenario of a seed, whose skills are ``first`` (A) and ``second`` (B); parents are both skill ids.

    A reply with problems is asked for once more; then the seed is rejected, as SCENARIO_THIN when the skills state
    too little, else as SCENARIO_MISALIGNED. ``store`` keeps every reply and every module. Raises MalformedReply and
    other LLMErrors of the model.
    """
    dialogue = _Dialogue(llm, seed.key, store)
    try:
        value = _scenario(seed, {"A": first, "B": second}, dialogue)
    except _Refused as refused:
        return Outcome(rejection=refused.rejection, facts=tuple(dialogue.facts))
    modules = [
        fact for name, data in value.modules().items() for fact in _kept(store, seed.key, f"module.{name}", data)
    ]
    return Outcome(
        value=value,
        numbers={
            "requirements": len(value.references.requirements),
            "rules": len(value.reconstruction.rules),
            "discriminators": len(value.reconstruction.discriminators),
            "outputs": len(value.references.outputs),
            "spans": len(value.spans),
            "added": len(value.alignment.add_requirements) if value.alignment else 0,
        },
        facts=(*dialogue.facts, *modules),
        parents=((first.id, "skill"), (second.id, "skill")),
    )


def _scenario(seed: Seed, skills: Mapping[str, Skill], dialogue: _Dialogue) -> Scenario:
    analysis, spans = _analysed(seed, skills, dialogue)
    built = dialogue.aligned("reconstruct", {"analysis": analysis.extract()}, ReconstructReply, state_problems)

    def check(references: ReferencesReply) -> list[str]:
        return [*reference_problems(references, built), *source_problems(references.requirements, analysis)]

    given = {"analysis": analysis.operations(), "reconstruction": built}
    references = dialogue.aligned("references", given, ReferencesReply, check)
    alignment, settled, problems = _align(references, built, dialogue, 0)
    if problems:
        again = {**given, "problems": problems, "previous": references}
        references, still = dialogue.ask("references", again, ReferencesReply, check, 2)
        if still:
            raise _Refused(_rejection("references", still))
        alignment, settled, problems = _align(references, built, dialogue, 1)
    if problems:
        raise _Refused(_rejection("alignment", problems))
    return Scenario(
        seed=seed.key, analysis=analysis, reconstruction=built, references=settled, alignment=alignment, spans=spans
    )


def _analysed(seed: Seed, skills: Mapping[str, Skill], dialogue: _Dialogue) -> tuple[AnalysisReply, tuple[Span, ...]]:
    variables = {"joint": seed.scenario, "skill_a": _shown(skills["A"]), "skill_b": _shown(skills["B"])}

    def check(reply: AnalysisReply) -> list[str]:
        return operation_problems(reply) or thin(reply, spans_of(reply, skills))

    analysis = dialogue.aligned("analyse", variables, AnalysisReply, check, Reason.SCENARIO_THIN)
    return analysis, spans_of(analysis, skills)


def _align(
    references: ReferencesReply, built: ReconstructReply, dialogue: _Dialogue, attempt: int
) -> tuple[AlignmentReply, ReferencesReply, list[str]]:
    """The model's comparison, the references with what it adds, and what stays wrong."""
    shown = {"specification": specification(references, built)}

    def problems(reply: AlignmentReply) -> list[str]:
        # What the alignment adds has no source of its own: it closes a gap between the two references.
        return [*alignment_problems(references, reply), *reference_problems(settle(references, reply), built)]

    alignment, found = dialogue.ask("align", shown, AlignmentReply, problems, attempt)
    return alignment, settle(references, alignment), found


def settle(references: ReferencesReply, alignment: AlignmentReply) -> ReferencesReply:
    """The references with added requirements, numbered on, and with ambiguous ones settled by a sentence."""
    said = {item.rid: item.settled.strip() for item in alignment.ambiguous}
    kept = [
        requirement.model_copy(update={"text": f"{requirement.text} {said[requirement.rid]}"})
        if said.get(requirement.rid)
        else requirement
        for requirement in references.requirements
    ]
    added = [
        requirement.model_copy(update={"rid": f"R{number}"})
        for number, requirement in enumerate(alignment.add_requirements, len(kept) + 1)
    ]
    return references.model_copy(update={"requirements": [*kept, *added]})


def _rejection(part: str, problems: list[str], reason: Reason = Reason.SCENARIO_MISALIGNED) -> Rejection:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    said = "are too thin" if reason is Reason.SCENARIO_THIN else "stay misaligned"
    what = "skills" if reason is Reason.SCENARIO_THIN else f"replies to {part}"
    return reject(reason, f"The {what} {said}: {problems[0]}{more}", problems=problems)


def _shown(skill: Skill) -> dict[str, str]:
    body = skill.body if len(skill.body) <= BODY else skill.body[:BODY] + "\n[the rest is left out]"
    return {"name": skill.name, "title": skill.title, "description": skill.description[:1_000], "body": body}


def _kept(
    store: ArtifactStore | None, seed: str, kind: str, data: Any, attempt: int = 0, problems: list[str] | None = None
) -> tuple[Fact, ...]:
    """A reply or module as a blob, and the fact that it was made."""
    blob = to_json(data).encode()
    sha = store.put(blob) if store else digest(blob)
    return (
        ArtifactFact(sha256=sha, kind=f"{STAGE}.{kind}", size=len(blob)),
        AttemptFact(
            stage=STAGE,
            key=seed,
            kind=kind,
            round=attempt,
            ok=not problems,
            component=STAGE,
            summary=" ".join(problems or [])[:1000],
            artifact=sha,
        ),
    )
