"""The live model behind a cache: no reply is paid for twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import facet_dagster
from facet_dagster.adapters.conversation import Messages, Question, Received, converse, input_digests, keep, kept, stamp
from facet_dagster.adapters.litellm_client import LitellmClient
from facet_dagster.adapters.reply_parsing import RawReply, parse
from facet_dagster.adapters.tape import TapeMeta, TapePin, TapeReply
from facet_dagster.adapters.tape_recorder import TapeRecorder
from facet_dagster.domain.facts import ModelCallFact, ReplyFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import LLMError
from facet_dagster.ports import ArtifactStore, Ledger, Reply
from facet_dagster.prompts import FOLDER, render


class _Ready(Value):
    ready: Literal[True]


_PROBE = [
    {"role": "system", "content": "You answer with JSON only."},
    {"role": "user", "content": 'Answer with exactly this JSON object: {"ready": true}'},
]


class LitellmLLM:
    """``LLM`` over any litellm model, with the ledger as cache.

    A reply is stored as soon as it arrives, before it is read, so that neither a crash nor a malformed
    reply is paid for twice. Equal requests of several threads and processes become one. With ``record``,
    every exchange, from the cache or not, is on that tape afterwards. Nothing stored names the key.
    """

    def __init__(
        self,
        model: str,
        api_base: str = "",
        *,
        ledger: Ledger,
        store: ArtifactStore,
        run_id: str = "",
        temperature: float = 0.7,
        max_tokens: int = 16_384,
        seconds: float = 600.0,
        record: Path | None = None,
        retries: int = 4,
        api_key: str | None = None,
        prompts: Path = FOLDER,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = LitellmClient(model, api_base, api_key, temperature, max_tokens, seconds, retries, sleep)
        self._model = model
        self._parameters = {"temperature": temperature, "max_tokens": max_tokens}
        self._ledger = ledger
        self._store = store
        self._run_id = run_id
        self._prompts = prompts
        self._recorder = TapeRecorder(record, _meta(model)) if record else None

    def ask(
        self, call: str, variables: Mapping[str, Any], schema: type[Reply], *, subject: str, attempt: int = 0
    ) -> Reply:
        """See ``LLM.ask``; raises ConfigError when the tape being recorded cannot be written."""
        question = Question(render(call, variables, schema, folder=self._prompts), subject, attempt)
        inputs = input_digests(variables)

        def send(messages: Messages, turn: int) -> Received:
            received = self._receive(question, messages, turn)
            self._record(question, inputs, received.raw, turn)
            return received

        return converse(question, schema, send, ledger=self._ledger, model=self._model, run_id=self._run_id)

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        values = compute()
        if self._recorder:
            self._recorder.append(TapePin(name=name, subject=subject, values=values))
        return values

    def probe(self) -> None:
        """One small request, never cached: does this model answer, with this key, at this endpoint, in JSON?

        Raises LLMError saying what to set.
        """
        began = time.monotonic()
        raw = self._client.complete(_PROBE)
        parsed = parse(raw, _Ready)
        self._ledger.append([self._probe_fact(raw, time.monotonic() - began, malformed=parsed.value is None)])
        if parsed.value is None:
            problem = parsed.problem.splitlines()[0]
            raise LLMError(
                f"Model {self._model} answers, but not with the JSON it was asked for ({problem}): choose another"
                " FACET_MODEL, or raise FACET_MAX_TOKENS when the reply was cut off."
            )

    def _receive(self, question: Question, messages: Messages, turn: int) -> Received:
        # The messages end with the reply schema, so it is part of the key.
        key = digest([self._model, self._parameters, messages, question.attempt, turn])
        if found := self._cached(key):
            return found
        with self._ledger.claim(f"llm/{key}"):
            return self._cached(key) or self._buy(question, messages, key)

    def _cached(self, key: str) -> Received | None:
        began = time.monotonic()
        facts = self._ledger.find(ReplyFact, cache_key=key)
        if not facts:
            return None
        fact = facts[0]
        raw = kept(self._store, fact.reply, prompt_tokens=fact.prompt_tokens, completion_tokens=fact.completion_tokens)
        return Received(raw, fact.reply, "cache", key, time.monotonic() - began)

    def _buy(self, question: Question, messages: Messages, key: str) -> Received:
        began = time.monotonic()
        raw = self._client.complete(messages)
        stored = keep(self._store, raw)
        fact = ReplyFact(
            cache_key=key,
            call=question.rendered.call,
            model=self._model,
            reply=stored,
            prompt_tokens=raw.prompt_tokens,
            completion_tokens=raw.completion_tokens,
        )
        self._ledger.append([fact])
        return Received(raw, stored, "live", key, time.monotonic() - began)

    def _record(self, question: Question, inputs: dict[str, str], raw: RawReply, turn: int) -> None:
        if self._recorder is None:
            return
        entry = TapeReply(
            call=question.rendered.call,
            template=question.rendered.template,
            variables=question.rendered.variables,
            inputs=inputs,
            attempt=question.attempt,
            turn=turn,
            subject=question.subject,
            reply=raw.text,
            finish=raw.finish,
            prompt_tokens=raw.prompt_tokens,
            completion_tokens=raw.completion_tokens,
        )
        self._recorder.append(entry)

    def _probe_fact(self, raw: RawReply, seconds: float, *, malformed: bool) -> ModelCallFact:
        return ModelCallFact(
            call="probe",
            cache_key="",
            tape_key="",
            subject="",
            attempt=0,
            turn=0,
            origin="live",
            model=self._model,
            prompt_tokens=raw.prompt_tokens,
            completion_tokens=raw.completion_tokens,
            malformed=malformed,
            reply=keep(self._store, raw),
            seconds=round(seconds, 3),
            run_id=self._run_id,
            stamp=stamp(),
        )


def _meta(model: str) -> TapeMeta:
    today = datetime.now(UTC).date().isoformat()
    return TapeMeta(
        model=model, how="recorded from a live run and its cache", made=today, project=facet_dagster.__version__
    )
