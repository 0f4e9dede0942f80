"""One artifact of a draft: asked for, checked against the rules, and asked for once more when it breaks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.stages.task.lint import Problem

STAGE = "task_draft"
R = TypeVar("R", bound=BaseModel)
Check = Callable[[R], tuple[Problem, ...]]


@dataclass(frozen=True)
class Written(Generic[R]):
    """A reply, the problems that it still has, and the attempts that led to it."""

    reply: R
    problems: tuple[Problem, ...]
    attempts: tuple[AttemptFact, ...]


@dataclass(frozen=True)
class Asker:
    """Asks for the artifacts of one seed. ``store`` keeps every reply, also those that were asked for anew."""

    llm: LLM
    seed: str
    store: ArtifactStore | None

    def __call__(
        self, call: str, schema: type[R], variables: Mapping[str, Any], check: Check[R], component: str | None = None
    ) -> Written[R]:
        """The reply, or the better one of two. ``component`` stands in the facts; None: named like the call.

        Raises MalformedReply for a first reply that does not fit, and other LLMErrors.
        """
        blamed = call if component is None else component
        first = self._once(call, schema, {**variables, "problems": [], "previous": None}, check, 0, blamed)
        if not first.problems:
            return first
        again = {
            **variables,
            # Their texts come from bash and Python, whose versions word them differently: not in the tape's key.
            "problems": [{"log_tail": problem.text} for problem in first.problems],
            "previous": first.reply.model_dump(mode="json"),
        }
        try:
            second = self._once(call, schema, again, check, 1, blamed)
        except MalformedReply as error:
            failed = self._fact(call, 1, blamed, ok=False, summary=f"malformed: {error.problem[:300]}")
            return Written(first.reply, first.problems, (*first.attempts, failed))
        better = second if len(second.problems) <= len(first.problems) else first
        return Written(better.reply, better.problems, (*first.attempts, *second.attempts))

    def _once(
        self,
        call: str,
        schema: type[R],
        variables: Mapping[str, Any],
        check: Check[R],
        attempt: int,
        component: str,
    ) -> Written[R]:
        reply = self.llm.ask(call, variables, schema, subject=self.seed, attempt=attempt)
        problems = check(reply)
        summary = " ".join(problem.text for problem in problems)[:1000]
        kept = keep(reply, self.store)
        fact = self._fact(call, attempt, component, ok=not problems, summary=summary, artifact=kept)
        return Written(reply, problems, (fact,))

    def _fact(
        self, call: str, attempt: int, component: str, *, ok: bool, summary: str, artifact: str | None = None
    ) -> AttemptFact:
        return AttemptFact(
            stage=STAGE,
            key=self.seed,
            kind=call,
            round=attempt,
            ok=ok,
            component=component,
            summary=summary,
            artifact=artifact,
        )


def keep(value: BaseModel, store: ArtifactStore | None) -> str:
    """The digest of ``value``'s JSON, which is its address when there is a store."""
    return store.put(to_json(value).encode()) if store else digest(value)
