#!/usr/bin/env python3
"""Access log on standard input -> time, method, path, status, bytes, rt, upstream (tabs).

Rejected lines go to standard error as "line number<TAB>reason<TAB>raw".
"""
import re
import sys
from datetime import datetime, timezone
from urllib.parse import unquote, urlsplit

LINE = re.compile(
    r'^(\S+) \S+ (\S+) \[([^\]]*)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
    r' "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*" rt=(\d+\.\d+|-) up=(\S+)$'
)


def parse(line):
    match = LINE.match(line)
    if not match:
        return None, "no_match"
    _, _, stamp, request, status, size, took, upstream = match.groups()
    try:
        when = datetime.strptime(stamp, "%d/%b/%Y:%H:%M:%S %z").astimezone(timezone.utc)
    except ValueError:
        return None, "bad_time"
    parts = request.split(" ")
    if len(parts) != 3 or not all(parts):
        return None, "bad_request"
    if not 100 <= int(status) <= 599:
        return None, "bad_status"
    path = unquote(urlsplit(parts[1]).path)
    return (when.strftime("%Y-%m-%dT%H:%M:%SZ"), parts[0], path, status,
            "0" if size == "-" else size, took, upstream), ""


def main():
    for number, raw in enumerate(sys.stdin, 1):
        line = raw.rstrip("\r\n")
        if not line:
            continue
        fields, reason = parse(line)
        if fields:
            print("\t".join(fields))
        else:
            print(number, reason, line, sep="\t", file=sys.stderr)


if __name__ == "__main__":
    main()
