"""Wrong versions of a text: one value, row or order altered at a time, everything else as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_UP, Decimal, localcontext
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

from facet_dagster.domain.variants.layout import BAD, Layout, Part, Slot, is_prose

TRIES = 4
_NUMBER = re.compile(r"(?P<quote>[\"']?)(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)(?P=quote)")
_ID = re.compile(r"(?:^|[\W_])(?:id|idx|index|no|nr|seq|row|rowid|#)>?$", re.IGNORECASE)
_FLIPS = {"true": "false", "false": "true", "True": "False", "False": "True"}

Item = TypeVar("Item")
Edit = tuple[str, str, str]  # kind, what, the whole new text


@dataclass(frozen=True)
class Wish:
    """What is allowed: ``tolerance`` of numbers (their unit), whether the order counts, and the source of choices."""

    rng: Random
    tolerance: float = 0.0
    ordered: bool = False


def shifted(raw: str, tolerance: float = 0.0) -> str | None:
    """Another number, in the same notation: further by max(10 x tolerance, 5 %, 2 for integers); None if it is none."""
    found = _NUMBER.fullmatch(raw) if len(raw) <= 40 else None
    if not found:
        return None
    with localcontext() as context:
        context.prec = 60
        number = Decimal(found["number"])
        if abs(number.adjusted()) > 40:
            return None
        step = max(Decimal(repr(10 * max(tolerance, 0.0))), abs(number) / 20)
        new = _plus(number, step, whole=not re.search(r"[.eE]", found["number"]))
    return found["quote"] + new + found["quote"]


def _plus(number: Decimal, step: Decimal, *, whole: bool) -> str:
    if whole:
        return str(int(number) + max(2, int(step.to_integral_value(rounding=ROUND_CEILING))))
    exponent = number.as_tuple().exponent
    unit = Decimal(1).scaleb(min(int(exponent), 0))
    step = step.quantize(unit, rounding=ROUND_UP) or max(unit, Decimal(1))
    return str(number + step)


def spread(rng: Random, items: Sequence[Item]) -> list[Item]:
    """A few of them, those in the middle first: verifiers that sample look at the first and the last."""
    inner = list(items[1:-1])
    picked = rng.sample(inner, min(TRIES, len(inner)))
    return [*picked, *items[:1], *items[1:][-1:]][:TRIES]


def edits(text: str, layout: Layout, wish: Wish) -> Iterator[Edit]:
    """At most one edit a kind, most telling first; each says something else than ``text`` and is well formed."""
    said = layout.value(text)
    makers = _ranked(wish.rng)
    for kind, maker in makers:
        if kind in ("swap", "reverse") and not wish.ordered:
            continue
        for what, new in maker(text, layout, wish):
            if new != text and _says(layout, new) not in (None, said):
                yield kind, what, new
                break


def _says(layout: Layout, text: str) -> Any:
    try:
        return layout.value(text)
    except BAD:
        return None


def _ranked(rng: Random) -> list[tuple[str, Any]]:
    """Dropped rows, dropped fields and other texts tell as much as each other: files take turns."""
    turns: list[tuple[str, Any]] = [("drop", _drops), ("key", _keys), ("text", _texts)]
    first = rng.randrange(3)
    turns = turns[first:] + turns[:first]
    rest = [("null", _nulls), ("duplicate", _duplicates), ("reverse", _reverses)]
    return [("number", _numbers), ("swap", _swaps), *turns, *rest]


def _columns(layout: Layout, wish: Wish) -> Iterator[tuple[str, list[Slot], list[Slot]]]:
    """(group, its slots, a few to try) of groups in a random order, so that long columns do not hide short ones."""
    groups: dict[str, list[Slot]] = {}
    for slot in layout.slots:
        groups.setdefault(slot.group, []).append(slot)
    names = list(groups)
    wish.rng.shuffle(names)
    for name in sorted(names, key=names_rows):
        yield name, groups[name], spread(wish.rng, groups[name])


def names_rows(name: str) -> bool:
    """Whether a column of this name tells rows apart and means nothing else: such values are altered last."""
    return _ID.search(name) is not None


def _numbers(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    for name, _, few in _columns(layout, wish):
        for slot in few:
            new = shifted(text[slot.start : slot.end], wish.tolerance)
            if new is not None:
                yield _put(text, slot, new, name)


def _texts(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    for name, slots, few in _columns(layout, wish):
        for slot in few:
            raw = text[slot.start : slot.end]
            if shifted(raw) is None and not is_prose(raw):
                new = _FLIPS.get(raw) or _other(text, slots, raw, wish.rng)
                if new is not None:
                    yield _put(text, slot, new, name)


def _other(text: str, slots: list[Slot], raw: str, rng: Random) -> str | None:
    """A value that stands elsewhere in the same column."""
    few = rng.sample(slots, min(40, len(slots)))
    others = (text[slot.start : slot.end] for slot in few)
    return next((o for o in others if o.strip("\"' ") not in ("", "null", raw.strip("\"' ")) and not is_prose(o)), None)


def _nulls(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    for name, _, few in _columns(layout, wish):
        for slot in few[:1]:
            yield _put(text, slot, layout.null, name)


def _put(text: str, slot: Slot, new: str, name: str) -> tuple[str, str]:
    old = text[slot.start : slot.end]
    line = text.count("\n", 0, slot.start) + 1
    what = f"{name or 'value'} on line {line}: {_short(old)} became {_short(new) or 'empty'}"
    return what, text[: slot.start] + new + text[slot.end :]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:59] + "…"


def _drops(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    for part in spread(wish.rng, layout.parts):
        yield f"removed {_at(text, part)}", _without(text, [part.cut])


def _keys(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    for part in spread(wish.rng, layout.fields):
        yield f"removed {_at(text, part)}", _without(text, [part.cut])
    for name, cuts in spread(wish.rng, layout.columns):
        yield f"removed column {_short(name)}", _without(text, cuts)


def _duplicates(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    if layout.repeats:
        for part in spread(wish.rng, layout.parts):
            start, end = part.cut
            if (start, end) == (part.start, part.end):
                continue  # a lone row has no separator to go with it
            yield f"repeated {_at(text, part)}", text[:end] + text[start:end] + text[end:]


def _swaps(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    pairs = [(a, b) for a, b in pairwise(layout.parts) if a.box == b.box and a.end <= b.start]
    for a, b in spread(wish.rng, pairs):
        middle = text[a.end : b.start]
        new = text[: a.start] + text[b.start : b.end] + middle + text[a.start : a.end] + text[b.end :]
        yield f"swapped {_at(text, a)} and {_at(text, b)}", new


def _reverses(text: str, layout: Layout, wish: Wish) -> Iterator[tuple[str, str]]:
    groups: dict[int, list[Part]] = {}
    for part in layout.parts:
        groups.setdefault(part.box, []).append(part)
    for parts in spread(wish.rng, list(groups.values())):
        if all(a.end <= b.start for a, b in pairwise(parts)):
            yield f"reversed {parts[0].group or 'the rows'}", _reversed(text, parts)


def _reversed(text: str, parts: list[Part]) -> str:
    pieces, at = [], 0
    for place, part in zip(parts, reversed(parts), strict=True):
        pieces += [text[at : place.start], text[part.start : part.end]]
        at = place.end
    return "".join(pieces) + text[at:]


def _without(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in sorted(cuts):
        pieces.append(text[at:start])
        at = max(at, end)
    return "".join(pieces) + text[at:]


def _at(text: str, part: Part) -> str:
    return f"line {text.count(chr(10), 0, part.start) + 1} ({_short(text[part.start : part.end])})"
