"""P@1, P@3, bands, groups, and the tasks that are worth a look."""

from __future__ import annotations

import pytest

from facet_dagster.reports.difficulty import Band, Difficulty, Origin, TaskAbout, TaskAttempts, difficulty


def tried(key: str, *rewards: int, missed: tuple[int, ...] = (), checks: int = 10) -> TaskAttempts:
    return TaskAttempts(key=key, rewards=rewards, missed=missed or tuple(0 if r else 2 for r in rewards), checks=checks)


def about(*tags: str, origin: Origin = Origin.FIRST_PASS, family: str = "structured data") -> TaskAbout:
    return TaskAbout(family=family, tags=tags, origin=origin)


TASKS = [
    tried("never", 0, 0, 0),
    tried("hard", 0, 0, 1),
    tried("easy", 1, 1, 0, 1),
    tried("always", 1, 1, 1),
    tried("once", 1),
    tried("unjudged"),
]
ABOUT = {
    "never": about("csv", "sql"),
    "hard": about("csv", origin=Origin.REPAIRED),
    "easy": about("csv"),
    "always": about("sql", origin=Origin.REPAIRED),
    "once": about("json", family="media processing"),
}


@pytest.fixture
def found() -> Difficulty:
    return difficulty(TASKS, ABOUT)


def test_p_at_1_is_over_attempts_and_p_at_3_over_tasks_with_three(found: Difficulty) -> None:
    whole = found.overall
    assert (whole.tasks, whole.p1.count, whole.p1.of) == (5, 8, 14)
    assert (whole.p3.count, whole.p3.of) == (3, 4)
    assert whole.p3.low == pytest.approx(0.3006, abs=1e-3)


def test_bands(found: Difficulty) -> None:
    assert found.overall.bands == {"0 of k": 1, "up to 1/3": 1, "1/3 to 2/3": 0, "over 2/3": 1, "k of k": 2}
    assert tried("x", 1, 0).band is Band.MIDDLE


def test_groups(found: Difficulty) -> None:
    assert [(group.name, group.tasks) for group in found.tags] == [("json", 1), ("sql", 2), ("csv", 3)], "by rate"
    assert [(group.name, group.p1.of) for group in found.origins] == [("first-pass", 8), ("repaired", 6)]
    assert [group.name for group in found.families] == ["media processing", "structured data"]


def test_only_the_most_frequent_tags_are_shown() -> None:
    many = {f"t{n}": about(*(f"tag{m:02d}" for m in range(n, 30))) for n in range(30)}
    tags = difficulty([tried(key, 1) for key in many], many).tags
    assert len(tags) == 20
    assert min(tag.tasks for tag in tags) == 11


def test_tasks_at_either_end_are_flagged_with_a_question(found: Difficulty) -> None:
    assert [one.key for one in found.look] == ["never", "always"], "not the one with a single attempt"
    assert [one.origin for one in found.look] == ["first-pass", "repaired"]


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (tried("a", 1, 1), "given away"),
        (tried("a", 0, 0, missed=(10, 10)), "name every output"),
        (tried("a", 0, 0, missed=(0, 0)), "able to run"),
        (tried("a", 0, 0, missed=(4, 1)), "one check stands"),
        (tried("a", 0, 0, missed=(4, 3)), "missed 3 of 10"),
    ],
)
def test_the_question_depends_on_what_was_missed(task: TaskAttempts, why: str) -> None:
    assert why in difficulty([task], {}).look[0].why
