"""What endpoints made of a benchmark, beside each other and beside the paper's Table 2."""

from __future__ import annotations

from facet_dagster.domain.evaluation import Endpoint, EvaluationProtocol, TaskEvaluation
from facet_dagster.domain.outcome import Value
from facet_dagster.funnel import current
from facet_dagster.pipeline.evaluation import Evaluation, benchmark_tasks, evaluation_stage
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.means import Difference, Mean, difference, mean

# Paper, Table 2: percent of Terminal-Bench 2.1 tasks solved, mean of three attempts with Terminus-2. Models of which
# the paper repeats what others reported are not here: their protocol is another.
TABLE2: dict[str, float] = {
    "Qwen3.5-4B": 17.60,
    "FACET-4B": 24.72,
    "Qwen3.5-9B": 27.34,
    "FACET-9B": 35.58,
    "Qwen3.5-27B": 40.82,
    "FACET-27B": 47.57,
    "Qwen3.5-397B-A17B": 49.06,
    "Qwen3.6-27B": 53.93,
    "Kimi-K2.6": 59.93,
    "DeepSeek-V4-Pro-Preview (high)": 73.03,
}


class EvaluatedEndpoint(Value):
    """One endpoint. ``missing`` tasks have no current result; ``unjudged`` attempts have no valid reward, and count
    neither as solved nor as failed. ``solved_once`` tasks were solved by at least one attempt. ``paper`` in percent.
    """

    endpoint: str
    protocol: EvaluationProtocol
    tasks: int
    missing: tuple[str, ...]
    unjudged: int
    mean: Mean
    solved_once: int
    turns: float | None
    cost: float | None
    rewards: dict[str, tuple[int | None, ...]]
    paper_row: str
    paper: float | None


class Pair(Value):
    """``second`` minus ``first``, on the tasks that both were tried on."""

    first: str
    second: str
    difference: Difference
    paper: float | None


class EvaluationReport(Value):
    """``complete``: every endpoint has a result on every task."""

    benchmark: str
    attempts: int
    complete: bool
    endpoints: tuple[EvaluatedEndpoint, ...]
    pairs: tuple[Pair, ...]
    table2: dict[str, float]


def evaluation_report(what: Evaluation, ledger: Ledger, store: ArtifactStore) -> EvaluationReport:
    """From the current results in the ledger: it runs nothing. Raises ConfigError when there is no benchmark."""
    tasks = benchmark_tasks(what.benchmark)
    lines = tuple(_endpoint(what, endpoint, tasks, ledger, store) for endpoint in what.endpoints)
    pairs = [_pair(first, second) for number, first in enumerate(lines) for second in lines[number + 1 :]]
    return EvaluationReport(
        benchmark=what.benchmark.name,
        attempts=what.attempts,
        complete=not any(line.missing for line in lines),
        endpoints=lines,
        pairs=tuple(pairs),
        table2=TABLE2,
    )


def _endpoint(
    what: Evaluation, endpoint: Endpoint, tasks: dict[str, str], ledger: Ledger, store: ArtifactStore
) -> EvaluatedEndpoint:
    results = current(evaluation_stage(what, endpoint, tasks), list(tasks), ledger)
    outputs = {key: result.output for key, result in sorted(results.items()) if result.output}
    found = {key: TaskEvaluation.model_validate_json(store.get(sha)).attempts for key, sha in outputs.items()}
    made = [attempt for attempts in found.values() for attempt in attempts]
    costs = [attempt.cost for attempt in made]
    rewards = {key: tuple(attempt.reward for attempt in attempts) for key, attempts in found.items()}
    return EvaluatedEndpoint(
        endpoint=endpoint.name,
        protocol=what.protocol(endpoint),
        tasks=len(tasks),
        missing=tuple(key for key in tasks if key not in found),
        unjudged=sum(attempt.reward is None for attempt in made),
        mean=mean([_judged(attempts) for attempts in rewards.values()]),
        solved_once=sum(1 in attempts for attempts in rewards.values()),
        turns=sum(attempt.turns for attempt in made) / len(made) if made else None,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        rewards=rewards,
        paper_row=endpoint.paper,
        paper=TABLE2.get(endpoint.paper),
    )


def _judged(rewards: tuple[int | None, ...]) -> list[int]:
    return [reward for reward in rewards if reward is not None]


def _pair(first: EvaluatedEndpoint, second: EvaluatedEndpoint) -> Pair:
    both = sorted(first.rewards.keys() & second.rewards.keys())
    sides = ([_judged(one.rewards[key]) for key in both] for one in (first, second))
    printed = second.paper - first.paper if first.paper is not None and second.paper is not None else None
    return Pair(first=first.endpoint, second=second.endpoint, difference=difference(*sides), paper=printed)


def evaluation_markdown(found: EvaluationReport) -> str:
    """Both tables, for the web UI and for people."""
    lines = [
        "| endpoint | tasks | attempts | unjudged | solved | 95 % | solved once | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in found.endpoints:
        m, paper = line.mean, "" if line.paper is None else f"{line.paper_row}: {line.paper:.2f} %"
        bounds = "" if m.low is None or m.high is None else f"{100 * m.low:.1f} to {100 * m.high:.1f}"
        share = "" if m.mean is None else f"{100 * m.mean:.2f} %"
        cells = (
            line.endpoint,
            f"{m.tasks}/{line.tasks}",
            m.attempts,
            line.unjudged,
            share,
            bounds,
            line.solved_once,
            paper,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for pair in found.pairs:
        d = pair.difference
        if d.difference is None or d.low is None or d.high is None:
            continue
        text = f"{100 * d.difference:+.2f} points ({100 * d.low:+.1f} to {100 * d.high:+.1f}), p {d.p:.3f}"
        paper = "" if pair.paper is None else f"; paper {pair.paper:+.2f}"
        lines.append(f"\n{pair.second} over {pair.first}, on {d.tasks} tasks: {text}{paper}")
    return "\n".join(lines)
