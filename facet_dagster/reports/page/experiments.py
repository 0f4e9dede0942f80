"""R7 to R9: causes of failure and yields by order, and pipelines end to end (Figure 2b, Tables 7 and 10)."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.domain.causes import Cause
from facet_dagster.reports.attempts import AttemptRow, attempt_rows, by_task
from facet_dagster.reports.difficulty import group
from facet_dagster.reports.experiment import ArmReport, Comparison
from facet_dagster.reports.page import draw
from facet_dagster.reports.page.arms import Compared, compared_orders, compared_pipelines
from facet_dagster.reports.page.home import Home, counted
from facet_dagster.reports.page.parts import Note, Part, Section, Table, mean, percent, rate_text, table
from facet_dagster.reports.published import Published, printed

_ORDERS = "100 shared paths; 5 repair rounds for Forward, 3 for Reverse and Joint"
_PIPELINES = (
    "500 common pairs; TW is a reproduction on the same pairs; P@1 and P@3 of three attempts on each validated task"
)


def orders(home: Home) -> tuple[Section, Section]:
    """Figure 2b and Table 7, which are about the same arms."""
    found = compared_orders(home)
    return _initial(found, home), _ablation(found, home)


def _initial(found: Compared, home: Home) -> Section:
    failing = [arm for arm in found.found.arms if arm.initial_causes]
    paper = {f"paper: {one.name}": _printed_causes(one) for one in printed("orders")}
    ours = {f"{arm.name} ({sum(arm.initial_causes.values())} drafts)": _causes(arm) for arm in failing}
    counts = {name: arm.initial_causes for name, arm in zip(ours, failing, strict=True)}
    sound = [arm.name for arm in found.found.arms if not arm.initial_causes]
    names = [*map(str, Cause), *sorted({name for of in ours.values() for name in of} - set(Cause))]
    groups: Mapping[str, Mapping[str, float]] = {
        name: {cause: of.get(cause, 0.0) for cause in names} for name, of in (ours | paper).items()
    }
    rows = [(cause, *(_share(of[cause], counts.get(name), cause) for name, of in groups.items())) for cause in names]
    alt = "Shares of the six causes of failure for each order, the paper's below"
    parts: tuple[Part, ...] = (
        draw.stacked("Why drafts were not valid at first", alt, groups, unit="% of drafts not valid at first"),
        table("Causes by order", ("Cause", *groups), rows),
        *([Note(f"Every draft that reached validation was valid at first: {', '.join(sound)}.")] if sound else []),
    )
    return Section(
        "causes",
        "Why tasks fail at first, by order",
        "Figure 2b",
        f"{_terms(found)}; by rules from the reason, blamed on what the first repair found to be wrong; {home.made}",
        "drafts that were not valid at first: Forward 53, Reverse 69, Joint 60; labelled by hand or model: not stated",
        parts,
        _missing(found, "orders --seeds 100"),
    )


def _share(percent_: float, counts: Mapping[str, int] | None, cause: str) -> str:
    """``8 (13.3 %)``; of the paper, which prints no counts, the share alone."""
    return f"{percent_:.1f} %" if counts is None else f"{counts.get(cause, 0)} ({percent_:.1f} %)"


def _ablation(found: Compared, home: Home) -> Section:
    arms = found.found.arms
    lines = table("Yield by order", _YIELD, [*map(_arm_row, arms), *map(_paper_row, printed("orders"))])
    parts: list[Part] = [
        _yield_picture(arms, printed("orders")),
        lines,
        *_rounds(arms),
        *_pairs(found.found.comparisons),
    ]
    return Section(
        "ablation",
        "Orders",
        "Table 7",
        f"{_terms(found)}; {home.settings.repair_budget} repair budgets; {home.made}",
        _ORDERS,
        tuple(parts),
        _missing(found, "orders --seeds 100"),
    )


def end_to_end(home: Home) -> Section:
    """Table 10: pipelines from a pair to an agent's success."""
    found = compared_pipelines(home)
    arms, paper = found.found.arms, printed("pipelines")
    yields = [*map(_arm_row, arms), *map(_paper_row, paper)]
    told = [(f"paper: {one.name}", one.validated, f"{one.pass_1} %", f"{one.pass_3} %", one.commands) for one in paper]
    tried = [*(_tried(arm, found, home) for arm in arms), *told]
    names = ("", "Tasks tried", "P@1 (95 %)", "P@3 (95 %)", "Commands a trajectory")
    parts: list[Part] = [
        _yield_picture(arms, paper),
        table("From pairs of skills to validated tasks", _YIELD, yields),
        table("Agents on these tasks", names, tried),
        *_pairs(found.found.comparisons),
    ]
    return Section(
        "pipelines",
        "Pipelines end to end",
        "Table 10",
        f"{_terms(found)}; agents try certified tasks, the paper's all validated ones; {home.tried}",
        _PIPELINES,
        tuple(parts),
        _missing(found, "pipelines --pairs 500"),
    )


_YIELD = ("", "Seeds", "Drafts", "Valid at first", "Validated", "Repair rounds", "Tokens a task", "USD a task")


def _terms(found: Compared) -> str:
    count = len(found.found.seeds)
    return f"the same {count} seeds in every arm that was run" if count else "no arm was run"


def _missing(found: Compared, command: str) -> str:
    if len(found.arms) > 1 and not found.left:
        return ""
    what = f"No seed went through {', '.join(found.left)}" if found.left else "There is nothing to compare"
    return f"{what}: `facet experiment {command}` makes the comparison."


def _causes(arm: ArmReport) -> dict[str, float]:
    return counted(dict(arm.initial_causes))


def _printed_causes(one: Published) -> dict[str, float]:
    return dict(one.causes)


def _arm_row(arm: ArmReport) -> tuple[object, ...]:
    spent = arm.spending
    return (
        arm.name,
        arm.seeds,
        rate_text(arm.drafts),
        rate_text(arm.initially_valid),
        rate_text(arm.validated),
        arm.mean_rounds,
        None if spent.tokens_per_task is None else round(spent.tokens_per_task),
        None if spent.cost_per_task is None else f"{spent.cost_per_task:.4f}",
    )


def _paper_row(one: Published) -> tuple[object, ...]:
    first = "" if one.initially_valid is None else f"{one.initially_valid}/{one.drafts}"
    share = f"{one.validated}/{one.seeds} = {percent(one.validated / one.seeds)}"
    return (f"paper: {one.name}", one.seeds, f"{one.drafts}/{one.seeds}", first, share, None, None, None)


def _yield_picture(arms: tuple[ArmReport, ...], paper: tuple[Published, ...]) -> Part:
    shares = {arm.name: 100 * (arm.validated.rate or 0.0) for arm in arms}
    bounds = {arm.name: (100 * (arm.validated.low or 0.0), 100 * (arm.validated.high or 0.0)) for arm in arms}
    for one in paper:
        shares[f"paper: {one.name}"] = 100 * one.validated / one.seeds
    colours = [draw.OURS] * len(arms) + [draw.INK] * len(paper)
    alt = "; ".join(f"{name} {share:.1f} %" for name, share in shares.items())
    return draw.bars("Validated, of all seeds", alt, shares, bounds=bounds, colours=colours)


def _rounds(arms: tuple[ArmReport, ...]) -> list[Table]:
    most = max((rounds for arm in arms for rounds in arm.by_round), default=0)
    names = ("", *(f"after {n}" for n in range(most + 1)))
    rows = [(arm.name, *(arm.by_round.get(n, 0) for n in range(most + 1))) for arm in arms]
    return [table("Validated tasks by the repair rounds that they took", names, rows)] if rows else []


def _pairs(comparisons: tuple[Comparison, ...]) -> list[Table]:
    names = (
        "Measure",
        "First",
        "Second",
        "Both",
        "Only first",
        "Only second",
        "Difference, points (95 %)",
        "p, McNemar",
    )
    rows = []
    for one in comparisons:
        pair = one.paired
        if pair.difference is None or pair.low is None or pair.high is None:
            continue
        apart = f"{100 * pair.difference:+.1f} ({100 * pair.low:+.1f} to {100 * pair.high:+.1f})"
        counts = (pair.both, pair.only_first, pair.only_second)
        rows.append((one.measure.replace("_", " "), one.first, one.second, *counts, apart, f"{pair.p:.3g}"))
    return [table("Paired by seed", names, rows, texts=(1, 2))] if rows else []


def _tried(arm: ArmReport, found: Compared, home: Home) -> tuple[object, ...]:
    """P@1, P@3 and commands of an arm's validated and certified tasks that were tried."""
    settings = next(one.settings for one in found.arms if one.name == arm.name)
    rows: list[AttemptRow] = home.rows
    if settings != home.settings:
        rows = attempt_rows(settings, home.tokenizer, home.ledger, home.store, home.batch)
    keys = set(found.found.seeds)
    of = group(arm.name, by_task(row for row in rows if row.seed in keys))
    typed = mean([float(row.commands) for row in rows if row.seed in keys and row.reward is not None])
    return arm.name, of.tasks, rate_text(of.p1), rate_text(of.p3), typed
