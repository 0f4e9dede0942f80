#!/usr/bin/env python3
"""Shift or stretch the times of one SRT file; result on standard output.

usage: shift.py FILE --offset MS
       shift.py FILE --points OLD=NEW OLD=NEW
"""
import re
import sys
from fractions import Fraction
from math import floor

TIME = re.compile(r"(\d+):(\d\d):(\d\d)[,.](\d{3})")


def to_ms(text):
    hours, minutes, seconds, millis = map(int, TIME.fullmatch(text.strip()).groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis


def to_text(ms):
    seconds, millis = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d},{millis:03d}"


def formula(args):
    if args[0] == "--offset":
        return Fraction(1), Fraction(int(args[1]))
    (t1, n1), (t2, n2) = [tuple(map(to_ms, pair.split("="))) for pair in args[1:3]]
    a = Fraction(n2 - n1, t2 - t1)
    return a, n1 - a * t1


def main(path, *args):
    a, b = formula(args)
    with open(path, encoding="utf-8-sig") as handle:
        blocks = re.split(r"\n\s*\n", handle.read().strip())
    cues = []
    for block in blocks:
        lines = block.split("\n")
        at = next(i for i, line in enumerate(lines) if "-->" in line)
        start, end = (floor(a * to_ms(t) + b + Fraction(1, 2)) for t in lines[at].split("-->"))
        if end > 0:
            cues.append((max(start, 0), end, lines[at + 1:]))
    cues.sort(key=lambda cue: cue[0])
    for number, (start, end, text) in enumerate(cues, 1):
        gap = "" if number == 1 else "\n"
        print(f"{gap}{number}\n{to_text(start)} --> {to_text(end)}\n" + "\n".join(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
