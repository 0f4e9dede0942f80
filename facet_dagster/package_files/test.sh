#!/bin/bash
# Runs every check. Whatever happens, exactly one reward is written; the exit code means nothing.
logs=/logs/verifier
mkdir -p "$logs"
rm -f "$logs/reward.txt" "$logs/reward.json" "$logs/checks.json"
python3 -I /tests/run_checks.py
if [ ! -s "$logs/reward.txt" ]; then
    printf 0 > "$logs/reward.txt.part" && mv "$logs/reward.txt.part" "$logs/reward.txt"
fi
exit 0
