"""R12: tests a task, turns a trajectory (Table 1)."""

from __future__ import annotations

from facet_dagster.reports.page import draw
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Section, mean, table


def checks_of(home: Home) -> dict[str, float]:
    """Certified task -> checks of its verifier in force."""
    return {key: result.numbers.get("checks", 0) for key, result in home.accepted("certificate").items()}


def section(home: Home) -> Section:
    """Both means, and how tests spread."""
    checks = list(map(float, checks_of(home).values()))
    solved = [float(row.turns) for row in home.rows if row.reward == 1]
    every = [float(row.turns) for row in home.rows]
    rows = [
        (
            "Tests a certified task",
            len(checks),
            mean(checks),
            min(checks, default=None),
            max(checks, default=None),
            "22.77",
        ),
        (
            "Turns a successful trajectory",
            len(solved),
            mean(solved),
            min(solved, default=None),
            max(solved, default=None),
            "11.86",
        ),
        ("Turns of every attempt", len(every), mean(every), min(every, default=None), max(every, default=None), ""),
    ]
    parts = [table("Tests and turns", ("", "Of", "Mean", "Least", "Most", "Paper"), rows)]
    pictures = []
    if checks:
        alt = f"{len(checks)} tasks have {min(checks):.0f} to {max(checks):.0f} tests, in the mean {mean(checks):.1f}"
        line = (22.77, "paper, mean 22.77")
        bins = max(5, min(30, int(max(checks) - min(checks)) + 1))
        pictures = [draw.histogram("Tests a task", alt, checks, unit="tests", line=line, bins=bins)]
    return Section(
        "tests",
        "Tests and turns",
        "Table 1",
        "a test is one check of the verifier in force, each tied to one requirement and reported by name; a turn is one"
        f" message of the agent; {home.made}",
        "executable checkpoints a task, average interaction turns a trajectory; its rule of counting is not printed",
        (*pictures, *parts),
        "" if checks else "No task is certified yet: `facet run` makes them.",
    )
