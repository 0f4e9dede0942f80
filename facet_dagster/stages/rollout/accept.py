"""Which attempts may be trained on: solved, whole, short enough, honest (paper, section 3.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.rollout import Attempt, Conversation, Judged

VERSION = "1"
# Places of the judge and of the reference solution. The container of an agent holds neither, so nobody has business
# there; a path below the work directory that ends in the same name is another place.
_FOREIGN = re.compile(r"(?<![\w.~-])/(?:tests|solution|oracle)(?![\w.-])|/logs/verifier|/etc/ld\.so\.preload")
SHOWN = 3


def judge(attempt: Attempt, said: Conversation | None, count: Callable[[str], int], *, longest: int) -> Judged:
    """All reasons against ``attempt``, whose trajectory is ``said`` (None: there is none that can be read).

    ``count`` counts the tokens of a text; ``longest`` is how many a trajectory may have (paper, Table 9: 32,768).
    """
    tokens = sum(count(message.content) for message in said.messages) if said else 0
    found = list(_reasons(attempt, said, tokens, longest))
    return Judged(
        number=attempt.number,
        trajectory=attempt.trajectory,
        tokens=tokens,
        reasons=tuple(reason for reason, _ in found),
        what=tuple(text for _, text in found),
    )


def _reasons(attempt: Attempt, said: Conversation | None, tokens: int, longest: int) -> Iterator[tuple[Reason, str]]:
    if attempt.reward is None:
        yield Reason.ROLLOUT_UNJUDGED, attempt.error or "the verifier gave no valid reward"
    elif attempt.reward == 0:
        yield Reason.ROLLOUT_FAILED, f"checks not passed: {', '.join(attempt.missed) or 'none was run'}"
    if said is None:
        yield Reason.ROLLOUT_INCOMPLETE, attempt.problem or "no trajectory was written"
        return
    if not said.finished:
        yield Reason.ROLLOUT_INCOMPLETE, attempt.error or "the agent never said that it is done"
    if tokens > longest:
        yield Reason.ROLLOUT_TOO_LONG, f"{tokens} tokens, of which {longest} fit"
    foreign = [keys for keys in said.keystrokes if _FOREIGN.search(keys)]
    if foreign:
        shown = "; ".join(" ".join(keys.split())[:120] for keys in foreign[:SHOWN])
        yield Reason.ROLLOUT_TAMPERED, f"{len(foreign)} commands reach for the judge or the solution: {shown}"
