"""R11: what agents type (Table 6, Figure 5)."""

from __future__ import annotations

from facet_dagster.reports.command_classes import Class
from facet_dagster.reports.commands import CommandReport, State
from facet_dagster.reports.page import draw, paper
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Part, Picture, Section, percent, table
from facet_dagster.reports.page.rollouts import MISSING

TOP = 15
_KINDS = {Class.OBSERVATION: draw.OURS, Class.ACTION: draw.SECOND, Class.NEUTRAL: draw.INK}


def section(home: Home) -> Section:
    """Of the successful attempts, as the paper counts, and of all."""
    solved, every = home.typings.solved, home.typings.every
    shown = solved if solved.commands else every
    of = "successful" if solved.commands else "all (none succeeded)"
    parts: list[Part] = []
    if every.commands:
        parts = [
            _programs(shown, of),
            _moves(shown, of),
            table("Commands", ("", "Successful attempts", "All attempts", "Paper"), _lines(solved, every)),
            table("Programs", ("Program", "Calls", "Share", "Observing", "Acting", "Neutral"), _calls(shown)),
            Note(
                f"{every.broken:,} of {every.texts:,} typed texts are not bash as a whole; what can be read of them"
                f" counts. {home.typings.unread:,} trajectories cannot be read."
            ),
        ]
    return Section(
        "commands",
        "Commands",
        "Table 6, Figure 5",
        f"every simple command that bash would see, by tree-sitter-bash; classes by docs/reports.md; {home.tried}",
        "1,270 successful trajectories; its rule for classes and its splitter are not printed",
        tuple(parts),
        "" if every.commands else MISSING,
    )


def _lines(solved: CommandReport, every: CommandReport) -> list[tuple[str, ...]]:
    def of(count: int, whole: int) -> str:
        return f"{count:,} of {whole:,} ({percent(count / whole)})" if whole else ""

    def top(found: CommandReport, count: int) -> str:
        return of(sum(used.count for used in found.programs[:count]), found.commands)

    def called(found: CommandReport, name: str) -> str:
        return of(sum(used.count for used in found.programs if used.name == name), found.commands)

    def move(found: CommandReport, before: State, after: State) -> str:
        return of(*found.move(before, after))

    def first(found: CommandReport) -> str:
        return of(found.first.get(watch, 0), sum(found.first.values()))

    both, watch, act = (solved, every), State.OBSERVATION, State.ACTION
    a, b, c = paper.MOVES.values()
    return [
        ("Trajectories", *(f"{found.trajectories:,}" for found in both), "1,270"),
        ("Commands", *(f"{found.commands:,}" for found in both), "39,136"),
        ("A trajectory", *(_per(found) for found in both), "30.8 (derived)"),
        ("cat", *(called(found, "cat") for found in both), "18,168 (46.4 %)"),
        ("Three most called", *(top(found, 3) for found in both), "27,207 (69.5 %)"),
        ("Ten most called", *(top(found, 10) for found in both), "34,598 (88.4 %)"),
        ("Observing", *(of(found.kinds[Class.OBSERVATION], found.commands) for found in both), "33,140 (84.7 %)"),
        ("First turn only observes", *map(first, both), "1,214 (95.6 %)"),
        ("Observing, then observing", *(move(f, watch, watch) for f in both), f"{a[0]:,} ({a[1]} %)"),
        ("Acting, then observing", *(move(f, act, watch) for f in both), f"{b[0]:,} ({b[1]} %)"),
        ("Acting, then acting", *(move(f, act, act) for f in both), f"{c[0]:,} ({c[1]} %)"),
    ]


def _per(found: CommandReport) -> str:
    return f"{found.commands / found.trajectories:.1f}" if found.trajectories else ""


def _calls(found: CommandReport) -> list[tuple[object, ...]]:
    return [
        (used.name, used.count, percent(used.count / found.commands), *(used.kinds.get(kind, 0) for kind in Class))
        for used in found.programs[:TOP]
    ]


def _programs(found: CommandReport, of: str) -> Picture:
    counts = {used.name: float(used.count) for used in found.programs[:TOP]}
    colours = [_KINDS[Class(used.kind)] for used in found.programs[:TOP]]
    alt = "; ".join(f"{name} {count:.0f}" for name, count in counts.items())
    note = f"in {of} attempts; blue observes, orange acts, grey is neutral, by most of its calls"
    return draw.bars("The most called programs", alt, counts, unit="calls", colours=colours, note=note, digits=0)


def _moves(found: CommandReport, of: str) -> Picture:
    states = [state for state in State if sum(found.moves.get(state, {}).values()) or state is not State.IDLE]
    rows = []
    for before in states:
        total = sum(found.moves.get(before, {}).values())
        rows.append([found.moves.get(before, {}).get(after, 0) / total if total else 0.0 for after in states])
    alt = f"Transitions between turns of {of} attempts, each row summing to 100 %"
    return draw.grid(f"How turns follow each other, {of} attempts", alt, list(map(str, states)), rows)
