"""What differs between two states of a container, each an archive that the sandbox read. Pure."""

from __future__ import annotations

from typing import Literal

from facet_dagster.domain.archive import Member, unpack
from facet_dagster.domain.outcome import Value


class Change(Value):
    """One path that differs. ``size`` is that of the later state, in bytes; 0 for what was removed.

    ``what`` is ``content`` also for another target of a link, ``attributes`` for another mode or owner alone.
    """

    path: str
    what: Literal["added", "removed", "content", "type", "attributes"]
    size: int = 0


def changes(before: bytes, after: bytes) -> tuple[Change, ...]:
    """Every path that was added, removed or altered, in order; times do not count. Raises ArchiveError."""
    old, new = unpack(before), unpack(after)
    pairs = ((path, old.get(path), new.get(path)) for path in sorted({*old, *new}))
    found = ((path, _what(one, other), other) for path, one, other in pairs)
    return tuple(Change(path=path, what=what, size=m.size if m else 0) for path, what, m in found if what)


def _what(
    old: Member | None, new: Member | None
) -> Literal["added", "removed", "content", "type", "attributes"] | None:
    if old is None or new is None:
        return "added" if old is None else "removed"
    if old.type != new.type:
        return "type"
    if (old.data, old.link) != (new.data, new.link):
        return "content"
    return "attributes" if (old.mode, old.uid, old.gid) != (new.mode, new.uid, new.gid) else None
