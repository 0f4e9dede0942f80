"""The runner that ships inside every task package, run as it runs there: isolated, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.stages.task.package import SHIPPED

HEAD = "CHECKS = []\ndef add(id, run, needs=(), rid='R1'):\n    CHECKS.append({'id': id, 'rid': rid, 'title': id, "
HEAD += "'invariant': False, 'depends_on': list(needs), 'run': run})\n"
GOOD = "def good():\n    assert 1 + 1 == 2\n"
BAD = "def bad():\n    assert 1 == 2, 'one is not two'\n"


def run(tmp_path: Path, source: str, **env: str) -> tuple[list[dict[str, Any]], str, str]:
    """(entries of checks.json, reward.txt, standard output)."""
    tests, logs = tmp_path / "tests", tmp_path / "logs" / "verifier"
    tests.mkdir()
    (tests / "checks.py").write_text(source)
    argv = [sys.executable, "-I", str(SHIPPED / "run_checks.py"), str(tests), str(logs)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, check=True)
    assert sorted(path.name for path in logs.iterdir()) == ["checks.json", "reward.txt"]
    return json.loads((logs / "checks.json").read_text()), (logs / "reward.txt").read_text(), done.stdout


def statuses(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["id"]: entry["status"] for entry in entries}


def test_reward_is_one_when_every_check_passes(tmp_path: Path) -> None:
    entries, reward, out = run(tmp_path, HEAD + GOOD + "add('C1', good)\nadd('C2', good)\n")
    assert (statuses(entries), reward) == ({"C1": "pass", "C2": "pass"}, "1")
    assert "2 of 2 checks passed" in out


def test_one_failing_check_makes_the_reward_zero_and_the_others_still_run(tmp_path: Path) -> None:
    entries, reward, _ = run(tmp_path, HEAD + GOOD + BAD + "add('C1', bad)\nadd('C2', good)\n")
    assert (statuses(entries), reward) == ({"C1": "fail", "C2": "pass"}, "0")
    assert entries[0] == {"id": "C1", "rid": "R1", "status": "fail", "message": "one is not two"}


def test_a_check_that_returns_false_fails(tmp_path: Path) -> None:
    entries, reward, _ = run(tmp_path, HEAD + "def no():\n    return 1 == 2\nadd('C1', no)\n")
    assert (statuses(entries), reward) == ({"C1": "fail"}, "0")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    {}['x']", "KeyError"),
        ("    undefined_name", "NameError"),
        ("    raise SystemExit(0)", "SystemExit"),
        ("    raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("    return int('x')", "ValueError"),
    ],
)
def test_any_other_exception_is_an_error_with_its_line(tmp_path: Path, body: str, said: str) -> None:
    entries, reward, _ = run(tmp_path, HEAD + GOOD + f"def odd():\n{body}\nadd('C1', odd)\nadd('C2', good)\n")
    assert (statuses(entries), reward) == ({"C1": "error", "C2": "pass"}, "0")
    assert entries[0]["message"].startswith(said)
    assert "in odd" in entries[0]["message"]


def test_a_check_behind_one_that_did_not_pass_is_blocked_and_not_run(tmp_path: Path) -> None:
    source = HEAD + BAD + "def never():\n    raise RuntimeError\n"
    source += "add('C3', never, ['C2'])\nadd('C2', never, ['C1'])\nadd('C1', bad)\n"
    entries, _, _ = run(tmp_path, source)
    assert [(e["id"], e["status"]) for e in entries] == [("C3", "blocked"), ("C2", "blocked"), ("C1", "fail")]
    assert entries[1]["message"] == "needs C1"


def test_dependencies_run_first_whatever_the_order_of_the_list(tmp_path: Path) -> None:
    source = HEAD + "seen = []\ndef first():\n    seen.append(1)\ndef second():\n    assert seen == [1]\n"
    entries, reward, _ = run(tmp_path, source + "add('C2', second, ['C1'])\nadd('C1', first)\n")
    assert (statuses(entries), reward) == ({"C2": "pass", "C1": "pass"}, "1")


def test_checks_that_depend_on_each_other_are_blocked(tmp_path: Path) -> None:
    entries, reward, _ = run(tmp_path, HEAD + GOOD + "add('C1', good, ['C2'])\nadd('C2', good, ['C1'])\n")
    assert (statuses(entries), reward) == ({"C1": "blocked", "C2": "blocked"}, "0")


def test_a_check_behind_an_unknown_one_is_blocked(tmp_path: Path) -> None:
    entries, reward, _ = run(tmp_path, HEAD + GOOD + "add('C1', good, ['C9'])\n")
    assert (statuses(entries), reward) == ({"C1": "blocked"}, "0")


@pytest.mark.parametrize(
    "source",
    [
        "def broken(:\n",
        "raise ValueError('on import')\n",
        "import sys\nsys.exit(0)\n",
        "x = 1\n",
        "CHECKS = []\n",
        "CHECKS = [1]\n",
        "CHECKS = [{'id': 'C1'}]\n",
    ],
)
def test_checks_that_cannot_be_loaded_still_give_one_reward(tmp_path: Path, source: str) -> None:
    entries, reward, _ = run(tmp_path, source)
    assert ([(e["id"], e["status"]) for e in entries], reward) == ([("import", "error")], "0")
    assert entries[0]["message"]


def test_what_checks_print_reaches_no_result(tmp_path: Path) -> None:
    entries, reward, out = run(tmp_path, HEAD + "print('1')\ndef loud():\n    print('7')\nadd('C1', loud)\n")
    assert (statuses(entries), reward) == ({"C1": "pass"}, "1")
    assert "7" not in out


def test_messages_are_bounded(tmp_path: Path) -> None:
    entries, _, out = run(tmp_path, HEAD + "def long():\n    assert False, 'x' * 100_000\nadd('C1', long)\n")
    assert len(entries[0]["message"]) == 600
    assert len(out) < 1000


def test_results_of_an_earlier_run_are_replaced(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "verifier"
    logs.mkdir(parents=True)
    (logs / "reward.txt").write_text("1")
    _, reward, _ = run(tmp_path, HEAD + BAD + "add('C1', bad)\n")
    assert reward == "0"


def test_the_shuffle_changes_the_order_of_work_but_not_of_results(tmp_path: Path) -> None:
    source = (
        HEAD + "seen = []\n" + "".join(f"def c{n}():\n    seen.append({n})\nadd('C{n}', c{n})\n" for n in range(12))
    )
    source += "def last():\n    assert False, seen\nadd('C12', last, [f'C{n}' for n in range(12)])\n"
    orders = set()
    for seed in ("1", "2", "x"):
        folder = tmp_path / seed
        folder.mkdir()
        entries, _, _ = run(folder, source, FACET_SHUFFLE=seed)
        assert [entry["id"] for entry in entries] == [f"C{n}" for n in range(13)]
        orders.add(entries[-1]["message"])
    assert len(orders) == 3
    assert str(list(range(12))) in orders


def test_no_bytecode_is_left_beside_the_checks(tmp_path: Path) -> None:
    run(tmp_path, HEAD + GOOD + "add('C1', good)\n")
    assert [path.name for path in (tmp_path / "tests").iterdir()] == ["checks.py"]
