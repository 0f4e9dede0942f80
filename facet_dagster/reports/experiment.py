"""What the arms of an experiment gave on the same seeds (the columns of the paper's Tables 7 and 10 and Figure 2b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from facet_dagster.domain.causes import cause_of
from facet_dagster.domain.facts import ModelCallFact, ReplyFact
from facet_dagster.domain.outcome import Rejection, StageResult, Value, Verdict
from facet_dagster.domain.task import Task
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.experiment import Arm, Last
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.published import Published, published
from facet_dagster.reports.statistics import Paired, Rate, paired, rate

Results = Mapping[str, Mapping[str, StageResult]]
MEASURES = ("initially_valid", "validated", "certified")  # the last one only where certificates were asked for


class Spending(Value):
    """Model calls that led to the results of an arm, also those that another run paid. ``cost`` in USD.

    None while a price is unknown; ``per_task``: over the validated tasks.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    tokens_per_task: float | None
    cost_per_task: float | None


class ArmReport(Value):
    """One arm. ``initially_valid`` is of the drafts that reached validation, all other rates are of all seeds.

    ``by_round`` counts validated tasks by the repair rounds that they took, ``mean_rounds`` is over all that reached
    validation. ``initial_causes`` are of drafts that were not valid at first, ``final_causes`` and ``final_components``
    of those never valid; ``lost_before`` maps reasons to seeds without a draft. ``unsettled`` seeds met trouble of the
    machine and have no result yet. ``certified`` is None where no certificates were asked for.
    """

    name: str
    pipeline: str
    order: str
    author: str
    repair_rounds: int
    seeds: int
    drafts: Rate
    initially_valid: Rate
    validated: Rate
    certified: Rate | None
    by_round: dict[int, int]
    mean_rounds: float | None
    initial_causes: dict[str, int]
    final_causes: dict[str, int]
    final_components: dict[str, int]
    lost_before: dict[str, int]
    unsettled: dict[str, str]
    spending: Spending
    paper: Published | None


class Comparison(Value):
    """Two arms on one measure, over the seeds that both have settled; a seed without a draft is not valid."""

    measure: str
    first: str
    second: str
    paired: Paired


class Experiment(Value):
    """``seeds`` are those of every arm, ``computed`` the results that this run had to compute."""

    kind: str
    seeds: tuple[str, ...]
    arms: tuple[ArmReport, ...]
    comparisons: tuple[Comparison, ...]
    computed: int


def experiment(
    kind: str,
    arms: Sequence[Arm],
    keys: Sequence[str],
    *,
    ledger: Ledger,
    store: ArtifactStore,
    until: Last = "certificate",
    computed: int = 0,
    failed: Mapping[str, Mapping[str, str]] | None = None,
) -> Experiment:
    """Figures from what the ledger holds; ``failed`` maps arms to seeds and what kept them from a result."""
    results = {arm.name: _results(arm, keys, ledger, until) for arm in arms}
    reports = [
        _arm(kind, arm, keys, results[arm.name], (failed or {}).get(arm.name, {}), ledger=ledger, store=store)
        for arm in arms
    ]
    return Experiment(
        kind=kind,
        seeds=tuple(keys),
        arms=tuple(reports),
        comparisons=tuple(_comparisons([arm.name for arm in arms], keys, results)),
        computed=computed,
    )


def _results(arm: Arm, keys: Sequence[str], ledger: Ledger, until: Last) -> Results:
    memo, stages = Memo(), seed_stages(arm.settings)
    return {stage.name: current(stage, keys, ledger, memo) for stage in stages[: stages._fields.index(until) + 1]}


def _arm(
    kind: str,
    arm: Arm,
    keys: Sequence[str],
    results: Results,
    failed: Mapping[str, str],
    *,
    ledger: Ledger,
    store: ArtifactStore,
) -> ArmReport:
    settings, seeds = arm.settings, len(keys)
    reached = [key for key in keys if _accepted(results, "task_draft", key)]
    good = [key for key in keys if holds("validated", results, key)]
    tasks = {key: _task(results, key, store) for key in reached}
    rounds = {key: len(task.repairs) for key, task in tasks.items() if task}
    return ArmReport(
        name=arm.name,
        pipeline=settings.pipeline,
        order="" if settings.pipeline == "recording" else settings.order,
        author=settings.author,
        repair_rounds=settings.repair_rounds,
        seeds=seeds,
        drafts=rate(len(reached), seeds),
        initially_valid=rate(sum(holds("initially_valid", results, key) for key in keys), len(reached)),
        validated=rate(len(good), seeds),
        certified=_certified(results, keys),
        by_round=dict(sorted(Counter(rounds[key] for key in good).items())),
        mean_rounds=round(sum(rounds.values()) / len(rounds), 3) if rounds else None,
        initial_causes=_causes([_initial(task) for task in tasks.values() if task]),
        final_causes=_causes(_final(results, reached)),
        final_components=_count(str(r.component) for r in _final(results, reached)),
        lost_before=_count(str(r.reason) for r in _final(results, [key for key in keys if key not in reached])),
        unsettled=dict(failed),
        spending=_spending(results, keys, len(good), ledger),
        paper=published(kind, settings),
    )


def _certified(results: Results, keys: Sequence[str]) -> Rate | None:
    if "certificate" not in results:
        return None
    return rate(sum(holds("certified", results, key) for key in keys), len(keys))


def holds(measure: str, results: Results, key: str) -> bool:
    """Whether a seed counts for one of MEASURES; a seed that did not come so far does not."""
    if measure == "initially_valid":
        checked = results["first_validation"].get(key)
        return checked is not None and checked.numbers.get("valid", 0) > 0
    return _accepted(results, {"validated": "task", "certified": "certificate"}[measure], key)


def _accepted(results: Results, stage: str, key: str) -> bool:
    found = results[stage].get(key)
    return found is not None and found.verdict is Verdict.ACCEPTED


def _task(results: Results, key: str, store: ArtifactStore) -> Task | None:
    for stage in ("task", "first_validation"):
        found = results[stage].get(key)
        if found is not None and found.output is not None:
            return Task.model_validate_json(store.get(found.output))
    return None


def _initial(task: Task) -> Rejection | None:
    """Why the draft was not valid at first, blamed on what the first repair found to be wrong, if there was one."""
    rejection = task.validations[0].rejection
    if rejection is None or not task.repairs:
        return rejection
    return rejection.model_copy(update={"component": task.repairs[0].component})


def _final(results: Results, keys: Sequence[str]) -> list[Rejection]:
    """Why seeds have no validated task."""
    ends = (results["task"].get(key) for key in keys)
    return [end.rejection for end in ends if end is not None and end.rejection is not None]


def _causes(rejections: Sequence[Rejection | None]) -> dict[str, int]:
    return _count(str(cause_of(one) or one.reason) for one in rejections if one is not None)


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def _comparisons(names: Sequence[str], keys: Sequence[str], results: Mapping[str, Results]) -> list[Comparison]:
    found = []
    for first, second in combinations(names, 2):
        for measure in MEASURES if "certificate" in results[first] else MEASURES[:-1]:
            last = "certificate" if measure == MEASURES[-1] else "task"
            both = [key for key in keys if all(key in results[name][last] for name in (first, second))]
            one, other = ([holds(measure, results[name], key) for key in both] for name in (first, second))
            found.append(Comparison(measure=measure, first=first, second=second, paired=paired(one, other)))
    return found


def _spending(results: Results, keys: Sequence[str], tasks: int, ledger: Ledger) -> Spending:
    """Calls belong to a result when they were made in its run, for its seed: a run id is that of one stage."""
    runs = {(r.run_id, r.key) for of_stage in results.values() for r in of_stage.values() if r.run_id}
    made = [f for f in ledger.find(ModelCallFact, subject=list(keys)) if (f.run_id, f.subject) in runs]
    calls = {(f.run_id, f.subject, f.call, f.tape_key, f.turn): f for f in made}.values()
    stored = {f.cache_key for f in calls if f.origin == "cache"}
    paid = {f.cache_key: f.cost for f in ledger.find(ReplyFact, cache_key=sorted(stored))} if stored else {}
    costs = [paid.get(f.cache_key) if f.origin == "cache" else f.cost for f in calls]
    total = None if None in costs else round(sum(c for c in costs if c is not None), 6)
    tokens = sum(f.prompt_tokens + f.completion_tokens for f in calls)
    return Spending(
        calls=len(calls),
        prompt_tokens=sum(f.prompt_tokens for f in calls),
        completion_tokens=sum(f.completion_tokens for f in calls),
        cost=total,
        tokens_per_task=round(tokens / tasks, 1) if tasks else None,
        cost_per_task=round(total / tasks, 6) if tasks and total is not None else None,
    )
