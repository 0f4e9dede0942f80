"""One small aligned scenario, as replies and as the value that later stages get."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.seed import Seed

OUTPUT = "/app/out/report.json"
RULES = ["1. Read orders.csv.", "2. An order of at least 10000 cents is large.", "3. Sort by id.", "4. Write JSON."]

SEED = Seed(
    key="261130-0123456789ab", candidate="c", skills=("a-1", "b-2"), scenario="Orders.", families=("data", "data")
)
BODY = "# Orders\n\nRead every order first. A *large* order has at least 100 euros.\nSort orders by their id.\n"
QUOTES = ("Read every order first", "order has at least 100 euros", "sort orders by their id")
ANALYSIS: dict[str, Any] = {
    "skills": [
        {
            "ref": ref,
            "purpose": "p",
            "operations": [{"id": f"{ref}{n}", "text": "o", "quote": QUOTES[n - 1]} for n in (1, 2, 3)],
            "formats": [],
            "invariants": [],
            "offline_form": "files",
        }
        for ref in "AB"
    ],
    "explored": ["one", "two"],
    "chosen": "one",
    "why": "both",
}
RECONSTRUCTION: dict[str, Any] = {
    "kept": ["a"],
    "dropped": [],
    "initial_state": ["/app/RULES.md holds the rules.", "/app/data/orders.csv, /app/data/customers.csv exist."],
    "transitions": [{"id": "T1", "do": "report", "pre": "none", "post": f"{OUTPUT} exists"}],
    "final_state": [f"{OUTPUT} lists the large orders."],
    "rules": RULES,
    "discriminators": [
        {"id": f"D{n}", "rule": "2", "wrong_reading": "more than", "row": f"o-90{n},10000"} for n in (1, 2, 3)
    ],
}
REFERENCES: dict[str, Any] = {
    "title": "Large orders",
    "family": "analytics and visualisation",
    "scenario": "Someone needs the large orders.",
    "dimensions": {"goal": "g", "context": "c", "capability": [], "state": [], "io_and_tools": []},
    "solution_reference": [f"Read /app/data/orders.csv and write {OUTPUT}."],
    "instruction_goal": "Report the large orders.",
    "requirements": [
        {
            "rid": "R1",
            "text": f"{OUTPUT} is JSON with the key large.",
            "skill": "A",
            "sources": ["A1"],
            "kind": "output",
        },
        {"rid": "R2", "text": f"large in {OUTPUT} follows rule 2.", "skill": "B", "sources": ["B2"], "kind": "output"},
        {"rid": "R3", "text": f"Ids in {OUTPUT} are sorted.", "skill": "AB", "sources": ["A3", "B3"], "kind": "output"},
        {"rid": "R4", "text": "/app/data/orders.csv stays unchanged.", "skill": "A", "kind": "invariant"},
    ],
    "outputs": [OUTPUT],
}
ALIGNMENT: dict[str, Any] = {
    "initial_same": True,
    "final_same": True,
    "steps": [{"step": 1, "rids": ["R1", "R2", "R3"]}],
}


def changed(reply: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A deep copy of ``reply`` with some fields replaced."""
    return {**deepcopy(reply), **values}


def scenario() -> Scenario:
    return Scenario.model_validate(
        {"seed": SEED.key, "analysis": ANALYSIS, "reconstruction": RECONSTRUCTION, "references": REFERENCES}
    )
