"""Stage 1: terminal scenarios in which one skill would be used (paper, section 3.1)."""

from __future__ import annotations

from facet_dagster import prompts
from facet_dagster.domain.facts import HypothesisFact
from facet_dagster.domain.seed import HypothesisReply, SkillHypotheses
from facet_dagster.domain.skill import Skill
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM

VERSION = f"1-{prompts.version('hypotheses')}"
BODY = 6_000
MOST = 3


def hypothesise(skill: Skill, *, llm: LLM) -> Outcome:
    """Outcome with a SkillHypotheses and one HypothesisFact for each of at most three hypotheses.

    The model sees the first 6,000 characters of the body. Raises MalformedReply, LLMError.
    """
    variables = {
        "name": skill.name,
        "description": skill.description,
        "family": skill.family.value,
        "body": skill.body[:BODY],
        "shortened": len(skill.body) > BODY,
    }
    reply = llm.ask("hypotheses", variables, HypothesisReply, subject=skill.id)
    reply = reply.model_copy(update={"hypotheses": reply.hypotheses[:MOST]})
    facts = tuple(HypothesisFact(skill=skill.id, title=h.title, situation=h.situation) for h in reply.hypotheses)
    return Outcome(
        value=SkillHypotheses(skill_id=skill.id, reply=reply),
        numbers={"hypotheses": len(facts), "concrete": float(reply.concrete)},
        facts=tuple({fact.fact_id: fact for fact in facts}.values()),
    )
