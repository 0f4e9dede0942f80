"""Times of a schedule, checked before anything runs by them: five cron fields, and names of time zones."""

from __future__ import annotations

from zoneinfo import ZoneInfo

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {
    "month": {name: place for place, name in enumerate(_MONTHS, 1)},
    "day of the week": {name: place for place, name in enumerate(_DAYS)},
}


def cron_problem(text: str) -> str:
    """What is wrong with five fields such as ``30 1 * * mon-fri``; empty when nothing is."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"{text!r} has {len(fields)} fields: give minute, hour, day, month and weekday, such as '0 2 * * *'"
    for field, (name, low, high) in zip(fields, _FIELDS, strict=True):
        for item in field.split(","):
            if not _fits(item, name, low, high):
                return f"{item!r} is no {name} of a cron schedule ({low} to {high}), such as '0 2 * * *'"
    return ""


def _fits(item: str, name: str, low: int, high: int) -> bool:
    span, slash, step = item.partition("/")
    if slash and not (step.isascii() and step.isdigit() and 0 < int(step) <= high):
        return False
    if span == "*":
        return True
    ends = [_number(end, name) for end in span.split("-")]
    return len(ends) <= 2 and low <= min(ends) and max(ends) <= high and ends == sorted(ends)


def _number(text: str, name: str) -> int:
    """-1 for what is none."""
    named = _NAMES.get(name, {}).get(text.lower())
    return named if named is not None else int(text) if text.isascii() and text.isdigit() else -1


def zone_problem(name: str) -> str:
    """What is wrong with a time zone such as ``Europe/Berlin``; empty when nothing is."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        return f"{name!r} is no time zone: give a name such as UTC or Europe/Berlin"
    except KeyError:
        return f"{name!r} is no time zone that is known here: give a name such as UTC or Europe/Berlin"
    return ""
