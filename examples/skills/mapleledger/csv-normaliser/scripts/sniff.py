#!/usr/bin/env python3
"""Report encoding, BOM, newline kind, delimiter and width of CSV files as JSON lines."""
import csv
import io
import json
import sys
from collections import Counter


def decode(raw):
    bom = raw.startswith(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8-sig"), "utf-8", bom
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace"), "cp1252", False


def sniff(text):
    best = (0, 0, ",", 1)
    for rank, mark in enumerate(";\t|,"):
        rows = []
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark):
            if any(cell.strip() for cell in row):
                rows.append(len(row))
            if len(rows) == 20:
                break
        widths = Counter(n for n in rows if n > 1)
        if widths:
            width, votes = widths.most_common(1)[0]
            best = max(best, (votes, -rank, mark, width))
    return best[2], best[3]


for path in sys.argv[1:]:
    with open(path, "rb") as handle:
        raw = handle.read()
    text, encoding, bom = decode(raw)
    crlf, lf = raw.count(b"\r\n"), raw.count(b"\n")
    newline = "none" if not lf else "crlf" if crlf == lf else "lf" if not crlf else "mixed"
    delimiter, width = sniff(text)
    print(json.dumps({"file": path, "encoding": encoding, "bom": bom, "newline": newline,
                      "delimiter": delimiter, "width": width}))
