"""Everything this project raises on purpose.

::

    FacetError
    ├── ConfigError                    settings are wrong; never retried
    ├── PortError(transient=...)       an outside service failed
    │   ├── LLMError
    │   │   ├── MalformedReply         a reply that does not fit its schema, after one repair call
    │   │   ├── TapeMiss               replay has no entry, or a stale one, for this call
    │   │   ├── ModelUnavailable       there is no such model, or no credit for it: a fall-back may answer
    │   │   ├── BudgetExceeded         a budget is used up: nothing new starts until it is raised
    │   │   └── Stopping               this process was asked to stop: nothing new starts
    │   ├── EmbedderError
    │   ├── SandboxError
    │   │   ├── OverLimits             what a session or an image is asked to give back is over its limits
    │   │   └── SessionOver            the container of a session has ended
    │   ├── SourceError                a repository does not answer, or a source vanished while it was read
    │   ├── VectorStoreError
    │   └── LedgerError
    │       └── Held                   a claim that is not waited for is somebody else's
    └── InvariantError                 our bug: a value that cannot exist

A bad skill, pair, environment or task is *data* (see ``domain.outcome``) and raises nothing.
"""

from __future__ import annotations


class FacetError(Exception):
    """Base of all errors raised by this project. Its text says what is wrong and what to do."""


class ConfigError(FacetError):
    """A setting, path or input of the user is wrong. Never retried."""


class PortError(FacetError):
    """An outside service failed.

    ``transient`` says whether the same call may succeed later.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class LLMError(PortError):
    """The model could not be reached, refused, or answered unusably."""


class MalformedReply(LLMError):
    """The reply did not fit its schema, also after the one repair call.

    ``raw`` is the last reply as received; ``problem`` the validation error.
    """

    def __init__(self, message: str, *, raw: str, problem: str) -> None:
        super().__init__(message, transient=False)
        self.raw = raw
        self.problem = problem


class TapeMiss(LLMError):
    """The tape holds no entry for this call, or one made for other variables or another prompt."""


class ModelUnavailable(LLMError):
    """This model will not answer however often it is asked; another one may."""


class BudgetExceeded(LLMError):
    """The next call would begin over a budget. Nothing is lost: what was paid is in the cache."""


class Stopping(LLMError):
    """No new call begins because this process is about to end; those in flight are still stored."""


class EmbedderError(PortError):
    """Weights are missing or damaged, or the encoder failed."""


class SandboxError(PortError):
    """The container engine failed. A non-zero exit code of a program is never this."""


class OverLimits(SandboxError):
    """Hostile code left more than may be read: the caller knows whether that is data."""


class SessionOver(SandboxError):
    """The container of a session has ended, by its limits or by what ran in it."""


class SourceError(PortError):
    """A source of skills cannot be read, or not to its end. What was read of it is kept."""


class VectorStoreError(PortError):
    """The vector store is locked, unreachable or damaged."""


class LedgerError(PortError):
    """The ledger's database or the artifact store failed."""


class Held(LedgerError):
    """Somebody else holds the claim, and it was not to be waited for."""


class InvariantError(FacetError):
    """A value exists that cannot exist: a bug of this project."""
