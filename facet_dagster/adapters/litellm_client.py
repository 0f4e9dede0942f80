"""One request to a provider through litellm: retried when that may help, else one clear sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random
from tenacity import wait_random_exponential as backoff

from facet_dagster.adapters.reply_parsing import RawReply, received
from facet_dagster.errors import LLMError

LONGEST_WAIT = 300.0  # seconds; a provider that asks for more is asked again all the same
RETRIED = frozenset({408, 409, 425, 429})  # and everything from 500 on, also 529 (overloaded)
SHOWN = 300
COUNTED = 400_000  # characters whose tokens are estimated, for providers that do not count

_PREFIX = re.compile(r"^(?:litellm\.)?(?:\w+(?:Error|Exception|Timeout)\s*(?::|-)\s*|Timeout Error:\s*)+")
_KEYLIKE = re.compile(r"(?i)\bbearer\s+\S+|\b(?:sk|pk|rk|gsk|xai|key)-[\w-]{6,}|\bAIza[\w-]{10,}")


@dataclass(frozen=True)
class LitellmClient:
    """``seconds`` limits the wait for the provider's next bytes; ``retries`` counts the tries after the first.

    Without ``api_key`` litellm reads the provider's own variable (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...).
    """

    model: str
    api_base: str
    api_key: str | None
    temperature: float
    max_tokens: int
    seconds: float
    retries: int
    sleep: Callable[[float], None]

    def complete(self, messages: list[dict[str, str]]) -> RawReply:
        """The model's next message. Raises LLMError; it is transient when only the tries ran out."""
        import openai  # litellm's errors are openai's

        litellm = _litellm()
        tries = Retrying(
            stop=stop_after_attempt(self.retries + 1),
            wait=_wait,
            retry=retry_if_exception(_may_pass),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            response = tries(self._request, litellm, messages)
        except openai.APIError as error:
            failure = self._translate(litellm, error)
        else:
            return self._read(litellm, messages, response)
        raise failure  # outside of the handler: the vendor's error, which may quote the key, is not chained

    def _request(self, litellm: Any, messages: list[dict[str, str]]) -> Any:
        return litellm.completion(
            model=self.model,
            messages=messages,
            api_base=self.api_base or None,
            api_key=self._key(litellm),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            timeout=self.seconds,
            drop_params=True,  # models that fix their temperature refuse to be given one
            num_retries=0,
            max_retries=0,
        )

    def _key(self, litellm: Any) -> str | None:
        """A server of one's own often needs no key, yet litellm wants one."""
        if self.api_key or not self.api_base:
            return self.api_key
        return "none" if litellm.validate_environment(self.model)["missing_keys"] else None

    def _read(self, litellm: Any, messages: list[dict[str, str]], response: Any) -> RawReply:
        if not response.choices:
            return received("")
        choice, usage = response.choices[0], getattr(response, "usage", None)
        text = choice.message.content or ""
        return received(
            text,
            finish=choice.finish_reason or "stop",
            reasoning=getattr(choice.message, "reasoning_content", None) or "",
            prompt_tokens=getattr(usage, "prompt_tokens", 0)
            or litellm.token_counter(model=self.model, messages=messages),
            completion_tokens=getattr(usage, "completion_tokens", 0)
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
            return LLMError(
                f"There is no model {self.model}: correct FACET_MODEL (provider/model) or FACET_API_BASE.{said}"
            )
        if _out_of_credit(error):
            return LLMError(f"The account behind {self.model} has no credit left: top it up.{said}")
        if _may_pass(error):
            return LLMError(
                f"Model {self.model} did not answer in {self.retries + 1} tries (last status {status}).{said}",
                transient=True,
            )
        return LLMError(f"Model {self.model} refused the request (status {status}).{said}")

    def _variable(self, litellm: Any) -> str:
        missing = litellm.validate_environment(self.model)["missing_keys"]
        names = [name for name in missing if "KEY" in name]
        return " or ".join(names) or f"{self._provider()}_API_KEY"

    def _provider(self) -> str:
        return (self.model.partition("/")[0] if "/" in self.model else "openai").upper()

    def _scrub(self, litellm: Any, text: str) -> str:
        """One short line without any key: the one we sent, the environment's, or what looks like one."""
        for key in (self.api_key, litellm.get_secret(f"{self._provider()}_API_KEY")):
            if key:
                text = text.replace(str(key), "***")
        return _KEYLIKE.sub("***", " ".join(_PREFIX.sub("", text).split()))[:SHOWN]


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
