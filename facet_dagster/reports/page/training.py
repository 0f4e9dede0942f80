"""R13 and R14: what there is to train on, and what training gave (section 3.5, Tables 2 and 9)."""

from __future__ import annotations

from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason
from facet_dagster.reports.page import draw, paper
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Part, Section, cell, mean, table
from facet_dagster.reports.page.rollouts import MISSING


def manifest(home: Home) -> Section:
    """The accepted trajectories: how many, how long, under which hash."""
    kept = [row for row in home.rows if not row.reasons]
    long = sum(Reason.ROLLOUT_TOO_LONG in row.reasons for row in home.rows)
    solved = sum(row.reward == 1 for row in home.rows)
    tokens = [float(row.tokens) for row in kept]
    lines = [
        ("Successful attempts", solved, "1,270"),
        ("Accepted trajectories", len(kept), "1,200 used; the rule is not stated"),
        ("On tasks", len({row.seed for row in kept}), ""),
        ("Too long, and so left out", long, ""),
        ("Tokens in all", cell(round(sum(tokens))), ""),
        ("Tokens in the mean", None if not tokens else cell(round(mean(tokens) or 0)), ""),
        ("Tokens in the longest", None if not tokens else cell(round(max(tokens))), "at most 32,768"),
        ("Hash of the set", digest(sorted(row.trajectory for row in kept))[:16] if kept else None, ""),
    ]
    parts: list[Part] = [table("Accepted trajectories", ("", "Ours", "Paper"), lines)]
    if tokens:
        most = home.settings.trajectory_tokens
        alt = f"{len(kept)} trajectories of {min(tokens):,.0f} to {max(tokens):,.0f} tokens"
        line = (float(most), f"longest that is trained on: {most:,}")
        parts.insert(0, draw.histogram("Tokens a trajectory", alt, tokens, unit="tokens", line=line))
    parts.append(table("The paper's training (Table 9)", ("", ""), paper.TRAINING, texts=(1,)))
    parts.append(
        Note("`facet export sft DIR` chooses among them (one a task, families in balance) and writes its own manifest.")
    )
    return Section(
        "sft",
        "What to train on",
        "Section 3.5, Table 9",
        f"tokens by {home.tokenizer}; accepted: solved, whole, honest, at most {home.settings.trajectory_tokens:,}"
        f" tokens; {home.tried}",
        "complete successful trajectories of DeepSeek-V4-Pro with Terminus-2",
        tuple(parts) if home.rows else (),
        "" if home.rows else MISSING,
    )


def results(home: Home) -> Section:
    """Table 2. Ours are those of evaluations, which this page does not make."""
    del home
    trained = [
        (name, f"{a:.2f}", f"{b:.2f}", f"{b - a:+.2f}", f"{100 * (b / a - 1):+.1f} %") for name, a, b in paper.TRAINED
    ]
    others = [(name, f"{score:.2f}", how) for name, score, how in paper.OTHERS]
    names = [name for name, _, _ in paper.TRAINED]
    groups = {"paper: as it is": [a for _, a, _ in paper.TRAINED], "trained (paper)": [b for _, _, b in paper.TRAINED]}
    alt = "; ".join(f"{name} {a:.2f} to {b:.2f}" for name, a, b in paper.TRAINED)
    parts = (
        draw.columns("Terminal-Bench 2.1", alt, names, groups, unit="% of tasks"),
        table("Trained on 1.2K trajectories", ("Model", "Before", "After", "Points", "Relative"), trained),
        table("Others", ("Model", "Score", ""), others, texts=(2,)),
    )
    return Section(
        "results",
        "What training gave",
        "Table 2",
        "none in this page",
        "Terminal-Bench 2.1 with Terminus-2; three attempts a task, mean; 2 h an attempt; temperature 1.0; 32,768"
        " tokens of context for trained models, the official maximum for others",
        parts,
        "The paper's figures alone: ours come from evaluating a base and a trained model on the same benchmark.",
    )
