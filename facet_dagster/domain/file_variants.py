"""Wrong and equal versions of the files that a task's work leaves, and final states that need no work. Pure.

A fair verifier refuses every mutant and every attack, and accepts every equivalent that its instruction does not
forbid. The bytes are hostile; nothing here raises because of them, and equal arguments give equal results.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from random import Random

from facet_dagster.domain.findings import Variant
from facet_dagster.domain.formats import decode
from facet_dagster.domain.variants.edits import Wish
from facet_dagster.domain.variants.files import Change, altered, respelled, says_same, suffix_of

MOST = 3  # mutants a file
_BARE = {"json": b"{}\n", "xml": b"<root/>\n", "html": b"<html></html>\n", "md": b"#\n", "sqlite": b"", "db": b""}
_WORDS = 20_000


def mutants(
    path: str,
    data: bytes,
    *,
    free_text: bool = False,
    tolerance: float = 0.0,
    ordered: bool = False,
    before: bytes | None = None,
) -> tuple[Variant, ...]:
    """At most three wrong versions of a final file, most telling first; each says something else than ``data``.

    ``free_text``: only what is gone or was not done is wrong. ``tolerance`` is that of its numbers, in their unit;
    ``ordered`` says that the order of rows is required; ``before`` is the file as the work found it.
    """
    path = path.removeprefix("/app/")
    wish = Wish(Random(path), tolerance, ordered)  # noqa: S311 - choices, no secrets
    found = [] if free_text else list(islice(altered(path, data, wish), MOST))
    if before is not None and not says_same(path, before, data):
        place = 1 if found and found[0][0] == "number" else 0
        found.insert(place, ("before", "the file as it was before the work", before))
    if data.strip():
        found.append(("empty", "an empty file", b""))
    return _variants("mutant", path, data, found)[:MOST]


def equivalents(path: str, data: bytes) -> tuple[Variant, ...]:
    """Other spellings of the same content; parsed, each equals ``data``."""
    path = path.removeprefix("/app/")
    return _variants("equivalent", path, data, list(respelled(path, data)))


def _variants(prefix: str, path: str, data: bytes, changes: Sequence[Change]) -> tuple[Variant, ...]:
    """Without those that are equal to ``data`` or to an earlier one."""
    made: dict[bytes, Variant] = {}
    for kind, what, new in changes:
        made.setdefault(new, _variant(prefix, path, kind, what, new))
    made.pop(data, None)
    return tuple(made.values())


def _variant(prefix: str, path: str, kind: str, what: str, data: bytes | None) -> Variant:
    return Variant(id=f"{prefix}:{path}:{kind}", path=path, kind=kind, what=what, data=data)


def choose(per_file: Mapping[str, tuple[Variant, ...]], most: int = 20) -> tuple[Variant, ...]:
    """The first of every file, then the second of every file, and so on; empty files come after all others."""
    telling = [[v for v in per_file[path] if v.kind != "empty"] for path in sorted(per_file)]
    floor = [v for path in sorted(per_file) for v in per_file[path] if v.kind == "empty"]
    longest = max(map(len, telling), default=0)
    chosen = [row[turn] for turn in range(longest) for row in telling if turn < len(row)] + floor
    unique: dict[str, Variant] = {}
    for variant in chosen:
        unique.setdefault(variant.id, variant)
    return tuple(unique.values())[: max(most, 0)]


def partials(outputs: Sequence[str]) -> tuple[Variant, ...]:
    """For each output the final state without it."""
    paths = dict.fromkeys(path.removeprefix("/app/") for path in outputs)
    return tuple(_variant("partial", path, "removed", f"{path} is missing", None) for path in paths)


def trivial_attacks(
    outputs: Sequence[str], inputs: Mapping[str, bytes], instruction: str = ""
) -> tuple[tuple[str, Mapping[str, bytes]], ...]:
    """(name, files) of final states that need no work: nothing, copies of inputs, bare shells, the task's own words."""
    paths = list(dict.fromkeys(path.removeprefix("/app/") for path in outputs))
    if not paths:
        return ()
    copies = {path: copy for path in paths if (copy := _copy(path, inputs)) is not None}
    bare = {path: _packed(path, _shell(path, inputs, instruction)) for path in paths}
    lists = {path: _packed(path, b"[]\n") if suffix_of(path) == "json" else bare[path] for path in paths}
    words = instruction.encode()[:_WORDS].strip() + b"\n"
    attacks: list[tuple[str, Mapping[str, bytes]]] = [("empty", dict.fromkeys(paths, b""))]
    attacks += [("input_copy", copies)] if copies else []
    attacks += [("bare", bare)] + ([("bare_list", lists)] if lists != bare else [])
    if instruction.strip():
        attacks.append(("instruction_words", {path: _packed(path, words) for path in paths}))
    return tuple(attacks)


def _copy(path: str, inputs: Mapping[str, bytes]) -> bytes | None:
    """The largest input of the same suffix, else the largest text."""
    alike = [data for name, data in sorted(inputs.items()) if _suffix(name) == _suffix(path)]
    texts = [data for _, data in sorted(inputs.items()) if decode(data)[1] is not None]
    return max(alike or texts, key=len, default=None)


def _suffix(path: str) -> str:
    return path.rpartition("/")[2].lower().rpartition(".")[2]


def _shell(path: str, inputs: Mapping[str, bytes], instruction: str) -> bytes:
    """What a file of its kind holds before any content: a header that stands somewhere, or an empty object."""
    suffix = suffix_of(path)
    if suffix not in ("csv", "tsv"):
        return _BARE.get(suffix, b"\n")
    mark = "\t" if suffix == "tsv" else ","
    named = [span for span in re.findall(r"`([^`\n]+)`", instruction) if mark in span]
    alike = [data for name, data in sorted(inputs.items()) if _suffix(name) == suffix]
    first = alike[0].partition(b"\n")[0].strip() if alike else b"id"
    return (max(named, key=lambda span: span.count(mark)).encode() if named else first) + b"\n"


def _packed(path: str, data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if path.lower().endswith(".gz") else data
