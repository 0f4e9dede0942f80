#!/usr/bin/env python3
"""List level, slug and text of the headings of one Markdown file (tab-separated)."""
import re
import sys

HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")


def slug(text):
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"[`*]", "", text)
    text = re.sub(r"(?<!\w)_+|_+(?!\w)", "", text).lower()
    kept = "".join(c for c in text if c.isalnum() or c in " -_")
    return kept.replace(" ", "-") or "section"


def headings(lines):
    fence, comment, seen = "", False, set()
    for line in lines:
        mark = FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if comment or line.lstrip().startswith("<!--"):
            comment = "-->" not in line
            continue
        if mark:
            fence = mark.group(1)
            continue
        match = HEADING.match(line)
        if match:
            base = name = slug(match.group(2))
            count = 0
            while name in seen:
                count += 1
                name = f"{base}-{count}"
            seen.add(name)
            yield len(match.group(1)), name, match.group(2)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8-sig") as handle:
        for level, name, text in headings(handle.read().splitlines()):
            print(level, name, text, sep="\t")
