#!/usr/bin/env python3
"""Sort or compare semantic versions.

usage: semver.py sort V...     ascending, one a line
       semver.py cmp A B       prints -1, 0 or 1
"""
import re
import sys

FORM = re.compile(
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$"
)


def key(text):
    match = FORM.match(text)
    if not match:
        raise SystemExit(f"not a version: {text}")
    numbers = tuple(int(part) for part in match.group(1, 2, 3))
    if match.group(4) is None:
        return numbers, (1,)
    parts = []
    for part in match.group(4).split("."):
        parts.append((0, int(part), "") if part.isdigit() else (1, 0, part))
    return numbers, (0, tuple(parts))


def main(args):
    if args[:1] == ["sort"]:
        for text in sorted(args[1:], key=key):
            print(text)
    elif args[:1] == ["cmp"] and len(args) == 3:
        left, right = key(args[1]), key(args[2])
        print((left > right) - (left < right))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
