"""The live model behind a cache: no reply is paid for twice."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import facet_dagster
from facet_dagster.adapters.conversation import (
    Messages,
    Question,
    Received,
    call_fact,
    converse,
    input_digests,
    keep,
    kept,
    stamp,
)
from facet_dagster.adapters.litellm_client import Completion, LitellmClient
from facet_dagster.adapters.reply_parsing import RawReply, parse
from facet_dagster.adapters.spending import Budgets, Purse, Spending, Tally, today
from facet_dagster.adapters.tape import TapeMeta, TapePin, TapeReply
from facet_dagster.adapters.tape_recorder import TapeRecorder
from facet_dagster.deployments import ModelTable
from facet_dagster.domain.facts import ModelCallFact, ReplyFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError, InvariantError, LLMError, ModelUnavailable, Stopping
from facet_dagster.funnel import retry_round
from facet_dagster.ports import ArtifactStore, Ledger, Reply
from facet_dagster.prompts import FOLDER, render

log = logging.getLogger(__name__)


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
    every exchange, from the cache or not, is on that tape afterwards. Nothing stored names the key. A stage that
    somebody asked to retry passes over replies of earlier rounds.
    """

    def __init__(
        self,
        table: ModelTable,
        *,
        ledger: Ledger,
        store: ArtifactStore,
        run_id: str = "",
        budgets: Budgets = Budgets(),  # noqa: B008 - a frozen value
        record: Path | None = None,
        retries: int = 4,
        prompts: Path = FOLDER,
        sleep: Callable[[float], None] | None = None,
        purse: Purse | None = None,
    ) -> None:
        self._table = table
        self._stopping = threading.Event()
        pause = self._pause(sleep or self._stopping.wait)
        self._clients = {spec.name: LitellmClient(spec, retries=retries, sleep=pause) for spec in table.used()}
        self._ledger = ledger
        self._store = store
        self._run_id = run_id
        self._prompts = prompts
        self._purse, self._tally = purse or Purse(), Tally()
        self._spending = Spending(budgets, ledger, self._purse)
        self._recorder = TapeRecorder(record, _meta(table)) if record else None
        self._budgets = budgets

    def ask(
        self, call: str, variables: Mapping[str, Any], schema: type[Reply], *, subject: str, attempt: int = 0
    ) -> Reply:
        """See ``LLM.ask``; raises ConfigError when the tape being recorded cannot be written."""
        question = Question(render(call, variables, schema, folder=self._prompts), subject, attempt)
        inputs = input_digests(variables)

        def send(messages: Messages, turn: int) -> Received:
            received = self._receive(question, messages, turn, schema)
            self._record(question, inputs, received.raw, turn)
            return received

        return converse(question, schema, send, note=self._note, run_id=self._run_id)

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        values = compute()
        if self._recorder:
            self._recorder.append(TapePin(name=name, subject=subject, values=values))
        return values

    def counters(self) -> dict[str, float]:
        return self._tally.read()

    def stop(self) -> None:
        self._stopping.set()

    def probe(self) -> None:
        """One small request to every model, never cached: does it answer, with this key, at this endpoint, in JSON?

        Raises LLMError saying what to set, and ConfigError for a budget on a model whose price nobody knows.
        """
        for client in self._clients.values():
            self._check_price(client)
            self._spending.check("")
            self._probe(client)

    def _check_price(self, client: LitellmClient) -> None:
        if self._budgets.any and client.price_of(1, 1) is None:
            raise ConfigError(
                f"A budget is set, but the price of {client.model} is not known: give it one in FACET_MODELS."
            )

    def _pause(self, sleep: Callable[[float], object]) -> Callable[[float], None]:
        """Sleep between two tries, unless this process is about to end."""

        def pause(seconds: float) -> None:
            self._go_on()
            sleep(seconds)
            self._go_on()

        return pause

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Stopping("This process was asked to stop: run again to go on, nothing is paid twice.")

    def _probe(self, client: LitellmClient) -> None:
        began = time.monotonic()
        done = client.complete(_PROBE)
        self._purse.pay(done.cost)
        parsed = parse(done.raw, _Ready)
        self._note(self._probe_fact(done, time.monotonic() - began, malformed=parsed.value is None))
        if parsed.value is None:
            problem = parsed.problem.splitlines()[0]
            raise LLMError(
                f"Model {client.model} answers, but not with the JSON it was asked for ({problem}): choose another"
                " FACET_MODEL, or raise FACET_MAX_TOKENS when the reply was cut off."
            )

    def _note(self, fact: ModelCallFact) -> None:
        self._ledger.append([fact])
        self._tally.add(fact)

    def _receive(self, question: Question, messages: Messages, turn: int, schema: type[Reply]) -> Received:
        spec = self._table.of(question.rendered.call)
        parameters = {"temperature": spec.temperature, "max_tokens": spec.max_tokens}
        # The messages end with the reply schema, so it is part of the key.
        again = [f"retry {retry_round()}"] if retry_round() else []
        key = digest([spec.model, parameters, messages, question.attempt, turn, *again])
        if found := self._cached(key):
            return found
        with self._ledger.claim(f"llm/{key}"):
            return self._cached(key) or self._buy(question, messages, key, schema, turn)

    def _cached(self, key: str) -> Received | None:
        began = time.monotonic()
        facts = self._ledger.find(ReplyFact, cache_key=key)
        if not facts:
            return None
        fact = facts[0]
        raw = kept(self._store, fact.reply, prompt_tokens=fact.prompt_tokens, completion_tokens=fact.completion_tokens)
        return Received(raw, fact.reply, "cache", key, time.monotonic() - began, model=fact.model)

    def _buy(self, question: Question, messages: Messages, key: str, schema: type[Reply], turn: int) -> Received:
        self._go_on()
        self._spending.check(question.subject)
        began = time.monotonic()
        done = self._complete(question, messages, schema)
        self._purse.pay(done.cost)
        stored = keep(self._store, done.raw)
        fact = ReplyFact(
            cache_key=key,
            call=question.rendered.call,
            model=done.model,
            reply=stored,
            prompt_tokens=done.raw.prompt_tokens,
            completion_tokens=done.raw.completion_tokens,
            cost=done.cost,
        )
        received = Received(
            done.raw,
            stored,
            "live",
            key,
            time.monotonic() - began,
            model=done.model,
            cost=done.cost,
            retries=done.retries,
            waited=done.waited,
            noted=True,
        )
        malformed = parse(done.raw, schema).value is None
        call = call_fact(question, received, turn, malformed=malformed, run_id=self._run_id)
        # In one transaction: a reply that is in the cache is also in the books.
        self._ledger.append([fact, call])
        self._tally.add(call)
        return received

    def _complete(self, question: Question, messages: Messages, schema: type[Reply]) -> Completion:
        """From the call's model, or from the first fall-back that answers after it did not."""
        chain = self._table.chain(question.rendered.call)
        for place, spec in enumerate(chain, start=1):
            self._go_on()
            self._check_price(self._clients[spec.name])
            try:
                return self._clients[spec.name].complete(messages, schema)
            except LLMError as error:
                other = error.transient or isinstance(error, ModelUnavailable)
                if place == len(chain) or not other:
                    raise
                log.warning("%s A fall-back is asked.", error)
        raise InvariantError("A call has no model")

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

    def _probe_fact(self, done: Completion, seconds: float, *, malformed: bool) -> ModelCallFact:
        return ModelCallFact(
            call="probe",
            cache_key="",
            tape_key="",
            subject="",
            attempt=0,
            turn=0,
            origin="live",
            model=done.model,
            prompt_tokens=done.raw.prompt_tokens,
            completion_tokens=done.raw.completion_tokens,
            malformed=malformed,
            reply=keep(self._store, done.raw),
            seconds=round(seconds, 3),
            run_id=self._run_id,
            stamp=stamp(),
            day=today(),
            cost=done.cost,
            retries=done.retries,
            waited=done.waited,
        )


def _meta(table: ModelTable) -> TapeMeta:
    models = ", ".join(dict.fromkeys(spec.model for spec in table.used()))
    return TapeMeta(
        model=models, how="recorded from a live run and its cache", made=today(), project=facet_dagster.__version__
    )
