"""Many final states judged in one container, one after the other: a start costs more than most judgements.

The states share what the verifier writes outside of them, so this is for those that a verifier has no reason to
know from one another. The last state is one that was accepted: where it is refused now, something was carried over and
nothing of the container counts. Whoever relies on a verdict that is not the wanted one judges again, alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.archive import Member, pack_members, unpack
from facet_dagster.domain.environment import WORKDIR
from facet_dagster.ports import Put, Run
from facet_dagster.stages.task import live
from facet_dagster.stages.task.trial import JUDGE_ENV, Judgement, Left, Trials, read_result

FEWEST = 3
MOST_BYTES = 32 * 1024 * 1024
RESULTS = "/logs/states"
SCRIPT = ("python3", "-I", "/states/judge.py")
# Each state is judged in a process of its own, which begins with what the first one has loaded. A link, since the state
# lies in a mounted folder: it can be neither moved nor, without its owner's rights, copied.
_JUDGE = f"""\
import collections, csv, decimal, hashlib, importlib.util, json, math, os, re, shutil, sqlite3, sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("run_checks", "/tests/run_checks.py")
runner = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(runner)
os.rmdir("{WORKDIR}")
for number in range(int(sys.argv[1])):
    os.symlink(f"/states/{{number}}{WORKDIR}", "{WORKDIR}")
    child = os.fork()
    if child == 0:
        try:
            os.chdir("{WORKDIR}")
            runner.main(Path("/tests"), Path(f"{RESULTS}/{{number}}"))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.unlink("{WORKDIR}")
    for entry in os.scandir("/tmp"):
        shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
"""


def judge_each(trials: Trials, lefts: Sequence[Left], accepted: Left, *, slowest: float) -> list[Judgement | None]:
    """What the verifier says about each of ``lefts``; None where a container of its own is needed to know.

    ``accepted`` is a state that it accepts. ``slowest`` are the seconds that a judgement takes: a verifier that would
    need most of its time for all of them gets a container for each. Raises SandboxError.
    """
    states = [*lefts, accepted]
    size = sum(len(left.app or b"") for left in states)
    seconds = trials.limits.verifier_seconds
    if len(lefts) < FEWEST or size > MOST_BYTES or 2 * slowest * len(states) > seconds:
        return [None] * len(lefts)
    outcome = trials.sandbox.run(_run(trials, states))
    members = unpack(archive) if (archive := outcome.collected.get(RESULTS)) else {}
    judged = [Judgement(outcome.program, *read_result(_result(members, n))) for n in range(len(states))]
    if judged[-1].reward != 1:
        return [None] * len(lefts)
    return [one if one.checks else None for one in judged[:-1]]


def _run(trials: Trials, states: Sequence[Left]) -> Run:
    seconds = trials.limits.verifier_seconds
    collected = next((Put(live.ARTIFACTS, live.inside(left.artifacts)) for left in states if left.artifacts), None)
    return Run(
        image=trials.images.verifier,
        argv=(*SCRIPT, str(len(states))),
        subject=trials.subject,
        user="root",
        env=JUDGE_ENV,
        put=(Put("/", _archive(states)), *([collected] if collected else []), *trials.tests()),
        outbox=(RESULTS,),
        limits=trials.limits.container(seconds),
        attempt=trials.attempt,
    )


def _archive(states: Sequence[Left]) -> bytes:
    """Each state below /states/<its number>, and the script."""
    top = WORKDIR.strip("/")
    members = {"states": Member("dir", 0o755), "states/judge.py": Member("file", 0o644, data=_JUDGE.encode())}
    for number, left in enumerate(states):
        members[f"states/{number}"] = Member("dir", 0o755)
        inside = unpack(left.app) if left.app else {top: Member("dir", 0o755)}
        members |= {f"states/{number}/{path}": member for path, member in inside.items()}
    return pack_members(members)


def _result(members: dict[str, Member], number: int) -> bytes:
    folder = f"states/{number}/"
    found = {path.removeprefix(folder): m for path, m in members.items() if path.startswith(folder)}
    return pack_members({f"verifier/{name}": member for name, member in found.items()})
