"""What is dropped before anything else reads a skill, and what is masked in the rest (paper, section 3.1).

A word list alone is a poor cleaner: about half of all texts with an attack in them are security skills
that quote it. So every hit is looked at in its place: quoted or not, and what the lines around it say.
"""

from __future__ import annotations

import re

from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.stages.curate.context import Context
from facet_dagster.stages.curate.parse import Parsed
from facet_dagster.stages.curate.patterns import (
    ARCHIVE,
    ASSIGNED_SECRET,
    EMAIL,
    INJECTION,
    KNOWN_HOSTS,
    LURE,
    NAMED_SECRET,
    PIPE,
    PIPED,
    PLACEHOLDER,
    PRIVATE_NEED,
    PRIVATE_URL,
    QUOTED_VALUE,
    SECRETS,
    UNSAFE,
)

BODY_CAP = 256 * 1024
LEAST_BODY = 60
PRIVATE_MENTIONS = 3


def redact(text: str) -> tuple[str, list[str]]:
    """``text`` with credentials and e-mail addresses masked, and notes that say so."""
    secrets = 0
    for sought in SECRETS:
        if sought.possible(text, text):
            text, count = sought.pattern.subn(lambda match: f"{match[1] if match.re.groups else ''}REDACTED", text)
            secrets += count
    masked = NAMED_SECRET.sub(_named, text) if QUOTED_VALUE.search(text) else text
    if ASSIGNED_SECRET.possible(masked, masked):
        masked = ASSIGNED_SECRET.pattern.sub(_named, masked)
    secrets += masked != text
    text, addresses = _addresses(masked) if "@" in masked else (masked, 0)
    return text, [note for note, count in (("secret masked", secrets), ("address masked", addresses)) if count]


def _addresses(text: str) -> tuple[str, int]:
    """``text`` with its e-mail addresses masked, and how many: line by line, since few lines hold any."""
    lines, count = text.split("\n"), 0
    for number, line in enumerate(lines):
        if "@" in line:
            lines[number], found = EMAIL.subn("someone@example.com", line)
            count += found
    return "\n".join(lines), count


def _named(match: re.Match[str]) -> str:
    value = match[2]
    real = re.search(r"\d", value) and re.search(r"[A-Za-z]", value) and not PLACEHOLDER.search(value)
    return f"{match[1]}REDACTED" if real else match[0]


def oversized(size: int) -> Rejection | None:
    if size <= BODY_CAP:
        return None
    return reject(Reason.SKILL_OVERSIZED, f"The file has {size:,} bytes; at most {BODY_CAP:,} are read.", size=size)


def check(parsed: Parsed) -> Rejection | None:
    """The first reason to drop a parsed and masked skill, or None."""
    return _form(parsed) or _danger(parsed)


def _form(parsed: Parsed) -> Rejection | None:
    if why := _unreadable(parsed):
        return reject(Reason.SKILL_UNREADABLE, why)
    if not parsed.text.strip():
        return reject(Reason.SKILL_EMPTY, "The file is empty.")
    if not parsed.headed:
        return reject(Reason.SKILL_NO_TITLE, "There is neither front matter nor a heading, so nothing names the skill.")
    weight = _weight(parsed.body)
    if weight < LEAST_BODY:
        return reject(
            Reason.SKILL_EMPTY,
            f"Below its headings the body has {weight} characters; at least {LEAST_BODY} are needed.",
        )
    return None


def _weight(body: str) -> int:
    """Characters below the headings, comments left out; counted only until there are enough."""
    head, *rest = body.split("<!--")  # a regular expression would be quadratic in unclosed comments
    prose = head + "".join(part.partition("-->")[2] for part in rest)
    weight = 0
    for line in prose.split("\n"):
        if not line.lstrip().startswith("#"):
            dense = re.sub(r"\s+", "", line)
            weight += len(dense) + len(re.findall("[\u2e80-\uffef]", dense))  # such a character says as much as two
        if weight >= LEAST_BODY:
            break
    return weight


def _unreadable(parsed: Parsed) -> str:
    text = parsed.text.strip()
    if parsed.damaged > 0.02:
        return f"{parsed.damaged:.0%} of the characters cannot be decoded or are control characters."
    if "LIBARCHIVE.xattr" in text[:400] or text.startswith("PK\x03\x04"):
        return "The file is an archive's header, not text."
    if "\n" not in text and re.fullmatch(r"[.\w@/\\+ -]*[/\\][\w.@+ -]+", text):
        return "The file is only a link to another file."
    if re.match(r"(?i)<!doctype html|<html", text):
        return "The file is an HTML page, not Markdown."
    return ""


def _danger(parsed: Parsed) -> Rejection | None:
    context = Context(parsed)
    if hit := _unsafe(context):
        what, line = hit
        return reject(Reason.SKILL_UNSAFE, f"The skill {what}.", line=line)
    for pattern in INJECTION:
        for match in pattern.finditer(context.text, context.folded):
            if not context.excused_words(match):
                line = context.line(match)
                return reject(Reason.SKILL_INJECTION, "The text gives orders to the model that reads it.", line=line)
    return _private(context)


def _unsafe(context: Context) -> tuple[str, str] | None:
    text = context.text
    for match in ARCHIVE.finditer(text, context.folded):
        if LURE.search(context.paragraph(match)) and not (context.quoted(match) and context.warned(match)):
            return "has the reader run a download from a password-protected archive", context.line(match)
    for what, pattern in UNSAFE:
        for match in pattern.finditer(text, context.folded):
            if not context.excused_command(match):
                return what, context.line(match)
    for match in PIPE.finditer(text, context.folded) if PIPED.search(context.folded) else ():
        host = (match["host"] or match["host2"] or match["host3"]).lower()
        if not _known(host) and not context.excused_command(match):
            return f"pipes a download from {host} into a shell", context.line(match)
    return None


def _known(host: str) -> bool:
    return any(host == known or host.endswith("." + known) for known in KNOWN_HOSTS)


def _private(context: Context) -> Rejection | None:
    hosts = [match["host"].lower() for match in PRIVATE_URL.finditer(context.text, context.folded)]
    first = max(set(hosts), key=lambda host: (hosts.count(host), host), default="")
    # One mention of each of several hosts is an example; the same host again is where the skill works.
    needed = len(hosts) >= PRIVATE_MENTIONS or hosts.count(first) > 1
    if needed and not context.about_security:
        return reject(
            Reason.SKILL_PRIVATE_NETWORK,
            f"It works only where private hosts answer ({first} and others, {len(hosts)} mentions).",
            hosts=sorted(set(hosts))[:5],
        )
    for match in PRIVATE_NEED.finditer(context.text, context.folded):
        if not context.quoted(match):
            return reject(Reason.SKILL_PRIVATE_NETWORK, "It needs a company network or VPN.", line=context.line(match))
    return None
