"""The same verdict every time: under other conditions, in fresh containers, and when the work is done twice."""

from __future__ import annotations

from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.domain.trial import End
from facet_dagster.stages.task.certificate.bench import Bench, Seen, refusal
from facet_dagster.stages.task.semantic import difference
from facet_dagster.stages.task.trial import PLAIN, Conditions
from facet_dagster.stages.task.validate import ended, solve_sh

# A zone as POSIX spells it: without tzdata a named one silently means UTC.
ODD = {"PYTHONHASHSEED": "12345", "TZ": "XXX-12", "LC_ALL": "C"}
SHUFFLED = Conditions("checks in another order, other hash seed, time zone and locale", env=ODD, shuffle=1)
SHARE = 0.5
SMALL = Conditions("half a CPU, half the memory, checks in a third order", cpus=0.5, memory=SHARE, shuffle=2)
ORACLES = (PLAIN, SHUFFLED, SMALL)
TWICE = Conditions("the solution runs twice", twice=True)


def oracle(bench: Bench, conditions: Conditions = PLAIN, number: int = 1) -> tuple[Seen, Rejection | None]:
    """The solution in a fresh container, and TASK_FLAKY when it is not accepted as the validation said.

    TASK_TIGHT_LIMITS when it had less memory and it was too little.
    """
    work = bench.work(solve_sh(bench.draft), conditions)
    seen = bench.judge(
        f"oracle/{number}", f"the solution: {conditions.name}", work.left, work=work, conditions=conditions
    )
    if accepted(seen):
        return seen, None
    program = seen.work.program if seen.work else None
    if conditions.memory < 1 and program is not None and program.end is End.OOM:
        text = f"The solution needs more than {conditions.memory:.0%} of the memory that it may take."
        return seen, refusal(Reason.TASK_TIGHT_LIMITS, text, seen)
    text = f"Another trial of the solution is not accepted: {conditions.name}."
    failed = program is not None and not program.ok
    blamed = Component.SOLUTION if failed else Component.VERIFIER
    told = ended(program) if program and failed else {}
    return seen, refusal(Reason.TASK_FLAKY, text, seen, component=blamed, **told)


def accepted(seen: Seen) -> bool:
    """Whether the program succeeded and its work got the reward."""
    program = seen.work.program if seen.work else None
    return seen.probe.reward == 1 and program is not None and program.ok


def steady(bench: Bench, plain: Seen) -> Rejection | None:
    """The first disagreement, if there is one. ``plain`` is the oracle that was accepted; cheapest trials first."""
    return _tight(bench, plain) or _baselines(bench) or _other_oracles(bench, plain) or _twice(bench, plain)


def _tight(bench: Bench, plain: Seen) -> Rejection | None:
    program, limit = plain.work.program if plain.work else None, bench.trials.limits.solution_seconds
    if program is None or program.seconds <= SHARE * limit:
        return None
    text = f"The solution takes {program.seconds:.1f} s of the {limit:.0f} s it may take; at most half is sound."
    return refusal(Reason.TASK_TIGHT_LIMITS, text, plain, seconds=program.seconds, limit=limit)


def _baselines(bench: Bench) -> Rejection | None:
    """The initial state, judged twice: the second time what was left is the same, and only the order changes."""
    work = bench.work(None)
    plain = bench.judge("baseline/1", "nothing done: plain", work.left, work=work)
    other = bench.judge("baseline/2", f"nothing done: {SHUFFLED.name}", work.left, conditions=SHUFFLED)
    for seen in (plain, other):
        if seen.probe.reward != 0:
            return refusal(Reason.TASK_FLAKY, "Another trial of the initial state does not give 0.", seen)
    unsteady = _unsteady(plain, other)
    if unsteady:
        text = f"Checks of the initial state are not the same each time: {', '.join(unsteady[:10])}."
        return refusal(Reason.TASK_FLAKY, text, other, checks=unsteady)
    return None


def _unsteady(one: Seen, other: Seen) -> list[str]:
    first = {check.id: check.status for check in one.judged.checks}
    return sorted(check.id for check in other.judged.checks if first.get(check.id) != check.status)


def _other_oracles(bench: Bench, plain: Seen) -> Rejection | None:
    for number, conditions in enumerate(ORACLES[1:], start=2):
        seen, rejection = oracle(bench, conditions, number)
        if rejection:
            return rejection.model_copy(update={"component": _blamed(bench, plain, seen, conditions)})
    return None


def _blamed(bench: Bench, plain: Seen, other: Seen, conditions: Conditions) -> Component:
    """Who is not steady: the solution when it failed, or left another state while the verifier accepts the old one."""
    old, new = plain.work, other.work
    if old is None or new is None or new.program is None:
        return Component.VERIFIER
    if not new.program.ok:
        return Component.SOLUTION
    if not difference(old.left, new.left).paths:
        return Component.VERIFIER
    accepts = bench.trials.judge(old.left, conditions).reward == 1
    return Component.SOLUTION if accepts else Component.VERIFIER


def _twice(bench: Bench, plain: Seen) -> Rejection | None:
    """A second run may fail, but must leave accepted work. When one run alone is refused now, it is chance."""
    work = bench.work(solve_sh(bench.draft), TWICE)
    seen = bench.judge("twice/1", TWICE.name, work.left, work=work)
    if seen.probe.reward == 1:
        return None
    again, flaky = oracle(bench, PLAIN, len(ORACLES) + 1)
    if flaky:
        return flaky.model_copy(update={"component": _blamed(bench, plain, again, PLAIN)})
    text = "The work is refused when the solution runs twice in one container."
    return refusal(Reason.TASK_NOT_IDEMPOTENT, text, seen)
