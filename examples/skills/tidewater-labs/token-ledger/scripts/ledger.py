#!/usr/bin/env python3
"""usage.jsonl + prices.csv -> ledger rows on standard output (rules R1 to R5)."""
import csv
import json
import sys
from decimal import Decimal

FIELDS = ["call_id", "at", "agent", "model", "in", "cached", "out", "status", "cost"]


def load_prices(path):
    table = {}
    with open(path, newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            table.setdefault(row["model"], []).append(row)
    for rows in table.values():
        rows.sort(key=lambda r: r["valid_from"])
    return table


def price_at(rows, at):
    hit = None
    for row in rows:
        if row["valid_from"] <= at[:10]:
            hit = row
    return hit


def count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def main(usage, prices):
    table, calls = load_prices(prices), {}
    with open(usage, encoding="utf-8") as handle:
        for line in handle:
            if line.strip():
                call = json.loads(line)
                old = calls.get(call["call_id"])
                if old is None or (count(call["out"]) and count(old["out"]) and call["out"] > old["out"]):
                    calls[call["call_id"]] = call
    out = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    out.writeheader()
    for call in sorted(calls.values(), key=lambda c: (c["at"], c["call_id"])):
        cached, status, cost = call.get("cached", 0), "ok", Decimal(0)
        price = price_at(table.get(call["model"], []), call["at"])
        if not all(map(count, (call["in"], call["out"], cached))) or cached > call["in"]:
            status = "invalid"
        elif price is None:
            status = "unpriced"
        else:
            cost = ((call["in"] - cached) * Decimal(price["in_per_m"])
                    + cached * Decimal(price["cached_per_m"])
                    + call["out"] * Decimal(price["out_per_m"])) / 1000000
        row = {name: call.get(name) for name in FIELDS[:7]}
        row.update(cached=cached, status=status, cost=format(cost, "f"))
        out.writerow(row)


if __name__ == "__main__":
    main(*sys.argv[1:3])
