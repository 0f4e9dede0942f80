"""One request to a provider through litellm: retried when that may help, else one clear sentence."""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import BaseModel
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random
from tenacity import wait_random_exponential as backoff

from facet_dagster.adapters.reply_parsing import RawReply, received
from facet_dagster.deployments import Deployment, ModelSpec
from facet_dagster.errors import LLMError, ModelUnavailable

_REST_SECONDS = 30.0
# They drop max_retries=0, and the vendor's client then tries three times behind our back.
_EAGER = frozenset({"deepinfra", "nvidia_nim", "sambanova"})
# Their address is always the user's own, and their usual variable belongs to it.
OWN_ADDRESS = frozenset({"azure", "azure_ai", "azure_text", "databricks", "watsonx"})
MOST_TOKENS = 2**31
LONGEST_WAIT = 300.0  # seconds; a provider that asks for more is asked again all the same
RETRIED = frozenset({408, 409, 425, 429})  # and everything from 500 on, also 529 (overloaded)
SHOWN = 300
COUNTED = 400_000  # characters whose tokens are estimated, for providers that do not count

SHORTEST_SECRET = 8
_SECRET = re.compile(r"(?i)key|token|secret|password")
_PREFIX = re.compile(r"^(?:litellm\.)?(?:\w+(?:Error|Exception|Timeout)\s*(?::|-)\s*|Timeout Error:\s*)+")
_KEYLIKE = re.compile(r"(?i)\bbearer\s+\S+|\b(?:sk|pk|rk|gsk|xai|key)-[\w-]{6,}|\bAIza[\w-]{10,}")


@dataclass(frozen=True)
class Completion:
    """A reply, the model that gave it, its ``cost`` in USD (None: the price is unknown), and what it took.

    ``retries`` are the tries after the first, ``waited`` the seconds between them.
    """

    raw: RawReply
    model: str
    cost: float | None
    retries: int
    waited: float


class LitellmClient:
    """One model, at one endpoint or several. ``retries`` counts the tries after the first.

    Several deployments are shared out by litellm's Router: by weight, within their limits a minute. Without a
    key litellm reads the provider's own variable (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...), unless an ``api_base``
    is given: that key is not for whoever answers there. Thread-safe.
    """

    def __init__(self, spec: ModelSpec, *, retries: int = 4, sleep: Callable[[float], None] = time.sleep) -> None:
        self.spec, self.model = spec, spec.model
        self._retries, self._sleep = retries, sleep
        self._router: Any = None
        self._guard = threading.Lock()
        self._refuses_schemas = False

    def complete(self, messages: list[dict[str, str]], schema: type[BaseModel] | None = None) -> Completion:
        """The model's next message, fitting ``schema`` where the provider can hold it to one.

        Raises LLMError; it is transient when only the tries ran out.
        """
        import openai  # litellm's errors are openai's

        litellm = _litellm()
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            self._sleep(seconds)

        tries = Retrying(
            stop=stop_after_attempt(self._retries + 1),
            wait=_wait,
            retry=retry_if_exception(_may_pass),
            sleep=sleep,
            reraise=True,
        )
        try:
            response = tries(self._request, litellm, messages, schema)
        except openai.APIError as error:
            failure = self._translate(litellm, error)
        else:
            raw = self._read(litellm, messages, response)
            return Completion(raw, self.model, self._cost(litellm, raw, response), len(waits), sum(waits))
        raise failure  # outside of the handler: the vendor's error, which may quote the key, is not chained

    def price_of(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """USD for so many tokens, by the file's price or litellm's; None when neither knows one."""
        raw = RawReply(text="", prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        return self._cost(_litellm(), raw, None)

    def missing_variables(self) -> list[str]:
        """Variables of the environment that litellm expects for this model and does not find."""
        return list(_litellm().validate_environment(self.model)["missing_keys"])

    def _request(self, litellm: Any, messages: list[dict[str, str]], schema: type[BaseModel] | None) -> Any:
        import openai

        wanted = schema if schema is not None and self._native(litellm) else None
        form = {"response_format": _response_format(wanted)} if wanted is not None else {}
        try:
            return self._send(litellm, messages, form)
        except openai.BadRequestError as error:
            # A provider that says it takes schemas may refuse this one: the prompt asks for the same form in words.
            if not form or not re.search("response_format|schema", str(error)):
                raise
            self._refuses_schemas = True
            return self._send(litellm, messages, {})

    def _send(self, litellm: Any, messages: list[dict[str, str]], form: dict[str, Any]) -> Any:
        parameters = {
            "messages": messages,
            "temperature": self.spec.temperature,
            "max_tokens": self.spec.max_tokens,
            "timeout": self.spec.seconds,
            "drop_params": True,  # models that fix their temperature refuse to be given one
            **form,
        }
        if len(self.spec.deployments) > 1 or any(d.rpm or d.tpm for d in self.spec.deployments):
            return self._shared_out(litellm).completion(model=self.spec.name, **parameters)
        return litellm.completion(num_retries=0, max_retries=0, **_endpoint(self.spec.deployments[0]), **parameters)

    def _shared_out(self, litellm: Any) -> Any:
        with self._guard, warnings.catch_warnings():
            if self._router is None:
                warnings.simplefilter("ignore", UserWarning)  # of its own types, when it is imported
                limited = any(d.rpm or d.tpm for d in self.spec.deployments)
                self._router = litellm.Router(
                    model_list=[_routed(self.spec.name, d) for d in self.spec.deployments],
                    routing_strategy="simple-shuffle",
                    optional_pre_call_checks=["enforce_model_rate_limits"] if limited else [],
                    # At once, on another deployment: one that fails, also for its key, rests for a while.
                    num_retries=len(self.spec.deployments) - 1,
                    allowed_fails=0,
                    cooldown_time=_REST_SECONDS,
                )
        return self._router

    def _native(self, litellm: Any) -> bool:
        if self.spec.structured == "instructed" or self._refuses_schemas:
            return False
        return self.spec.structured == "native" or bool(litellm.supports_response_schema(model=self.model))

    def _cost(self, litellm: Any, raw: RawReply, response: Any) -> float | None:
        if self.spec.price is not None:
            price = self.spec.price
            return (raw.prompt_tokens * price.input + raw.completion_tokens * price.output) / 1e6
        try:
            if response is not None and getattr(response, "usage", None):
                cost = float(litellm.completion_cost(completion_response=response, model=self.model))
            else:
                tokens = {"prompt_tokens": raw.prompt_tokens, "completion_tokens": raw.completion_tokens}
                cost = float(sum(litellm.cost_per_token(model=self.model, **tokens)))
        except Exception:  # noqa: BLE001 - litellm raises whatever for a model whose price it does not know
            return None
        # It says 0, too, once its Router has seen the name. A model that is free is given a price of 0 in the file.
        return cost if cost > 0 else None

    def _read(self, litellm: Any, messages: list[dict[str, str]], response: Any) -> RawReply:
        if not response.choices:
            return received("")
        choice, usage = response.choices[0], getattr(response, "usage", None)
        text = choice.message.content or ""
        return received(
            text,
            finish=choice.finish_reason or "stop",
            reasoning=getattr(choice.message, "reasoning_content", None) or "",
            prompt_tokens=_tokens(usage, "prompt_tokens") or litellm.token_counter(model=self.model, messages=messages),
            completion_tokens=_tokens(usage, "completion_tokens")
            or litellm.token_counter(model=self.model, text=text[:COUNTED]),
        )

    def _translate(self, litellm: Any, error: Exception) -> LLMError:
        status = _status(error)
        said = f" The provider said: {self._scrub(litellm, str(error))}"
        if status in {401, 403} or "Missing credentials" in str(error):
            return LLMError(
                f"Model {self.model} refused the key, or there is none: set {self._variable(litellm)} to a valid key."
            )
        too_long = isinstance(error, litellm.exceptions.ContextWindowExceededError)
        if too_long or _code(error) == "context_length_exceeded":
            return LLMError(
                f"The prompt does not fit the context of {self.model}: set FACET_MODEL to a model with a longer"
                f" context, or lower FACET_MAX_TOKENS.{said}"
            )
        if status == 404 or "LLM Provider NOT provided" in str(error):
            return ModelUnavailable(
                f"There is no model {self.model}: correct FACET_MODEL (provider/model) or FACET_API_BASE.{said}"
            )
        if _out_of_credit(error):
            return ModelUnavailable(f"The account behind {self.model} has no credit left: top it up.{said}")
        if "Connection error" in str(error):
            where = " or ".join(d.api_base or "its provider's address" for d in self.spec.deployments)
            return LLMError(
                f"Model {self.model} cannot be reached at {where}: check that it runs, and FACET_API_BASE.",
                transient=True,
            )
        if _may_pass(error):
            return LLMError(
                f"Model {self.model} did not answer in {self._retries + 1} tries (last status {status}).{said}",
                transient=True,
            )
        return LLMError(f"Model {self.model} refused the request (status {status}).{said}")

    def _variable(self, litellm: Any) -> str:
        if any(_elsewhere(d) and not d.key for d in self.spec.deployments):
            return "FACET_API_KEY (or key_env in FACET_MODELS)"
        missing = litellm.validate_environment(self.model)["missing_keys"]
        names = [name for name in missing if "KEY" in name]
        return " or ".join(names) or f"{self._provider()}_API_KEY"

    def _provider(self) -> str:
        return (self.model.partition("/")[0] if "/" in self.model else "openai").upper()

    def _scrub(self, litellm: Any, text: str) -> str:
        """One short line without any key: the one we sent, the environment's, or what looks like one."""
        ours = [d.key.get_secret_value() for d in self.spec.deployments if d.key]
        for key in (*ours, *_secrets(), litellm.get_secret(f"{self._provider()}_API_KEY")):
            if key:
                text = text.replace(str(key), "***")
        return _KEYLIKE.sub("***", " ".join(_PREFIX.sub("", text).split()))[:SHOWN]


def _tokens(usage: Any, name: str) -> int:
    """What the provider counted; nonsense is bounded, so that it can be stored and no budget grows."""
    count = getattr(usage, name, 0)
    return max(0, min(int(count), MOST_TOKENS)) if isinstance(count, int | float) else 0


def _secrets() -> list[str]:
    """Values of the environment that are keys by their name: litellm knows many providers' variables."""
    environment = os.environ.items()  # noqa: TID251 - only to keep them out of messages
    return [value for name, value in environment if _SECRET.search(name) and len(value) >= SHORTEST_SECRET]


def _endpoint(deployment: Deployment) -> dict[str, Any]:
    """A server of one's own often needs no key, yet litellm wants one, and must never send it a provider's."""
    key = deployment.key.get_secret_value() if deployment.key else None
    if key is None and _elsewhere(deployment):
        key = "none"
    eager = deployment.model.partition("/")[0] in _EAGER
    more = {"allowed_openai_params": ["max_retries"]} if eager else {}
    return {"model": deployment.model, "api_base": deployment.api_base or None, "api_key": key, **more}


def _elsewhere(deployment: Deployment) -> bool:
    """Whether an address is given that need not be the provider's, whose usual key must not go there."""
    return bool(deployment.api_base) and deployment.model.partition("/")[0] not in OWN_ADDRESS


def _routed(name: str, deployment: Deployment) -> dict[str, Any]:
    limits = {"weight": deployment.weight, "rpm": deployment.rpm, "tpm": deployment.tpm}
    given = {k: v for k, v in {**_endpoint(deployment), **limits}.items() if v is not None}
    return {"model_name": name, "litellm_params": {**given, "max_retries": 0}}


def _response_format(schema: type[BaseModel]) -> dict[str, Any]:
    form = {"name": schema.__name__, "schema": schema.model_json_schema()}
    return {"type": "json_schema", "json_schema": form}


def _litellm() -> Any:
    """litellm, imported on first use because that takes seconds, and kept from downloads and from .env files."""
    switches = {
        "LITELLM_OFFLINE_MODE": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
    }
    for name, value in switches.items():
        os.environ.setdefault(name, value)  # noqa: TID251 - litellm reads its switches nowhere else, at import
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _code(error: BaseException) -> str:
    """The provider's own error code, which litellm keeps in the body."""
    body = getattr(error, "body", None)
    return str(body.get("code")) if isinstance(body, dict) else ""


def _out_of_credit(error: BaseException) -> bool:
    return _status(error) == 402 or _code(error) == "insufficient_quota"


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later. litellm reports a lost connection as status 500."""
    import openai

    if not isinstance(error, openai.APIError) or _out_of_credit(error) or "Missing credentials" in str(error):
        return False
    status = _status(error)
    return status is None or status in RETRIED or status >= 500


def _wait(state: RetryCallState) -> float:
    """Seconds: what the provider asked for, a little spread out, else exponential back-off with full jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = _retry_after(error)
    if asked is None:
        return backoff(multiplier=1, max=60)(state)
    return min(asked, LONGEST_WAIT) + wait_random(0, 1)(state)


def _retry_after(error: BaseException | None) -> float | None:
    """Seconds of the Retry-After header, given as a number or as a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = str(headers.get("retry-after", ""))
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, TypeError):  # TypeError: a date without a time zone
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None
