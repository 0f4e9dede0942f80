"""How hard tasks are for an agent: P@1 and P@3 with intervals, in all and by tag, family and origin; what to look at.

P@1 is the share of attempts that succeed, P@3 that of tasks that one of the first three attempts solves (paper, Tables
1 and 10, whose printed shares are those of three attempts a task; Figure 4 is P@1 by tag).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from facet_dagster.domain.outcome import Value
from facet_dagster.reports.statistics import Rate, rate

TAGS = 20  # as many as the paper's Figure 4 shows


class Origin(StrEnum):
    """Whether a task was valid as it was written first (paper, Table 5)."""

    FIRST_PASS = "first-pass"  # noqa: S105 - no secret
    REPAIRED = "repaired"


class Band(StrEnum):
    """How often a task's attempts succeed. Tasks of the outer two are worth a look: nothing is learnt from them."""

    NEVER = "0 of k"
    HARD = "up to 1/3"
    MIDDLE = "1/3 to 2/3"
    EASY = "over 2/3"
    ALWAYS = "k of k"


class TaskAbout(Value):
    """By what tasks are grouped."""

    family: str
    tags: tuple[str, ...]
    origin: Origin


class TaskAttempts(Value):
    """A task with the rewards of its judged attempts, by number, and how many checks each missed."""

    key: str
    rewards: tuple[int, ...]
    missed: tuple[int, ...]
    checks: int = 0

    @property
    def solved(self) -> int:
        return sum(self.rewards)

    @property
    def band(self) -> Band:
        share = self.solved / len(self.rewards)
        if share in (0.0, 1.0):
            return Band.ALWAYS if share else Band.NEVER
        return Band.HARD if share <= 1 / 3 else Band.MIDDLE if share <= 2 / 3 else Band.EASY


class Group(Value):
    """Tasks with something in common. ``p1`` is over their judged attempts, ``p3`` over tasks with at least three.

    Attempts on one task are not independent: the interval of ``p1`` is too narrow where there are many on each.
    """

    name: str
    tasks: int
    p1: Rate
    p3: Rate
    bands: dict[str, int]


class Look(Value):
    """A task that every attempt, or none, solved, of at least two. ``why`` says what to look for first."""

    key: str
    solved: int
    attempts: int
    family: str
    origin: str
    why: str


class Difficulty(Value):
    """``tags`` are the most frequent ones, ordered by rate; the other groups are in the order of their names."""

    overall: Group
    tags: tuple[Group, ...]
    families: tuple[Group, ...]
    origins: tuple[Group, ...]
    look: tuple[Look, ...]


def difficulty(tasks: Sequence[TaskAttempts], about: Mapping[str, TaskAbout]) -> Difficulty:
    """Pure over values; tasks without a judged attempt are left out."""
    known = [task for task in tasks if task.rewards]
    by_tag, by_family, by_origin = (defaultdict[str, list[TaskAttempts]](list) for _ in range(3))
    for task in known:
        if task.key in about:
            of = about[task.key]
            by_family[of.family].append(task)
            by_origin[of.origin].append(task)
            for tag in dict.fromkeys(of.tags):
                by_tag[tag].append(task)
    frequent = sorted(by_tag.items(), key=lambda item: (-len(item[1]), item[0]))[:TAGS]
    tags = [group(name, found) for name, found in frequent]
    return Difficulty(
        overall=group("all", known),
        tags=tuple(sorted(tags, key=lambda one: (-(one.p1.rate or 0.0), one.name))),
        families=tuple(group(*item) for item in sorted(by_family.items())),
        origins=tuple(group(*item) for item in sorted(by_origin.items())),
        look=tuple(_look(task, about.get(task.key)) for task in known if _outer(task)),
    )


def group(name: str, tasks: Iterable[TaskAttempts]) -> Group:
    """The figures of some tasks."""
    known = [task for task in tasks if task.rewards]
    bands = {str(band): sum(task.band is band for task in known) for band in Band}
    return Group(
        name=name,
        tasks=len(known),
        p1=rate(sum(task.solved for task in known), sum(len(task.rewards) for task in known)),
        p3=pass_at_3(known),
        bands=bands,
    )


def pass_at_3(tasks: Iterable[TaskAttempts]) -> Rate:
    """Tasks that one of the first three attempts solved, of those that have so many."""
    enough = [task for task in tasks if len(task.rewards) >= 3]
    return rate(sum(any(task.rewards[:3]) for task in enough), len(enough))


def _outer(task: TaskAttempts) -> bool:
    return len(task.rewards) > 1 and task.band in (Band.NEVER, Band.ALWAYS)


def _look(task: TaskAttempts, about: TaskAbout | None) -> Look:
    return Look(
        key=task.key,
        solved=task.solved,
        attempts=len(task.rewards),
        family=about.family if about else "",
        origin=about.origin if about else "",
        why=_why(task),
    )


def _why(task: TaskAttempts) -> str:
    if task.band is Band.ALWAYS:
        return "every attempt solved it: is anything of it hard, or is the answer given away?"
    least = min(task.missed, default=0)
    if task.checks and least == task.checks:
        return "no attempt passed any check: does the instruction name every output?"
    if least == 0:
        return "no check says what was missed: was the verifier able to run?"
    if least == 1:
        return "one check stands between an attempt and the reward: is it stated in the instruction?"
    return f"the best attempt missed {least} of {task.checks} checks: hard, or not stated?"
