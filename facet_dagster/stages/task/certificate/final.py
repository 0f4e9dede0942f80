"""The final state that the solution left, and what becomes of it when files of it are altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from facet_dagster.domain.archive import Member, pack_members, unpack
from facet_dagster.domain.environment import WORKDIR
from facet_dagster.stages.task.package import initial_files
from facet_dagster.stages.task.trial import Left

_APP = WORKDIR.strip("/")


@dataclass(frozen=True)
class Final:
    """``outputs`` and ``initial`` map paths relative to /app to contents.

    ``outputs`` are the files that the instruction names, or that lie below a folder that it names, as the solution
    left them, unless they are as they were at the beginning.
    """

    left: Left
    members: Mapping[str, Member]
    outputs: Mapping[str, bytes]
    initial: Mapping[str, bytes]

    @classmethod
    def of(cls, left: Left, named: Sequence[str], e0_archive: bytes) -> Final:
        """``named`` are the outputs of the instruction, absolute. Raises ArchiveError when an archive is damaged."""
        members = unpack(left.app) if left.app else {}
        initial = initial_files(e0_archive)
        outputs = outputs_in(members, named)
        changed = {path: data for path, data in outputs.items() if initial.get(path) != data}
        return cls(left, members, changed, initial)

    def altered(self, changes: Mapping[str, bytes | None]) -> Left:
        """What would be left with other contents at some paths; None removes the file."""
        members = dict(self.members)
        for path, data in changes.items():
            name = f"{_APP}/{path}"
            if data is None:
                members.pop(name, None)
            else:
                members[name] = replace(members.get(name, Member("file")), data=data)
        return replace(self.left, app=pack_members(members))

    def differs(self, changes: Mapping[str, bytes | None]) -> bool:
        """Whether any of ``changes`` changes anything."""
        return any(self._data(path) != data for path, data in changes.items())

    def _data(self, path: str) -> bytes | None:
        member = self.members.get(f"{_APP}/{path}")
        return member.data if member and member.type == "file" else None


def outputs_in(members: Mapping[str, Member], named: Sequence[str]) -> dict[str, bytes]:
    """Regular files at the ``named`` paths (absolute) or below them: path relative to /app -> content."""
    wanted = [path.strip("/") for path in named]
    return {
        path.removeprefix(f"{_APP}/"): member.data
        for path, member in sorted(members.items())
        if member.type == "file" and any(path == name or path.startswith(f"{name}/") for name in wanted)
    }
