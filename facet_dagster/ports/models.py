"""Models: those that answer, those that embed, and how long a text is for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

Reply = TypeVar("Reply", bound=BaseModel)
Vectors = NDArray[np.float32]


class LLM(Protocol):
    """A model behind a cache, a tape or a provider."""

    def ask(
        self,
        call: str,
        variables: Mapping[str, Any],
        schema: type[Reply],
        *,
        subject: str,
        attempt: int = 0,
    ) -> Reply:
        """Render prompt ``call`` with ``variables`` and return the reply as ``schema``.

        ``subject`` is the skill, candidate or seed that pays; ``attempt`` > 0 asks anew for the same
        variables. One repair call is made on a malformed reply.

        Raises MalformedReply (data: the caller rejects the subject), TapeMiss, or another LLMError.
        """
        ...

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        """A decision that depends on this machine's arithmetic (a ranking), kept with the replies.

        Returns ``compute()``; a replay returns what was recorded under (name, subject) instead, so that
        a tape works where vectors differ in the last digit.
        """
        ...

    def counters(self) -> Mapping[str, float]:
        """What was asked here so far: calls, hits, retries, waited (seconds), malformed, tokens, cost (USD)."""
        ...

    def stop(self) -> None:
        """Begin no new paid call: ``ask`` raises Stopping. Those in flight end and are stored."""
        ...


class Embedder(Protocol):
    """Text to unit vectors."""

    @property
    def name(self) -> str:
        """Model and number format; part of every cached vector's key."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Float32 array of shape (len(texts), dim), rows of norm 1. Raises EmbedderError."""
        ...


class TokenCounter(Protocol):
    """How long a text is for the model that shall be trained."""

    @property
    def name(self) -> str:
        """Of the tokenizer; part of what was judged by it."""
        ...

    def count(self, text: str) -> int: ...
