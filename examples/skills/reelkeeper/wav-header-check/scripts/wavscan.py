#!/usr/bin/env python3
"""Walk the chunks of RIFF/WAVE files and print what the headers claim."""
import struct
import sys


def scan(path):
    with open(path, "rb") as handle:
        raw = handle.read()
    print(f"{path}: {len(raw)} bytes")
    if raw[:4] != b"RIFF" or raw[8:12] != b"WAVE":
        print("  not RIFF/WAVE")
        return
    (size,) = struct.unpack_from("<I", raw, 4)
    print(f"  RIFF size {size}, expected {len(raw) - 8}")
    at = 12
    while at + 8 <= len(raw):
        name = raw[at:at + 4]
        (size,) = struct.unpack_from("<I", raw, at + 4)
        left = len(raw) - at - 8
        note = "" if size <= left else f"  BEYOND END, {left} bytes left"
        print(f"  {at:8d} {name!r} {size}{note}")
        if name == b"fmt " and size >= 16 and left >= 16:
            names = ("format", "channels", "rate", "byte_rate", "block_align", "bits")
            fields = dict(zip(names, struct.unpack_from("<HHIIHH", raw, at + 8)))
            print("           " + ", ".join(f"{k} {v}" for k, v in fields.items()))
        at += 8 + size + (size & 1)
    if at < len(raw):
        print(f"  {len(raw) - at} bytes after the last chunk")


for name in sys.argv[1:]:
    scan(name)
