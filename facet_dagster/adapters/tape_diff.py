"""What differs between two tapes, in the words of their entries."""

from __future__ import annotations

from collections.abc import Iterator

from facet_dagster.adapters.tape import Tape, TapeReply
from facet_dagster.domain.outcome import Value


class Difference(Value):
    """``change`` is added, removed or changed; ``what`` names the entry."""

    change: str
    what: str


def differences(old: Tape, new: Tape) -> list[Difference]:
    """Pins, replies and turns of ``new`` against ``old``, in the tape's order. The first line is not compared."""
    return [
        *_compare(
            {f"pin {n} of {s}": p.values for (n, s), p in old.pins.items()},
            {f"pin {n} of {s}": p.values for (n, s), p in new.pins.items()},
        ),
        *_compare(_replies(old), _replies(new)),
        *_compare(_turns(old), _turns(new)),
    ]


def _replies(tape: Tape) -> dict[str, object]:
    """A reply is the same one when call, subject, attempt and turn agree; it changed when prompt, input or text did."""
    return {_name(r): (r.template, r.variables, r.reply, r.finish) for r in tape.replies.values()}


def _name(reply: TapeReply) -> str:
    return f"{reply.call} for {reply.subject}, attempt {reply.attempt}, turn {reply.turn}"


def _turns(tape: Tape) -> dict[str, object]:
    return {f"turn {t.turn} of {t.label}": (t.screen, t.reply, t.finish) for t in tape.turns.values()}


def _compare(old: dict[str, object], new: dict[str, object]) -> Iterator[Difference]:
    for name in sorted({*old, *new}):
        if name not in old:
            yield Difference(change="added", what=name)
        elif name not in new:
            yield Difference(change="removed", what=name)
        elif old[name] != new[name]:
            yield Difference(change="changed", what=name)
