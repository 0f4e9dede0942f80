#!/usr/bin/env python3
"""Median, MAD and outliers for each batch; JSON lines on standard output."""
import csv
import json
import sys
from collections import OrderedDict
from statistics import mean, median


def z_scores(values):
    centre = median(values)
    spread = [abs(x - centre) for x in values]
    mad = median(spread)
    if mad:
        return centre, mad, [0.6745 * (x - centre) / mad for x in values]
    scale = 1.253314 * mean(spread)
    return centre, mad, [(x - centre) / scale if scale else 0.0 for x in values]


def main(data, limits):
    with open(limits, newline="", encoding="utf-8") as handle:
        limit = {r["batch"]: float(r["detection_limit"]) for r in csv.DictReader(handle)}
    batches, missing = OrderedDict(), {}
    with open(data, newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            if row["flag"] == "C":
                continue
            samples = batches.setdefault(row["batch"], OrderedDict())
            if row["flag"] == "L":
                value = limit[row["batch"]] / 2 if row["batch"] in limit else None
            else:
                value = float(row["value"]) if row["value"].strip() else None
            if value is None:
                missing[row["batch"]] = missing.get(row["batch"], 0) + 1
            else:
                samples.setdefault(row["sample"], []).append(value)
    for batch, samples in batches.items():
        values = [median(v) for v in samples.values()]
        record = {"batch": batch, "n": len(values), "missing": missing.get(batch, 0)}
        if values:
            centre, mad, scores = z_scores(values)
            record.update(median=round(centre, 6), mad=round(mad, 6), outliers=[])
            if len(values) >= 5:
                record["outliers"] = [s for s, z in zip(samples, scores) if abs(z) > 3.5]
        print(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:3])
