"""What every LLM adapter does with a rendered prompt: ask, read, record, and once ask for a repair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from facet_dagster.adapters.reply_parsing import RawReply, parse
from facet_dagster.domain.facts import ModelCallFact
from facet_dagster.domain.ids import canonical, digest, to_json
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import ArtifactStore, Reply
from facet_dagster.prompts import Rendered

Messages = list[dict[str, str]]

TURNS = (0, 1)
QUOTED = 20_000  # characters of a bad reply that the repair call shows the model again


@dataclass(frozen=True)
class Question:
    """A rendered prompt, who pays for it, and the how-manieth attempt it is."""

    rendered: Rendered
    subject: str
    attempt: int

    @property
    def tape_key(self) -> str:
        return self.rendered.tape_key(self.attempt)


@dataclass(frozen=True)
class Received:
    """A reply and where it came from: ``origin`` is live, cache or tape; ``stored`` the blob's sha256.

    ``cost`` is what was paid for it now, in USD; ``noted`` when its ModelCallFact is stored already.
    """

    raw: RawReply
    stored: str
    origin: str
    cache_key: str
    seconds: float
    model: str = ""
    cost: float | None = 0.0
    retries: int = 0
    waited: float = 0.0
    noted: bool = False


Send = Callable[[Messages, int], Received]
Note = Callable[[ModelCallFact], None]


def converse(question: Question, schema: type[Reply], send: Send, *, note: Note, run_id: str) -> Reply:
    """The reply to ``question`` as ``schema``; ``note`` gets a ModelCallFact for each turn.

    ``send(messages, turn)`` gets the replies. Turn 1 is the one repair call: the same messages, the bad
    reply, and what was wrong with it. Raises MalformedReply after that, and whatever ``send`` raises.
    """
    messages, raw, problem = question.rendered.messages, RawReply(text=""), ""
    for turn in TURNS:
        received = send(messages, turn)
        raw = received.raw
        parsed = parse(raw, schema)
        if not received.noted:
            note(call_fact(question, received, turn, malformed=parsed.value is None, run_id=run_id))
        if parsed.value is not None:
            return parsed.value
        problem = parsed.problem
        messages = [*messages, *_repair(raw, problem)]
    raise MalformedReply(
        f"Call {question.rendered.call} for {question.subject}: the reply does not fit its schema, also after"
        f" a repair call ({problem.splitlines()[0]})",
        raw=raw.text,
        problem=problem,
    )


def _repair(raw: RawReply, problem: str) -> Messages:
    again = f"That answer cannot be used:\n{problem}\n\nAnswer again with the whole corrected JSON object only."
    return [
        {"role": "assistant", "content": raw.text[:QUOTED].strip() or "(no answer)"},
        {"role": "user", "content": again},
    ]


def call_fact(question: Question, received: Received, turn: int, *, malformed: bool, run_id: str) -> ModelCallFact:
    """What the ledger keeps of one exchange."""
    now = stamp()
    return ModelCallFact(
        call=question.rendered.call,
        cache_key=received.cache_key,
        tape_key=question.tape_key,
        subject=question.subject,
        attempt=question.attempt,
        turn=turn,
        origin=received.origin,
        model=received.model,
        prompt_tokens=received.raw.prompt_tokens,
        completion_tokens=received.raw.completion_tokens,
        malformed=malformed,
        reply=received.stored,
        seconds=round(received.seconds, 3),
        run_id=run_id,
        stamp=now,
        day=now[:10],
        cost=received.cost,
        retries=received.retries,
        waited=round(received.waited, 3),
    )


def stamp() -> str:
    """The present time (UTC), which tells equal requests of one run apart."""
    return datetime.now(UTC).isoformat()


def keep(store: ArtifactStore, raw: RawReply) -> str:
    """Store a reply as JSON (text, finish, reasoning) and return its sha256; ``kept`` reads it back."""
    return store.put(to_json(raw.model_dump(include={"text", "finish", "reasoning"})).encode())


def kept(store: ArtifactStore, stored: str, *, prompt_tokens: int, completion_tokens: int) -> RawReply:
    raw = RawReply.model_validate_json(store.get(stored))
    return raw.model_copy(update={"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens})


def input_digests(variables: Mapping[str, Any]) -> dict[str, str]:
    """A short digest of each canonical variable: lets a stale tape entry say which one changed."""
    return {name: digest(value)[:12] for name, value in canonical(variables).items()}
