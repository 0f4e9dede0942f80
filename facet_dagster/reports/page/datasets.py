"""R10: our tasks and trajectories beside other datasets, in the same measures, and how far we are apart (Table 1)."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.reports.distance import Distance, distance
from facet_dagster.reports.foreign import ATTEMPTS, SAMPLE, Foreign, sample
from facet_dagster.reports.page import draw, paper
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Part, Section, mean, rate_text, table
from facet_dagster.reports.page.tests import checks_of

COLUMNS = ("Dataset", "Trajectories", "Turns", "Tasks", "Tests", "P@1", "P@3", "Sampled tasks")


def section(home: Home) -> Section:
    """One line for us, one for each folder, and the paper's."""
    rows = [_ours(home), *map(_other, home.others)]
    printed = [
        (f"paper: {one.name}", one.trajectories, one.turns, one.tasks, one.tests, *_printed(one))
        for one in paper.DATASETS
    ]
    parts: list[Part] = [_picture(home), table("Datasets", COLUMNS, [*rows, *printed])]
    for other in home.others:
        parts += _apart(home, other)
    return Section(
        "datasets",
        "Datasets",
        "Table 1, Appendix A.6",
        "turns: messages of the agent a trajectory, of the successful ones here; tests: docs/reports.md; P@1 and P@3"
        f" on {SAMPLE} tasks by the digest of their names, {ATTEMPTS} attempts each, where there are so many;"
        f" {home.tried}",
        "DeepSeek-V4-Pro with Terminus-2 on every dataset; its shares are those of 100 tasks with three attempts",
        tuple(parts),
        "" if home.others else "Name other datasets to compare with: `facet report DIR --compare FOLDER`.",
    )


def _printed(one: paper.PrintedSet) -> tuple[str, str, str]:
    return f"{one.pass_1:.2f} %", f"{one.pass_3:.2f} %", "100 (derived)"


def _ours(home: Home) -> tuple[object, ...]:
    solved = [row for row in home.rows if row.reward == 1]
    found = sample(home.tasks)
    tests = mean(list(map(float, checks_of(home).values())))
    turns = mean([float(row.turns) for row in solved])
    rates = (rate_text(found.p1), rate_text(found.p3), found.tasks) if home.tasks else ("", "", "")
    return ("this installation", len(solved), turns, len(home.accepted("certificate")), tests, *rates)


def _other(other: Foreign) -> tuple[object, ...]:
    found = other.sampled
    rates = (rate_text(found.p1), rate_text(found.p3), found.tasks) if found.tasks else ("", "", "")
    return (other.name, other.trajectories, other.turns, other.tasks, other.tests, *rates)


def _picture(home: Home) -> Part:
    tests = {one.name: one.tests for one in paper.DATASETS}
    own = {"this installation": mean(list(map(float, checks_of(home).values())))}
    own |= {other.name: other.tests for other in home.others}
    known = {name: value for name, value in own.items() if value is not None}
    shown = known | {f"paper: {name}": value for name, value in tests.items()}
    colours = [draw.OURS] * len(known) + [draw.INK] * len(tests)
    alt = "; ".join(f"{name} {value:.1f}" for name, value in shown.items())
    return draw.bars("Tests a task", alt, shown, unit="tests a task", colours=colours)


def _apart(home: Home, other: Foreign) -> list[Part]:
    every = home.typings.every.distribution()
    found = (
        ("programs that agents call", distance(every, other.commands.distribution())),
        ("families of tasks", distance(home.own_families, other.alike)),
    )
    rows = [(what, *_numbers(one)) for what, one in found]
    parts: list[Part] = [
        table(
            f"Distance to {other.name}",
            ("Of", "Jensen-Shannon (0-1)", "Total variation (0-1)", "Most apart, points"),
            rows,
            texts=(3,),
        )
    ]
    if found[1][1] is not None:
        parts.append(_families(home.own_families, other))
    texts = [f"{other.unread} files of {other.name} cannot be read and are left out."] if other.unread else []
    texts += [f"{other.untested} tasks of {other.name} show no test that can be counted."] if other.untested else []
    return [*parts, *map(Note, texts)]


def _numbers(found: Distance | None) -> tuple[str, str, str]:
    if found is None:
        return "", "", "nothing to compare"
    most = ", ".join(f"{name} {100 * share:+.1f}" for name, share in found.apart)
    return f"{found.jensen_shannon:.3f}", f"{found.total_variation:.3f}", most


def _families(own: Mapping[str, float], other: Foreign) -> Part:
    names = sorted({*own, *other.alike})
    groups = {
        name: [100 * of.get(family, 0) / sum(of.values()) for family in names]
        for name, of in (("this installation", own), (other.name, other.alike))
    }
    alt = f"Families of our tasks and those of {other.name}, by the same classifier"
    lines = [name.replace(" and ", " and\n") for name in names]
    return draw.columns(f"Families, beside {other.name}", alt, lines, groups, unit="% of tasks")
