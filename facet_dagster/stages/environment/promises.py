"""Does the captured initial state keep what the manifest promised? Problems are sentences for a repair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from facet_dagster.domain.dockerfile import codec
from facet_dagster.domain.environment import E0, WORKDIR, DiscriminatorRow, E0File, ManifestReply, PlannedFile

# What a file of a promised encoding may turn out to be: ASCII is a part of all of them.
_ACCEPTED = {
    "utf-8": {"ascii", "utf-8"},
    "ascii": {"ascii"},
    "utf-8-sig": {"utf-8-sig"},
    "cp1252": {"cp1252"},
    "iso8859-1": {"cp1252"},
}
_BINARY = ("binary", "none", "")


def promise_problems(
    e0: E0, manifest: ManifestReply, outputs: Sequence[str], rows: Iterable[DiscriminatorRow]
) -> list[str]:
    """Every broken promise, in the manifest's order."""
    files = {file.path: file for file in e0.files}
    found = [
        f"{output} exists before the work starts; nothing may create it at build."
        for output in outputs
        if output in files
    ]
    for plan in manifest.files:
        found += _file_problems(plan, files.get(f"{WORKDIR}/{plan.path}"))
    return found + [
        f"The mark {row.find!r} of discriminator {row.id} is nowhere in {row.path}; add the row or correct the mark."
        for row in rows
        if row.id not in getattr(files.get(f"{WORKDIR}/{row.path}"), "rows", {})
    ]


def _file_problems(plan: PlannedFile, file: E0File | None) -> Iterator[str]:
    if file is None:
        maker = "the generator did not write it" if plan.how == "generated" else "it is missing from the image"
        yield f"{plan.path} is planned and {maker}."
    elif file.type != "file":
        yield f"{plan.path} must be a regular file and is a {file.type}."
    elif not file.size and plan.rows:
        yield f"{plan.path} is empty; about {plan.rows} rows are planned."
    elif file.size and plan.encoding.strip().lower() not in _BINARY and not file.inner.get("members"):
        yield from _text_problems(plan, file)


def _text_problems(plan: PlannedFile, file: E0File) -> Iterator[str]:
    if file.encoding == "binary":
        if not file.inner:
            yield f"{plan.path} is planned as {plan.encoding} text and holds binary data."
        return
    wanted = codec(plan.encoding)
    wanted = "utf-16" if wanted.startswith("utf-16") else wanted
    if file.encoding not in _ACCEPTED.get(wanted, {wanted}):
        yield f"{plan.path} is planned as {plan.encoding} and is {file.encoding}{_hint(wanted, file)}."
    if plan.newline in ("lf", "crlf") and file.newline not in (plan.newline, "none"):
        yield f"{plan.path} is planned with {plan.newline} line ends and has {file.newline}."
    if plan.newline == "mixed" and file.newline != "mixed":
        yield f"{plan.path} is planned with mixed line ends and has {file.newline}."


def _hint(wanted: str, file: E0File) -> str:
    if wanted in ("cp1252", "iso8859-1") and file.encoding == "ascii":
        return "; add a character that shows the encoding, such as € or é"
    return ""
