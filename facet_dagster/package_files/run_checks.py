"""Runs the checks of a task and writes one reward. Standard library only; needs nothing but Python 3.9.

Usage: python3 -I run_checks.py [TESTS [LOGS]]     (defaults: /tests and /logs/verifier)

TESTS/checks.py holds a list CHECKS of {id, rid, title, invariant, depends_on, run}. A check passes when
``run()`` returns anything but False, fails on AssertionError, and is an error on any other exception. A check
that depends on one that did not pass is blocked and not run. LOGS/checks.json gets one entry per check;
LOGS/reward.txt is written last and holds 1 when every check passed, else 0. FACET_SHUFFLE=<int> changes the
order of checks that do not depend on each other.
"""

import contextlib
import importlib.util
import io
import json
import os
import random
import signal
import sys
from pathlib import Path

SECONDS = 30  # one check; an artifact such as a FIFO could otherwise block it for ever
MESSAGE = 600  # characters of a stored message


class TooSlow(BaseException):
    """A check that ran over its time; not an Exception, so that a check does not swallow it."""


def main(tests, logs):
    logs.mkdir(parents=True, exist_ok=True)
    try:
        results = run_all(load(tests / "checks.py"))
    except BaseException as error:  # noqa: BLE001 - a broken verifier must still give a reward
        results = [entry("import", "", "error", describe(error))]
    passed = bool(results) and all(item["status"] == "pass" for item in results)
    write(logs / "checks.json", json.dumps(results, ensure_ascii=True, indent=1))
    write(logs / "reward.txt", "1" if passed else "0")
    lines = [f"{item['status'].upper():8}{item['id']} {item['message'][:200]!r}" for item in results]
    lines.append(f"{sum(item['status'] == 'pass' for item in results)} of {len(results)} checks passed")
    sys.stdout.write("\n".join(lines) + "\n")


def load(path):
    """The CHECKS list of the module at ``path``."""
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("checks", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["checks"] = module
    with bounded():
        spec.loader.exec_module(module)
    checks = list(module.CHECKS)
    if not checks:
        raise ValueError("checks.py holds no checks")
    return checks


def run_all(checks):
    """Results in the order in which the checks are listed."""
    results = {}
    for check in ordered(shuffled(checks)):
        unmet = [name for name in check["depends_on"] if results.get(name, {}).get("status") != "pass"]
        results[check["id"]] = blocked(check, unmet) if unmet else run_one(check)
    return [results.get(c["id"]) or blocked(c, c["depends_on"]) for c in checks]


def run_one(check):
    try:
        with bounded():
            if check["run"]() is False:
                raise AssertionError("the check returned False")  # noqa: TRY301 - meant as an assertion
    except AssertionError as error:
        return entry(check["id"], check["rid"], "fail", str(error) or "assertion failed: " + check["title"])
    except BaseException as error:  # noqa: BLE001 - SystemExit and TooSlow too: no check may end the others
        return entry(check["id"], check["rid"], "error", describe(error))
    return entry(check["id"], check["rid"], "pass", "")


def blocked(check, unmet):
    return entry(check["id"], check["rid"], "blocked", "needs " + ", ".join(unmet))


def entry(ident, rid, status, message):
    return {"id": ident, "rid": rid, "status": status, "message": message[:MESSAGE]}


def describe(error):
    """Kind, text and the last line inside checks.py, if there is one."""
    line, frame = "", error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if Path(code.co_filename).name == "checks.py":
            line = f" (line {frame.tb_lineno} in {code.co_name})"
        frame = frame.tb_next
    return f"{type(error).__name__}: {error}"[: MESSAGE - len(line)] + line


def shuffled(checks):
    order = list(checks)
    seed = os.environ.get("FACET_SHUFFLE", "")  # noqa: TID251 - this file runs alone in a container
    if seed.isdigit():
        random.Random(int(seed)).shuffle(order)  # noqa: S311 - an order, not a secret
    return order


def ordered(checks):
    """Dependencies first, otherwise as given; checks on a cycle are left out."""
    done, waiting = [], list(checks)
    names = {check["id"] for check in checks}
    ready = set()
    while waiting:
        nxt = next((c for c in waiting if set(c["depends_on"]) & names <= ready), None)
        if nxt is None:
            return done
        waiting.remove(nxt)
        ready.add(nxt["id"])
        done.append(nxt)
    return done


@contextlib.contextmanager
def bounded():
    """Time limit, and standard output kept apart from ours."""

    def too_slow(_signal, _frame):
        raise TooSlow(f"ran over {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def write(path, text):
    """All of ``text`` or nothing."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


if __name__ == "__main__":
    given = [*sys.argv[1:], *["/tests", "/logs/verifier"][len(sys.argv) - 1 :]]
    main(Path(given[0]), Path(given[1]))
