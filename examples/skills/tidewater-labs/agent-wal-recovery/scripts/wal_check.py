#!/usr/bin/env python3
"""Print "line<TAB>class<TAB>seq" for every line of a write-ahead log.

Classes: good, corrupt, torn. Ordering and duplicates are left to the caller.
"""
import json
import sys
import zlib


def checksum(record):
    body = {k: v for k, v in record.items() if k != "crc"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return format(zlib.crc32(text.encode("utf-8")), "08x")


def classify(raw, is_last):
    ended = raw.endswith(b"\n")
    try:
        record = json.loads(raw.decode("utf-8"))
        if not isinstance(record, dict):
            raise ValueError("not an object")
    except ValueError:
        return ("torn" if is_last and not ended else "corrupt"), ""
    good = record.get("crc") == checksum(record)
    return ("good" if good else "corrupt"), record.get("seq", "")


def main(path):
    with open(path, "rb") as handle:
        lines = handle.readlines()
    for number, raw in enumerate(lines, 1):
        label, seq = classify(raw, number == len(lines))
        print(number, label, seq, sep="\t")


if __name__ == "__main__":
    main(sys.argv[1])
