"""An instruction that may not become a task ends its draft before anything else is asked."""

from __future__ import annotations

import pytest

from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.task import JointReply
from facet_dagster.stages.task.draft import draft
from facet_dagster.stages.task.orders import ORDERS
from tests.fixtures import task_example as example

JOINT = JointReply(instruction=example.INSTRUCTION, solution=example.SOLUTION, verifier=example.VERIFIER)


@pytest.mark.parametrize(
    ("order", "asked"), [("forward", "instruction"), ("reverse", "instruction"), ("joint", "joint")]
)
def test_nothing_more_is_asked(order: str, asked: str) -> None:
    seen = list[str]()

    def refusal(text: str) -> Rejection | None:
        seen.append(text)
        return reject(Reason.TASK_CONTAMINATED, "The text repeats a benchmark.")

    llm = ScriptedLLM({"instruction": [example.INSTRUCTION], "joint": [JOINT]})
    write = ORDERS[order]  # type: ignore[index]
    outcome = draft(example.SEED, example.SCENARIO, example.environment(), llm=llm, write=write, refusal=refusal)
    assert [call for call, _, _ in llm.asked] == [asked]
    assert outcome.value is None
    assert outcome.rejection is not None
    assert outcome.rejection.reason is Reason.TASK_CONTAMINATED
    assert [fact.kind for fact in outcome.facts if isinstance(fact, AttemptFact)] == [asked]
    assert example.INSTRUCTION.title in seen[0]


def test_what_is_not_refused_is_written_as_before() -> None:
    script = {"instruction": [example.INSTRUCTION], "solution": [example.SOLUTION], "verifier": [example.VERIFIER]}
    outcome = draft(
        example.SEED, example.SCENARIO, example.environment(), llm=ScriptedLLM(script), refusal=lambda _: None
    )
    assert outcome.rejection is None
