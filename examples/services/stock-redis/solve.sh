#!/bin/bash
set -euo pipefail
cd /app
mkdir -p out
# Deliveries are booked once: the report is written last.
if [ -e out/report.json ]; then exit 0; fi
python3 - <<'PY'
import csv, json, subprocess

def redis(*words):
    done = subprocess.run(["redis-cli", "--json", *map(str, words)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)

def keys(pattern):
    done = subprocess.run(["redis-cli", "--scan", "--pattern", pattern], capture_output=True, text=True, check=True)
    return sorted(done.stdout.split())

merged = 0
for key in keys("item:*"):
    code = key.removeprefix("item:")
    if code == code.upper():
        continue
    merged += 1
    target = f"item:{code.upper()}"
    if redis("exists", target):
        redis("hincrby", target, "quantity", redis("hget", key, "quantity"))
        redis("del", key)
    else:
        redis("rename", key, target)

booked = 0
rejected = []
with open("data/deliveries.csv", newline="") as rows:
    for line, row in enumerate(csv.DictReader(rows), 2):
        code, text = row["code"].strip().upper(), row["quantity"].strip()
        if not text.isdigit() or int(text) == 0 or not redis("exists", f"item:{code}"):
            rejected.append(f"{line}:{code}")
            continue
        redis("hincrby", f"item:{code}", "quantity", text)
        booked += 1
redis("del", "rejected", "codes", "low")
for entry in rejected:
    redis("rpush", "rejected", entry)

items = [key.removeprefix("item:") for key in keys("item:*")]
for code in items:
    redis("sadd", "codes", code)
    quantity, reorder = (int(redis("hget", f"item:{code}", name)) for name in ("quantity", "reorder"))
    if quantity < reorder:
        redis("zadd", "low", quantity, code)
for key in keys("tmp:*"):
    redis("del", key)

report = {"items": len(items), "merged": merged, "booked": booked, "rejected": len(rejected)}
with open("out/report.json", "w") as out:
    json.dump(report, out)
PY
