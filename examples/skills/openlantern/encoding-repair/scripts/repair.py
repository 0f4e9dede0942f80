#!/usr/bin/env python3
"""Write a repaired UTF-8 copy of one text file to standard output (steps 1 to 5)."""
import sys

MARKERS = ("\u00c3", "\u00c2", "\u00e2\u20ac")


def score(text):
    return sum(text.count(mark) for mark in MARKERS)


def unmojibake(line):
    for _ in range(2):
        if not score(line):
            break
        try:
            fixed = line.encode("cp1252").decode("utf-8")
        except UnicodeError:
            fixed = " ".join(try_word(word) for word in line.split(" "))
        if score(fixed) >= score(line):
            break
        line = fixed
    return line


def try_word(word):
    try:
        return word.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return word


def decode(raw):
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    if b"\0" in raw:
        raise SystemExit("binary file")
    lines = []
    for line in raw.split(b"\n"):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            lines.append(line.decode("cp1252", errors="replace"))
    return "\n".join(lines)


def main(path):
    with open(path, "rb") as handle:
        text = decode(handle.read())
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "\n".join(unmojibake(line) for line in text.split("\n"))
    if text.startswith("\ufeff"):
        text = text[1:]
    text = "".join(
        "\u2060" if ch == "\ufeff" and text[i - 1 : i].isalpha() and text[i + 1 : i + 2].isalpha()
        else "" if ch == "\ufeff" else ch
        for i, ch in enumerate(text)
    )
    sys.stdout.buffer.write(text.encode("utf-8"))


if __name__ == "__main__":
    main(sys.argv[1])
