"""Two certificates compared, and generators that run with other seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.domain.dockerfile import GENERATOR
from facet_dagster.domain.environment import DiscriminatorRow
from facet_dagster.domain.findings import Probe, wanted_reward
from facet_dagster.domain.outcome import Reason, reject
from facet_dagster.ports import BuildContext
from facet_dagster.stages.task.certificate.again import compared
from facet_dagster.stages.task.certificate.reseeding import lost_rows, salted

SOURCE = """import random
from dataclasses import dataclass


@dataclass
class Row:
    value: "int"


class Own(random.Random):
    pass


def line(rng):
    return str(Row(rng.randrange(10**9)).value)


if __name__ == "__main__":
    print(line(random.Random("a.csv")), line(random.Random("a.csv")), line(random.Random(7)), line(Own(b"x")))
"""


def probe(ident: str, reward: int | None, *failed: str, crashed: bool = False) -> Probe:
    kind: Any = ident.partition("/")[0]
    return Probe(
        id=ident, kind=kind, what="w", wanted=wanted_reward(ident), reward=reward, failed=failed, crashed=crashed
    )


def stored(reward: int | None, *failed: str, crashed: bool = False) -> dict[str, Any]:
    return {"reward": reward, "failed": failed, "crashed": crashed}


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (stored(1), probe("oracle/1", 1), []),
        (
            stored(1),
            probe("oracle/1", 0, "C4"),
            ["oracle/1 got reward 1 and now 0; checks that fail now: C4."],
        ),
        (stored(0, "C1"), probe("oracle/1", 0, "C2"), ["oracle/1: the checks that failed were C1 and are C2."]),
        (stored(1), probe("oracle/1", None, crashed=True), ["oracle/1: the program fails now."]),
        (stored(0, crashed=True), probe("oracle/1", 1, crashed=True), []),
    ],
)
def test_a_probe_is_compared_by_reward_checks_and_crash(before: dict[str, Any], now: Probe, told: list[str]) -> None:
    assert compared({"oracle/1": before}, (now,), None) == told


def test_what_was_not_reached_is_counted_and_what_is_new_is_named() -> None:
    before = {f"partial/{n}": stored(0) for n in range(5)}
    rejection = reject(Reason.TASK_FLAKY, "It is not the same.")
    assert compared(before, (probe("stale/1", 0),), rejection) == [
        "Not certified now, task.flaky: It is not the same.",
        "Not run again: partial/0, partial/1, partial/2 and 2 more.",
        "stale/1 is not in the certificate.",
    ]


def ran(source: bytes, folder: Path) -> list[str]:
    path = folder / "generate.py"
    path.write_bytes(source)
    done = subprocess.run([sys.executable, "-s", "-P", "-B", str(path)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_every_generator_gets_another_seed_and_equal_seeds_stay_equal(tmp_path: Path) -> None:
    context = BuildContext({GENERATOR: SOURCE.encode(), "Dockerfile": b"FROM x"})
    plain = ran(SOURCE.encode(), tmp_path)
    one, again, other = (ran(salted(context, n).files[GENERATOR], tmp_path) for n in (1, 1, 2))
    assert one == again
    assert [a != b != c for a, b, c in zip(plain, one, other, strict=True)] == [True] * 4
    assert all(found[0] == found[1] for found in (plain, one, other))
    assert salted(context, 1).files["Dockerfile"] == b"FROM x"


def test_a_row_is_lost_when_its_mark_stood_there_before() -> None:
    rows = [
        DiscriminatorRow(id="D1", path="a.csv", find="4,east"),
        DiscriminatorRow(id="D2", path="a.csv", find="never there"),
        DiscriminatorRow(id="D3", path="a.csv", find="9,west"),
    ]
    before, after = {"a.csv": b"4,east,\n9,west,\n"}, {"a.csv": b"4,east,\n7,west,\n"}
    assert [row.id for row in lost_rows(rows, before, after)] == ["D3"]
