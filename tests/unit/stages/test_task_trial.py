from __future__ import annotations

from unittest import mock

import pytest

from facet_dagster.adapters.memory_sandbox import MemorySandbox, ended
from facet_dagster.domain.archive import Member, pack, pack_members, unpack
from facet_dagster.domain.environment import E0
from facet_dagster.domain.facts import CheckFact, TrialFact
from facet_dagster.domain.trial import TrialKind
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built
from facet_dagster.stages.task.images import Images, images
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.trial import RESULT_CAP, Conditions, Trials, read_result, trial_facts
from tests.fixtures import task_example as example
from tests.fixtures.task_bench import E0_STATUSES, GOOD, bench, results, sound

LIMITS = TaskLimits.of(7)
BOTH = Images("python:3.11-slim-bookworm", "python:3.11-slim-bookworm")
ONE = b'[{"id": "C1", "rid": "R1", "status": "pass", "message": ""}]'
BAD = b'[{"id": "C1", "rid": "R1", "status": "fail", "message": "x"}]'


@pytest.mark.parametrize(
    ("checks", "reward", "expected"),
    [
        (ONE, b"1", 1),
        (ONE, b"1\n", 1),
        (BAD, b"0", 0),
        (BAD, b"1", None),
        (ONE, b"0", None),
        (ONE, b"1.0", None),
        (ONE, b" 1", None),
        (ONE, b"true", None),
        (ONE, b"", None),
        (ONE, b"1\n1", None),
        (ONE, None, None),
        (None, b"0", None),
        (None, b"1", None),
        (b"[]", b"0", None),
        (b"{}", b"0", None),
        (b"no json", b"0", None),
        (b'[{"id": "C1"}]', b"0", None),
        (BAD.replace(b"fail", b"maybe"), b"0", None),
        (BAD.replace(b'"x"', b'"' + b"x" * RESULT_CAP + b'"'), b"0", None),
    ],
)
def test_a_reward_counts_only_beside_checks_that_agree(
    checks: bytes | None, reward: bytes | None, expected: int | None
) -> None:
    files = {"verifier/checks.json": checks, "verifier/reward.txt": reward}
    archive = pack({name: data for name, data in files.items() if data is not None}, folders=("verifier",))
    assert read_result(archive)[0] == expected


def test_no_logs_are_no_reward() -> None:
    assert read_result(None) == (None, ())


def test_a_reward_that_is_a_link_does_not_count() -> None:
    members = {
        "verifier/checks.json": Member("file", data=ONE),
        "verifier/reward.txt": Member("link", link="/app/one"),
    }
    assert read_result(pack_members(members))[0] is None


def trial(kind: TrialKind, sandbox: MemorySandbox) -> tuple[int | None, int]:
    done = Trials(BOTH, sandbox, LIMITS, "s").run(kind, b"ls\n")
    return done.reward, len(done.checks)


def test_baseline_and_oracle_take_the_same_path() -> None:
    sandbox = bench(sound)
    assert trial(TrialKind.BASELINE, sandbox) == (0, 13)
    assert trial(TrialKind.ORACLE, sandbox) == (1, 13)
    baseline, judged, oracle, judged_again = sandbox.runs
    assert (baseline.argv, oracle.argv) == (("true",), ("bash", "/solution/solve.sh"))
    assert (baseline.put, judged.argv, judged.user) == ((), ("bash", "/tests/test.sh"), "root")
    for run in (baseline, oracle):
        assert (run.user, run.workdir, run.collect) == ("agent", "/app", ("/app",))
        assert run.env["TZ"] == "UTC"
        assert run.env["HOME"] == "/home/agent"
    for run in sandbox.runs:
        assert (run.limits.seconds, run.limits.memory) == (7, LIMITS.memory_mb * 1024 * 1024)
    assert judged_again.put[0].target == "/"


def test_the_solution_is_roots_and_cannot_be_written() -> None:
    sandbox = bench(sound)
    trial(TrialKind.ORACLE, sandbox)
    member = unpack(sandbox.runs[0].put[0].archive)["solution/solve.sh"]
    assert (member.mode, member.uid, member.data) == (0o555, 0, b"ls\n")


def test_the_verifier_never_sees_the_solution() -> None:
    sandbox = bench(sound)
    trial(TrialKind.ORACLE, sandbox)
    assert "solution/solve.sh" not in unpack(sandbox.runs[1].put[0].archive)


def test_work_that_removed_its_folder_is_judged_as_an_empty_one() -> None:
    sandbox = bench(lambda text: E0_STATUSES, lambda text: ended(collected={"/app": None}))
    assert trial(TrialKind.ORACLE, sandbox) == (0, 13)
    assert set(unpack(sandbox.runs[1].put[0].archive)) == {"app"}


def test_conditions_reach_both_containers() -> None:
    sandbox = bench(sound)
    other = Conditions("other", {"TZ": "XXX-12"}, cpus=0.5, twice=True, shuffle=7)
    Trials(BOTH, sandbox, LIMITS, "s", attempt=3).run(TrialKind.ORACLE, b"ls\n", other)
    work, judged = sandbox.runs
    assert work.argv[-1].count("bash /solution/solve.sh") == 2
    assert [run.env["TZ"] for run in (work, judged)] == ["XXX-12", "XXX-12"]
    assert [run.limits.cpus for run in (work, judged)] == [0.5, 0.5]
    assert [run.attempt for run in (work, judged)] == [3, 3]
    assert (judged.env["FACET_SHUFFLE"], "FACET_SHUFFLE" in work.env) == ("7", False)


def test_facts_name_the_draft_and_every_check() -> None:
    done = Trials(BOTH, bench(sound), LIMITS, "s").run(TrialKind.ORACLE, b"ls\n")
    first, *rest = trial_facts(done, stage="task", key="k", draft="d", round=2, repeat=1)
    assert isinstance(first, TrialFact)
    assert (first.kind, first.draft, first.round, first.repeat, first.reward) == ("oracle", "d", 2, 1, 1)
    assert [(f.trial, f.check) for f in rest if isinstance(f, CheckFact)] == [(first.fact_id, c) for c in GOOD]


def test_the_verifier_image_is_built_from_the_tests_folder_and_removed() -> None:
    sandbox = bench(sound)
    with images(example.draft(), example.environment(), sandbox=sandbox, limits=LIMITS, packaged=True) as both:
        assert sandbox.image(both.verifier) is not None
    assert sandbox.image(both.verifier) is None
    assert sandbox.image(both.environment) is not None
    files = sandbox.builds[-1][1].files
    assert {"Dockerfile", "test.sh", "run_checks.py", "checks.py", "e0.json", "e0/RULES.md"} <= set(files)


def test_the_verifier_image_is_removed_also_when_a_trial_breaks_off() -> None:
    sandbox = bench(sound)
    with (
        pytest.raises(SandboxError),
        images(example.draft(), example.environment(), sandbox=sandbox, limits=LIMITS, packaged=True) as both,
    ):
        raise SandboxError("engine gone")
    assert sandbox.image(both.verifier) is None


def test_two_seeds_with_the_same_verifier_do_not_take_it_from_each_other() -> None:
    sandbox = bench(sound)
    with images(example.draft(), example.environment(), sandbox=sandbox, limits=LIMITS, packaged=True) as one:
        with images(example.draft(), example.environment(), sandbox=sandbox, limits=LIMITS, packaged=True) as other:
            assert one == other
        assert sandbox.image(one.verifier) is not None
    assert sandbox.image(one.verifier) is None


def test_a_verifier_image_that_vanishes_before_its_first_use_is_built_again() -> None:
    sandbox = bench(sound)
    build, vanish = sandbox.build, iter([True, True])

    def unlucky(context: BuildContext, *, subject: str, seconds: float = 600.0) -> Built | BuildFailed:
        built = build(context, subject=subject, seconds=seconds)
        if isinstance(built, Built) and "test.sh" in context.files and next(vanish, False):
            sandbox.remove_image(built.image)
        return built

    with (
        mock.patch.object(sandbox, "build", unlucky),
        images(example.draft(), example.environment(), sandbox=sandbox, limits=LIMITS, packaged=True) as both,
    ):
        assert sandbox.image(both.verifier) is not None
    assert next(vanish, None) is None


@pytest.mark.parametrize("mark", ["COPY . /tests/", "COPY --chown=agent:agent app/"])
def test_an_image_of_ours_that_does_not_build_is_trouble_of_the_machine(mark: str) -> None:
    sandbox = MemorySandbox(failures={mark: BuildFailed("RUN apt-get", 100, "no mirror", 1.0)})
    with (
        pytest.raises(SandboxError, match="no mirror") as caught,
        images(example.draft(), example.environment(), sandbox=sandbox, limits=LIMITS, packaged=True),
    ):
        pass
    assert caught.value.transient


def test_an_image_without_a_work_directory_is_never_an_empty_e0() -> None:
    sandbox = MemorySandbox(bases=("bare", example.BASE))
    environment = example.environment("bare")
    assert isinstance(environment.e0, E0)
    with (
        pytest.raises(SandboxError, match="has no /app"),
        images(example.draft(), environment, sandbox=sandbox, limits=LIMITS, packaged=True),
    ):
        pass


def test_results_helper_matches_the_runner() -> None:
    assert read_result(results(GOOD))[0] == 1
    assert read_result(results(E0_STATUSES))[0] == 0
