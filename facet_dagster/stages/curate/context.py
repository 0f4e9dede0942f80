"""Where in a skill a suspicious phrase stands: quoted or direct, warned against or given as an order."""

from __future__ import annotations

import re
from functools import cached_property

from facet_dagster.stages.curate.parse import Parsed

SECURITY = re.compile(
    r"(?i)secur|malware|malicious|inject|threat|pen-?test|red[ -]?team|exploit|vulnerab|forensic|\bctf\b|jailbreak"
    r"|adversar|phish|\bvet(?:ter|ting|s)?\b|guard|firewall|harden|\baudit|sandbox|\bsafety\b|attack|defen[cs]|screening|scanner|安全|注入|攻击"
)
WARNING = re.compile(
    r"(?i)never|do not|don't|must not|avoid|malicious|dangerous|suspicious|unsafe|detect|red flag"
    r"|block(?:ed|s)?\b|attack|reject"
    r"|inject|attempt|refuse|forbid|untrusted|adversar|jailbreak|exploit|scan(?:s|ner)?\b|flag(?:s|ged)?\b|\bbad\b|risk"
    r"|phrases? like|such as|pattern|payload|threat|禁止|危险|恶意|注入|攻击|检测|⚠|❌|🚫"
)
QUOTES = "\"'`\u201c\u201d\u2018\u2019\u300c\u300d\u00ab\u00bb"
BEFORE = 6


class Context:
    """Answers questions about matches in the masked text of one skill."""

    def __init__(self, parsed: Parsed) -> None:
        self.text = parsed.text
        self.folded = parsed.text.casefold()
        self.about_security = bool(SECURITY.search(f"{parsed.name} {parsed.title} {parsed.description}"))

    def line(self, match: re.Match[str]) -> str:
        """The line of the match, at most 200 characters."""
        start, end = self._bounds(match)
        return self.text[start:end].strip()[:200]

    def paragraph(self, match: re.Match[str]) -> str:
        start = self.text.rfind("\n\n", 0, match.start()) + 1
        end = self.text.find("\n\n", match.end())
        return self.text[start : end if end >= 0 else len(self.text)]

    def quoted(self, match: re.Match[str]) -> bool:
        """In a code block, block quote, table row, inline code or quotation marks. A comment is no quotation."""
        start, end = self._bounds(match)
        line = self.text[start:end]
        if self._in_code(match.start()) or line.lstrip().startswith((">", "|")):
            return True
        before, after = self.text[start : match.start()], self.text[match.end() : end]
        opens = [q for q in QUOTES if q in before[-40:] and not (q == "'" and re.search(r"\w'\w", before[-40:]))]
        return bool(opens) and any(q in after for q in QUOTES)

    def warned(self, match: re.Match[str]) -> bool:
        """Whether the line, the lines above it or its section's heading speak of an attack or forbid it.

        The title does not count: whoever titles a skill "detector" may still give orders in it.
        """
        start, end = self._bounds(match)
        above = [line for line in self.text[:start].split("\n") if not line.startswith("# ")]
        heading = next((line for line in reversed(above) if line.startswith("#")), "")
        line = self.text[start : match.start()] + " " + self.text[match.end() : end]
        return bool(WARNING.search("\n".join([*above[-BEFORE:], heading, line])))

    def excused_command(self, match: re.Match[str]) -> bool:
        """A security skill that shows an attack, or anyone who warns of it."""
        return self.warned(match) if not self.about_security else self.quoted(match) or self.warned(match)

    def excused_words(self, match: re.Match[str]) -> bool:
        """Words to a model are excused where they are quoted as an attack."""
        if self._in_comment(match.start()):
            return False
        if self.quoted(match):
            return self.about_security or bool(WARNING.search(self.text))
        return self.warned(match)

    def _bounds(self, match: re.Match[str]) -> tuple[int, int]:
        end = self.text.find("\n", match.end())
        return self.text.rfind("\n", 0, match.start()) + 1, end if end >= 0 else len(self.text)

    def _in_comment(self, position: int) -> bool:
        shown = self.about_security and self._in_code(position)
        return not shown and self.text.rfind("<!--", 0, position) > self.text.rfind("-->", 0, position)

    def _in_code(self, position: int) -> bool:
        return any(start <= position < end for start, end in self._blocks)

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        blocks, opened, mark = [], -1, ""
        for match in re.finditer(r"(?m)^[ \t]*(`{3,}|~{3,})", self.text):
            if opened < 0:
                opened, mark = match.start(), match[1]
            elif match[1].startswith(mark):
                blocks.append((opened, match.end()))
                opened = -1
        if opened >= 0:
            blocks.append((opened, len(self.text)))
        return blocks
