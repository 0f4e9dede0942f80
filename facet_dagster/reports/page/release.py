"""R16 and R17: what to keep in mind, and what a release card says."""

from __future__ import annotations

from collections import Counter

from facet_dagster.domain.facts import RawSkillFact
from facet_dagster.reports.page import paper
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Section, percent, table
from facet_dagster.reports.provenance import licences

_LIMITS = (
    (
        "Rewards are 0 or 1: near-misses do not show in a success rate.",
        "checks, and near-misses as a dataset of their own",
    ),
    ("Only successful trajectories are trained on.", "failed ones are kept, with what each check said"),
    ("Forward had 5 repair rounds, Reverse and Joint 3.", "equal budgets, unless FACET_REPAIR_BUDGET says paper"),
    ("TW is a reproduction on the same pairs, not the original's number.", "so is our pipeline `recording`"),
    ("Skills are what people publish, not what users ask for.", "the same holds here"),
    ("Qwen3.6-27B is above the tuned 27B without any of this.", "compare with the newest base"),
    (
        "Three success rates of one dataset are printed: 20.94, 27.00, 25.1 %.",
        "every number here says how it was taken",
    ),
    ("A validated task may still be wrong.", "validated and certified are counted apart"),
)


def limits(home: Home) -> Section:
    """What the paper's numbers hide, and what ours do about it."""
    standin = [name for name in ("certificate",) if home.accepted(name)]
    texts = (
        [Note("Base images may be stand-ins made from Debian packages: `facet tasks` says which tasks.")]
        if standin
        else []
    )
    lines = table("Keep in mind", ("In the paper", "Here"), _LIMITS, texts=(1,))
    return Section("limits", "Limits", "Sections 4 and 5; our reading", home.made, "", (lines, *texts))


def card(home: Home) -> Section:
    """Validated and certified, and the licences and sources of the skills below."""
    good, shown = home.accepted("task"), home.accepted("certificate")
    lost = Counter(
        str(result.rejection.reason)
        for key, result in home.memo["certificate"].items()
        if key in good and key not in shown and result.rejection
    )
    counts = [
        ("Validated", len(good), f"{paper.RELEASED[0]:,}"),
        ("Certified, which is what is exported", len(shown), f"{paper.RELEASED[1]:,} published; reasons not stated"),
        *((f"Not certified: {reason}", count, "") for reason, count in lost.most_common()),
    ]
    skills = sorted({skill for key in shown for skill in home.seeds[key]})
    known = licences(skills, home.ledger)
    by_licence = Counter(known.get(skill, "none stated") for skill in skills).most_common()
    sources = Counter(_source(value, ident) for ident, value in _raw(home, set(skills)))
    rows = [(name, count, percent(count / len(skills))) for name, count in by_licence]
    parts = (
        table("Tasks", ("", "Ours", "Paper"), counts),
        table(f"Licences of the {len(skills)} skills below the certified tasks", ("Licence", "Skills", "Share"), rows),
        table("Where these skills come from, the most frequent", ("Source", "Skills"), sources.most_common(20)),
    )
    return Section(
        "card",
        "Release card",
        "Section 4; the published dataset",
        home.made,
        "6,078 validated tasks, 6,020 published",
        parts if shown else (),
        "" if shown else "No task is certified yet: `facet run` makes them.",
    )


def _raw(home: Home, skills: set[str]) -> list[tuple[str, dict[str, object]]]:
    return list(home.ledger.values(RawSkillFact, "skill", "value", skill=skills)) if skills else []


def _source(value: dict[str, object], ident: str) -> str:
    owner, slug = value.get("owner"), value.get("source")
    return "/".join(str(part) for part in (slug, owner) if part) or ident
