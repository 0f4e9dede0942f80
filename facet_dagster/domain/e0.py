"""The captured initial state, made from archives that the engine read out of a never-started container.

Every fact comes from the image itself, so that what a generator wrote is seen like everything else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from facet_dagster.domain.archive import Member, unpack
from facet_dagster.domain.environment import E0, WORKDIR, DiscriminatorRow, E0File
from facet_dagster.domain.formats import count_lines, decode, inner_facts, newline_of, searchable, text_facts

WHOLE = 6_000
HEAD = 3_000
TAIL = 1_500
LINE = 300
# Package -> commands worth telling about. Python comes from the base image, in whatever way.
TOOLS: Mapping[str, tuple[str, ...]] = {
    "auditd": ("ausearch",),
    "bash": ("bash",),
    "bc": ("bc",),
    "coreutils": ("sort", "join", "comm", "sha256sum", "date"),
    "csvkit": ("csvkit",),
    "curl": ("curl",),
    "diffutils": ("diff", "cmp"),
    "ffmpeg": ("ffmpeg",),
    "file": ("file",),
    "findutils": ("find", "xargs"),
    "gawk": ("gawk",),
    "git": ("git",),
    "graphviz": ("dot",),
    "grep": ("grep",),
    "gzip": ("gzip", "zcat"),
    "imagemagick": ("convert",),
    "jq": ("jq",),
    "libxml2-utils": ("xmllint",),
    "mawk": ("mawk",),
    "miller": ("mlr",),
    "nginx": ("nginx",),
    "pandoc": ("pandoc",),
    "perl-base": ("perl",),
    "poppler-utils": ("pdftotext",),
    "postgresql-client-common": ("psql",),
    "redis-tools": ("redis-cli",),
    "sed": ("sed",),
    "sqlite3": ("sqlite3",),
    "tar": ("tar",),
    "unzip": ("unzip",),
    "xmlstarlet": ("xmlstarlet",),
    "xxd": ("xxd",),
    "xz-utils": ("xz",),
    "zip": ("zip",),
}


def e0_from_archive(
    archive: bytes,
    *,
    status: Member | None = None,
    rows: Sequence[DiscriminatorRow] = (),
    env: Mapping[str, str] | None = None,
    user: str = "",
    image_id: str = "",
    base_image: str = "",
) -> E0:
    """E0 from the archive of /app (names begin with ``app``) and the file /var/lib/dpkg/status.

    Raises ArchiveError when the archive is damaged.
    """
    members = {_absolute(path): member for path, member in unpack(archive).items()}
    versions = installed(status.data.decode("utf-8", "replace")) if status else {}
    present = {tool: versions[package] for package, tools in TOOLS.items() if package in versions for tool in tools}
    return E0(
        workdir=WORKDIR,
        files=tuple(_file(path, members[path], _marks(path, rows)) for path in sorted(members)),
        tools=tuple(sorted({"python3", *present})),
        tool_versions=dict(sorted(present.items())),
        package_versions=dict(sorted(versions.items())),
        snapshot_date=f"{datetime.fromtimestamp(status.mtime, UTC):%Y-%m-%d}" if status else "",
        # Other variables differ between base images of one name without meaning anything for the work.
        env={name: value for name, value in sorted((env or {}).items()) if name in ("LANG", "LC_ALL", "TZ")},
        user=user,
        image_id=image_id,
        base_image=base_image,
    )


def installed(status: str) -> dict[str, str]:
    """Package -> version of every package that dpkg's status file calls installed."""
    found: dict[str, str] = {}
    for block in re.split(r"\n\n+", status):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", block, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed") and "Package" in fields:
            found[fields["Package"]] = fields.get("Version", "")
    return found


def _absolute(path: str) -> str:
    return "/" + path.strip("/")


def _marks(path: str, rows: Iterable[DiscriminatorRow]) -> list[DiscriminatorRow]:
    return [row for row in rows if f"{WORKDIR}/{row.path}" == path]


def _file(path: str, member: Member, marks: Sequence[DiscriminatorRow]) -> E0File:
    kind = E0File(
        path=path, type=member.type, mode=f"{member.mode:04o}", uid=member.uid, gid=member.gid, size=member.size
    )
    if member.type == "link":
        return kind.model_copy(update={"content": member.link})
    if member.type != "file":
        return kind
    digest = hashlib.sha256(member.data).hexdigest()
    facts = _text(path, member.data) or {"encoding": "binary", "inner": inner_facts(path, member.data)}
    return kind.model_copy(update={"sha256": digest, **facts, "rows": _found(member.data, marks)})


def _text(path: str, data: bytes) -> dict[str, object] | None:
    encoding, text = decode(data)
    if text is None:
        return None
    whole = len(text) <= WHOLE
    return {
        "encoding": encoding,
        "newline": newline_of(text),
        "final_newline": text.endswith("\n"),
        "lines": count_lines(text),
        "content": text if whole else _ends(text),
        "truncated": not whole,
        "inner": text_facts(path, text),
    }


def _ends(text: str) -> str:
    left_out = len(text) - HEAD - TAIL
    return f"{text[:HEAD]}\n[... {left_out} characters left out ...]\n{text[-TAIL:]}"


def _found(data: bytes, marks: Sequence[DiscriminatorRow]) -> dict[str, str]:
    """Discriminator id -> the line that holds its mark; a mark that is nowhere is left out."""
    if not marks:
        return {}
    texts = list(searchable(data))
    lines = {mark.id: _line(texts, mark.find) for mark in marks}
    return {ident: line for ident, line in lines.items() if line is not None}


def _line(texts: Sequence[str], mark: str) -> str | None:
    for text in texts:
        at = text.find(mark)
        if at >= 0:
            begin = max(text.rfind("\n", 0, at) + 1, at - LINE)
            end = text.find("\n", at + len(mark))
            return text[begin : len(text) if end < 0 else end][: 2 * LINE].rstrip("\r")
    return None
