"""R4 and R6: what came of the attempts, and by how much the failed ones failed (section 4, Figure 2a)."""

from __future__ import annotations

from collections import Counter

from facet_dagster.reports.page import draw, paper
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Part, Section, percent, rate_text, table
from facet_dagster.reports.statistics import Rate, rate

MISSING = "No agent tried a task yet: set FACET_TEACHER and `facet run --until trajectories`."
PAPER = "DeepSeek-V4-Pro with Terminus-2; one attempt on each of 6,078 tasks, 6,066 completed; strict binary reward"
MANY = 15  # failed checks from which on a failure is counted as "more"


def outcome(home: Home) -> Section:
    """Attempts solved, checks passed, near-misses, what speaks against training."""
    rows = home.rows
    judged = [row for row in rows if row.reward is not None]
    solved = rate(sum(row.reward == 1 for row in judged), len(judged))
    checks = rate(sum(row.checks - row.missed for row in judged), sum(row.checks for row in judged))
    failed = [row for row in judged if row.reward == 0]
    near = rate(sum(row.near for row in failed), len(failed))
    accepted = rate(sum(not row.reasons for row in rows), len(rows))
    printed = rate(paper.ROLLOUTS["solved"], paper.ROLLOUTS["completed"])  # type: ignore[arg-type]
    lines = [
        ("Attempts", len(rows), "6,078"),
        ("Judged", rate_text(rate(len(judged), len(rows))), "6,066/6,078 = 99.8 %"),
        ("Solved, strictly", rate_text(solved), rate_text(printed)),
        ("Checks passed", rate_text(checks), "89.40 %"),
        ("Failures that miss one or two checks", rate_text(near), "54 %"),
        ("Fit for training", rate_text(accepted), "1,270 successes, 1,200 used"),
    ]
    reasons = Counter(reason for row in rows for reason in row.reasons)
    told = table("Against training on an attempt", ("Reason", "Attempts"), reasons.most_common())
    parts: tuple[Part, ...] = (table("Attempts", ("", "Ours", "Paper"), lines),)
    return Section(
        "rollouts",
        "Rollouts",
        "Section 4; section 3.5",
        home.tried,
        PAPER,
        (*_picture(solved, checks, near), *parts, *([told] if reasons else [])) if rows else (),
        "" if rows else MISSING,
    )


def _picture(solved: Rate, checks: Rate, near: Rate) -> list[Part]:
    named = {"solved": (solved, 20.94), "checks passed": (checks, 89.40), "failures missing 1-2 checks": (near, 54.0)}
    known = {name: (found, told) for name, (found, told) in named.items() if found.rate is not None}
    shares = {name: 100 * (found.rate or 0) for name, (found, _) in known.items()}
    bounds = {name: (100 * (found.low or 0), 100 * (found.high or 0)) for name, (found, _) in known.items()}
    marks = {name: told for name, (_, told) in known.items()}
    alt = "; ".join(f"{name} {share:.1f} %" for name, share in shares.items())
    return [draw.bars("Shares with 95 % intervals (Wilson)", alt, shares, marks=marks, bounds=bounds)] if known else []


def missed(home: Home) -> Section:
    """Figure 2a: how many checks failed attempts missed."""
    failed = [row for row in home.rows if row.reward == 0]
    counts = Counter(row.missed for row in failed if row.missed)
    silent = len(failed) - counts.total()
    names = {n: str(n) for n in range(1, MANY)} | {MANY: f"{MANY} or more"}
    binned = {name: sum(c for m, c in counts.items() if min(m, MANY) == n) for n, name in names.items()}
    lines = [(name, count, percent(count / counts.total() if counts else None)) for name, count in binned.items()]
    near = counts[1] + counts[2]
    share = percent(near / counts.total() if counts else None)
    note = Note(
        f"{near:,} of {counts.total():,} failures miss one or two checks ({share or 'none'}; paper: 54 %). {silent:,}"
        " failed attempts tell no checks and are left out (paper: 3)."
        f" {sum(row.spoilt for row in failed):,} checks ended in an error and not in a failure; both are counted."
    )
    pictures = []
    if counts:
        while len(binned) > 3 and not list(binned.values())[-1]:
            binned.popitem()
        alt = "; ".join(f"{name}: {count}" for name, count in binned.items())
        pictures = [
            draw.columns(
                "Failed checks of failed attempts", alt, list(binned), {"attempts": list(map(float, binned.values()))},
                unit="attempts", note="checks that did not pass",
            )
        ]  # fmt: skip
    return Section(
        "missed",
        "By how much failures fail",
        "Figure 2a",
        home.tried,
        f"{PAPER}; failed and errored checks of unsuccessful rollouts",
        (*pictures, table("Failures by missed checks", ("Checks missed", "Attempts", "Share"), lines), note)
        if failed
        else (),
        "" if failed else MISSING if not home.rows else "No attempt failed.",
    )
