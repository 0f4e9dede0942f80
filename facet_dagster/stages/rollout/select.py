"""Which accepted trajectories make a training set: one a task, families in balance, no skill too often, none twice.

The paper takes 1,200 of 1,270 and does not say which; this rule is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from facet_dagster.domain.ids import digest

Row = Mapping[str, Any]


def select(rows: Sequence[Row], *, limit: int, per_skill: int) -> tuple[list[Row], dict[str, int]]:
    """At most ``limit`` rows (0: all), and how many were left out for which reason. Pure, and in no order but its own.

    Of several attempts on a task the shortest is taken. A skill serves at most ``per_skill`` rows (0: any number).
    """
    left, best, seen = Counter[str](), dict[str, Row](), set[str]()
    for row in sorted(rows, key=lambda row: (row["tokens"], row["id"])):
        said = digest(row["messages"])
        if said in seen:
            left["the same words as another"] += 1
        elif row["task"] in best:
            left["another attempt on the task was shorter"] += 1
        else:
            best[row["task"]] = row
        seen.add(said)
    return _balanced(list(best.values()), limit, per_skill, left), dict(left)


def _balanced(rows: list[Row], limit: int, per_skill: int, left: Counter[str]) -> list[Row]:
    chosen, families, skills = list[Row](), Counter[str](), Counter[str]()
    waiting = sorted(rows, key=lambda row: digest(row["id"]))
    while waiting and not (limit and len(chosen) >= limit):
        row = min(waiting, key=lambda row: families[row["family"]])
        waiting.remove(row)
        if per_skill and any(skills[name] >= per_skill for name in row["skills"]):
            left["a skill of it is used often enough"] += 1
            continue
        chosen.append(row)
        families[row["family"]] += 1
        skills.update(row["skills"])
    left["over the limit"] += len(waiting)
    left += Counter()  # without zeros
    return sorted(chosen, key=lambda row: str(row["id"]))
