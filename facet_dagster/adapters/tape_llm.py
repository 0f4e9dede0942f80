"""Replays a tape: the whole funnel without a model."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from facet_dagster.adapters.conversation import Messages, Question, Received, converse, input_digests, keep
from facet_dagster.adapters.reply_parsing import RawReply
from facet_dagster.adapters.spending import Tally
from facet_dagster.adapters.tape import Tape, TapeReply
from facet_dagster.domain.facts import ModelCallFact
from facet_dagster.errors import TapeMiss
from facet_dagster.ports import ArtifactStore, Ledger, Reply
from facet_dagster.prompts import FOLDER, render

log = logging.getLogger(__name__)
REMEDY = "record it again with FACET_MODEL and FACET_RECORD set, or set FACET_MODEL to ask a model now"


class TapeLLM:
    """``LLM`` over a tape. Never invents a reply: what is not there, or was made for another prompt or other
    variables, is a TapeMiss that says what differs. ``lenient`` uses the latter all the same, with a warning."""

    def __init__(
        self,
        tape: Tape,
        *,
        ledger: Ledger,
        store: ArtifactStore,
        run_id: str = "",
        prompts: Path = FOLDER,
        lenient: bool = False,
    ) -> None:
        self._lenient = lenient
        self._tape = tape
        self._ledger = ledger
        self._store = store
        self._run_id = run_id
        self._prompts = prompts
        self._tally = Tally()

    def ask(
        self, call: str, variables: Mapping[str, Any], schema: type[Reply], *, subject: str, attempt: int = 0
    ) -> Reply:
        question = Question(render(call, variables, schema, folder=self._prompts), subject, attempt)

        def send(messages: Messages, turn: int) -> Received:
            del messages
            began = time.monotonic()
            entry = self._tape.reply(question.tape_key, turn) or self._stale(question, variables, turn)
            raw = _raw(entry)
            seconds = time.monotonic() - began
            stored = keep(self._store, raw)
            return Received(raw, stored, "tape", question.tape_key, seconds, model=self._tape.meta.model)

        return converse(question, schema, send, note=self._note, run_id=self._run_id)

    def _stale(self, question: Question, variables: Mapping[str, Any], turn: int) -> TapeReply:
        """In lenient mode the entry of the same call, subject, attempt and turn, whatever it was made for."""
        miss = _miss(self._tape, question, input_digests(variables), turn)
        wanted = (question.rendered.call, question.subject, question.attempt, turn)
        found = [r for r in self._tape.replies.values() if (r.call, r.subject, r.attempt, r.turn) == wanted]
        if not self._lenient or not found:
            raise TapeMiss(miss)
        log.warning("A stale reply is used. %s", miss)
        return found[0]

    def counters(self) -> dict[str, float]:
        return self._tally.read()

    def stop(self) -> None:
        """Nothing waits here."""

    def _note(self, fact: ModelCallFact) -> None:
        self._ledger.append([fact])
        self._tally.add(fact)

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        pin = self._tape.pins.get((name, subject))
        if pin is not None:
            return list(pin.values)
        if any(recorded == name for recorded, _ in self._tape.pins):
            raise TapeMiss(f"The tape has no ranking {name} for {subject}: {REMEDY}.")
        return compute()


def _raw(entry: TapeReply) -> RawReply:
    return RawReply(
        text=entry.reply,
        finish=entry.finish,
        prompt_tokens=entry.prompt_tokens,
        completion_tokens=entry.completion_tokens,
    )


def _miss(tape: Tape, question: Question, inputs: Mapping[str, str], turn: int) -> str:
    where = f"Call {question.rendered.call} for {question.subject} (attempt {question.attempt})"
    if turn:
        return f"{where}: the recorded reply no longer fits its schema, and no repaired one is there: {REMEDY}."
    of_call = [reply for reply in tape.replies.values() if reply.call == question.rendered.call]
    near = [reply for reply in of_call if reply.subject == question.subject]
    if not of_call:
        return f"{where}: the tape has no reply to this call at all: {REMEDY}."
    if not near:
        return f"{where}: the tape has replies to this call, but none for this subject: {REMEDY}."
    best = min(near, key=lambda reply: _distance(reply, question, inputs))
    return f"{where}: {'; '.join(_differences(best, question, inputs))}: {REMEDY}."


def _distance(reply: TapeReply, question: Question, inputs: Mapping[str, str]) -> tuple[int, bool, bool]:
    return (
        len(_changed(reply, inputs)),
        reply.template != question.rendered.template,
        reply.attempt != question.attempt,
    )


def _differences(reply: TapeReply, question: Question, inputs: Mapping[str, str]) -> list[str]:
    said = []
    if reply.template != question.rendered.template:
        said.append(f"prompt {reply.call} or its reply schema changed since the tape was made")
    if changed := _changed(reply, inputs):
        said.append(f"these variables differ from the recorded ones: {', '.join(changed)}")
    if reply.attempt != question.attempt:
        said.append(f"only attempt {reply.attempt} was recorded")
    return said


def _changed(reply: TapeReply, inputs: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*reply.inputs, *inputs} if reply.inputs.get(name) != inputs.get(name))
