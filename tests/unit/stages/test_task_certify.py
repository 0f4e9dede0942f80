from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.adapters.memory_sandbox import MemorySandbox
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.facts import ArtifactFact, CheckFact, TrialFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import Run
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.certificate.file_mutants import _spoken
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example
from tests.fixtures.certificate_bench import OUTPUTS, Files, bench, honest, right, twice
from tests.fixtures.task_bench import E0_STATUSES, GOOD

SECONDS = 9


def valid_task(**update: Any) -> Task:
    outcome = first_validation(
        example.draft(**update), example.environment(), example.SCENARIO, sandbox=bench(), trial_seconds=SECONDS
    )
    assert isinstance(outcome.value, Task)
    return outcome.value


def certified(sandbox: MemorySandbox, store: MemoryArtifactStore | None = None) -> Outcome:
    return certify(
        valid_task(),
        example.SCENARIO,
        example.SKILLS,
        sandbox=sandbox,
        store=store or MemoryArtifactStore(),
        trial_seconds=SECONDS,
        day=example.DAY,
    )


def certificate(sandbox: MemorySandbox) -> Certificate:
    value = certified(sandbox).value
    assert isinstance(value, Certificate)
    return value


def refused(sandbox: MemorySandbox) -> tuple[Rejection, list[str]]:
    """The rejection, and the ids of all probes that were made."""
    outcome = certified(sandbox)
    assert outcome.value is None
    assert outcome.rejection is not None
    return outcome.rejection, [_probe(f) for f in outcome.facts if isinstance(f, TrialFact)]


def _probe(fact: TrialFact) -> str:
    return fact.kind if "/" in fact.kind else f"{fact.kind}/{fact.repeat + 1}"


def test_a_sound_task_is_tried_in_order_and_nothing_is_to_be_remarked() -> None:
    found = certificate(bench())
    kinds = list(dict.fromkeys(probe.kind for probe in found.probes))
    assert [p.id for p in found.probes[:6]] == [
        "oracle/1",
        "baseline/1",
        "baseline/2",
        "oracle/2",
        "oracle/3",
        "twice/1",
    ]
    assert kinds == ["oracle", "baseline", "twice", "partial", "attack", "file_mutant", "equivalent"]
    assert all(probe.ok for probe in found.probes)
    assert (found.oracle, found.baseline, found.remarks) == ((1, 1, 1), (0, 0), ())
    assert (found.base_image, found.standin, found.day) == (example.BASE, False, "2026-11-30")
    assert found.image_id.startswith("sha256:")
    assert set(found.kills.kills) == {check.id for check in example.CHECKS}
    assert "partial/out/totals.json:removed" in found.kills.kills["C1"]
    assert "partial/out/totals.json:removed" not in found.kills.kills["C2"]


def test_trials_differ_in_their_conditions() -> None:
    sandbox = bench()
    certified(sandbox)
    works = [run for run in sandbox.runs if run.argv[-1] == "/solution/solve.sh"]
    plain, odd, slow = works[:3]
    assert (odd.env["TZ"], odd.env["LC_ALL"], odd.env["PYTHONHASHSEED"]) == ("XXX-12", "C", "12345")
    assert (plain.env["TZ"], plain.limits.cpus, slow.limits.cpus) == ("UTC", 1.0, 0.5)
    assert (plain.limits.seconds, slow.limits.seconds) == (SECONDS, 2 * SECONDS)
    assert plain.limits.memory == odd.limits.memory == 2 * slow.limits.memory
    orders = [run.env.get("FACET_SHUFFLE") for run in sandbox.runs if run.argv[-1] == "/tests/test.sh"]
    assert orders[:6] == [None, None, "1", "1", "2", None]


def test_every_probe_is_a_row_of_the_ledger() -> None:
    outcome = certified(bench())
    assert isinstance(outcome.value, Certificate)
    trials = [fact for fact in outcome.facts if isinstance(fact, TrialFact)]
    assert [_probe(fact) for fact in trials] == [probe.id for probe in outcome.value.probes]
    assert [f.kind for f in trials[:3]] == ["oracle", "baseline", "baseline"]
    gone = next(fact for fact in trials if fact.kind == "partial/out/totals.json:removed")
    assert [f.check for f in outcome.facts if isinstance(f, CheckFact) and f.trial == gone.fact_id] == ["C1"]
    assert outcome.numbers == {
        "oracle": 3,
        "baseline": 2,
        "checks": 13,
        "probes": len(trials),
        "not_as_wanted": 0,
        "remarks": 0,
    }


def test_the_package_holds_the_certificate_and_equal_trials_give_equal_packages() -> None:
    store = MemoryArtifactStore()
    one, other = certified(bench(), store), certified(bench(seconds=0.2), store)
    assert isinstance(one.value, Certificate)
    assert isinstance(other.value, Certificate)
    assert one.value.package == other.value.package
    files = unpack(store.get(one.value.package))
    assert 'certificate = "basic"\ncertificate_file = "certificate.json"' in files["task.toml"].data.decode()
    shipped = json.loads(files["certificate.json"].data)
    assert [probe["id"] for probe in shipped["probes"]] == [probe.id for probe in one.value.probes]
    assert shipped["kill_matrix"]["kills"]["C2"]
    (fact,) = [f for f in one.facts if isinstance(f, ArtifactFact)]
    assert (fact.sha256, fact.kind) == (digest(store.get(one.value.package)), "package")


def failing_in(number: int, ident: str = "C4") -> Any:
    """A judge that fails one check in the ``number``-th trial of whole work, from 1."""
    seen = []

    def judge(files: Files, run: Run) -> Mapping[str, str]:
        seen.extend([1] if all(right(files, path) for path in OUTPUTS) else [])
        return {**GOOD, ident: "fail"} if len(seen) == number else honest(files, run)

    return judge


@pytest.mark.parametrize(
    ("number", "last"), [(1, ["oracle/1"]), (2, ["oracle/1", "baseline/1", "baseline/2", "oracle/2"])]
)
def test_the_first_disagreement_is_flaky_and_ends_it(number: int, last: list[str]) -> None:
    rejection, probes = refused(bench(failing_in(number)))
    assert rejection.reason is Reason.TASK_FLAKY
    assert probes == last
    assert [c["id"] for c in rejection.evidence["failed"]] == ["C4"]


def moved(run: Run) -> Files:
    """Another result where the zone is another."""
    return {**OUTPUTS, "out/totals.json": b'{"north": 1}'} if run.env["TZ"] != "UTC" else OUTPUTS


def test_work_that_is_not_steady_is_the_solution_s_fault_unless_the_verifier_is_not_either() -> None:
    rejection, probes = refused(bench(left=moved))
    assert (rejection.reason, rejection.component, probes[-1]) == (Reason.TASK_FLAKY, Component.SOLUTION, "oracle/2")

    def judge(files: Files, run: Run) -> Mapping[str, str]:
        """Also what was accepted before is refused in another zone."""
        odd = run.env["TZ"] != "UTC" and "out/totals.json" in files
        return {**GOOD, "C4": "fail"} if odd else honest(files, run)

    for left in (moved, lambda run: OUTPUTS):
        rejection, _ = refused(bench(judge, left=left))
        assert (rejection.reason, rejection.component) == (Reason.TASK_FLAKY, Component.VERIFIER)


def test_a_check_of_e0_that_is_not_the_same_each_time_is_flaky() -> None:
    def judge(files: Files, run: Run) -> Mapping[str, str]:
        shuffled = "FACET_SHUFFLE" in run.env and "out/totals.json" not in files
        return {**E0_STATUSES, "C3": "pass"} if shuffled else honest(files, run)

    rejection, probes = refused(bench(judge))
    assert (rejection.reason, rejection.evidence["checks"]) == (Reason.TASK_FLAKY, ["C3"])
    assert probes[-1] == "baseline/2"


def test_a_solution_that_needs_most_of_its_time_is_refused_after_one_trial() -> None:
    rejection, probes = refused(bench(seconds=SECONDS * 0.6))
    assert (rejection.reason, probes) == (Reason.TASK_TIGHT_LIMITS, ["oracle/1"])


def doubled(run: Run) -> Files:
    return {path: data * (2 if twice(run) else 1) for path, data in OUTPUTS.items()}


def test_work_that_a_second_run_spoils_is_not_idempotent_unless_one_run_fails_as_well() -> None:
    rejection, probes = refused(bench(left=doubled))
    assert (rejection.reason, probes[-2:]) == (Reason.TASK_NOT_IDEMPOTENT, ["twice/1", "oracle/4"])
    rejection, _ = refused(bench(failing_in(4), left=doubled))
    assert rejection.reason is Reason.TASK_FLAKY


def test_partial_work_that_is_accepted_ends_it_before_the_attacks() -> None:
    def judge(files: Files, run: Run) -> Mapping[str, str]:
        return GOOD if right(files, "out/totals.json") else E0_STATUSES

    rejection, probes = refused(bench(judge))
    assert rejection.reason is Reason.TASK_PARTIAL_ACCEPTED
    assert rejection.evidence["probe"]["id"] == probes[-1] == "partial/out/rejects.csv:removed"


def test_an_attack_that_is_accepted_ends_it_before_the_mutants() -> None:
    def judge(files: Files, run: Run) -> Mapping[str, str]:
        return GOOD if all(path in files for path in OUTPUTS) else E0_STATUSES

    rejection, probes = refused(bench(judge))
    assert (rejection.reason, probes[-1]) == (Reason.TASK_ATTACK_ACCEPTED, "attack/empty")


RESPELLED = {**OUTPUTS, "out/totals.json": OUTPUTS["out/totals.json"] + b"\n"}


def test_work_on_inputs_that_could_not_be_cut_is_no_attack() -> None:
    """The solution leaves another spelling each time, which is right each time."""
    found = certificate(bench(eased=lambda solve: RESPELLED))
    assert not {"attack/eased", "attack/shortened"} & {probe.id for probe in found.probes}


def test_inputs_are_cut_together_and_then_the_longest_alone() -> None:
    fewer = example.SALES.encode().rpartition(b"7,")[0]

    def shortened(solve: bytes) -> Files:
        return {**RESPELLED, "data/sales.csv": fewer} if b'"/app/data/sales.csv"' in solve else {}

    rejection, probes = refused(bench(eased=lambda solve: {**RESPELLED, "data/sales.csv": fewer}))
    assert (rejection.reason, probes[-1]) == (Reason.TASK_ATTACK_ACCEPTED, "attack/eased")
    rejection, probes = refused(bench(eased=shortened))
    assert (rejection.reason, probes[-1]) == (Reason.TASK_ATTACK_ACCEPTED, "attack/shortened")


def test_a_surviving_mutant_and_a_refused_spelling_are_remarks() -> None:
    def judge(files: Files, run: Run) -> Mapping[str, str]:
        if b'"east": 0.0' not in files.get("out/totals.json", b'"east": 0.0'):
            return {**GOOD, "C6": "fail"}
        lenient = (
            {**files, "out/totals.json": OUTPUTS["out/totals.json"]}
            if b'"' in files.get("out/totals.json", b"")
            else files
        )
        return honest(lenient, run)

    found = certificate(bench(judge))
    assert any("A mutant is accepted: out/totals.json" in remark for remark in found.remarks), found.remarks
    assert {p.id for p in found.probes if not p.ok} == {r.rpartition("(")[2].partition(")")[0] for r in found.remarks}


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/home/agent/.cache/answer", OUTPUTS["out/totals.json"]),
        ("/opt/backup.gz", gzip.compress(b"# notes\n" + OUTPUTS["out/totals.json"])),
        ("/srv/solve.txt", example.SOLVE.encode()),
    ],
    ids=["output", "in a gz", "solution"],
)
def test_a_leaked_answer_ends_it_after_one_trial(path: str, data: bytes) -> None:
    rejection, probes = refused(bench(root={path: data}))
    assert (rejection.reason, probes) == (Reason.TASK_SOLUTION_LEAKED, ["oracle/1"])
    assert rejection.evidence["path"] == path


def test_only_valid_tasks_are_certified() -> None:
    task = valid_task().model_copy(update={"validations": ()})
    with pytest.raises(InvariantError):
        certify(
            task,
            example.SCENARIO,
            example.SKILLS,
            sandbox=bench(),
            store=MemoryArtifactStore(),
            trial_seconds=SECONDS,
            day=example.DAY,
        )


@pytest.mark.parametrize(
    ("kind", "texts", "spoken"),
    [
        ("crlf", "All results are UTF-8 text with LF line ends.", True),
        ("crlf", "The results are CSV files.", False),
        ("quoted", "A field stands in double quotes only when it holds a comma.", True),
        ("quoted", "The results are CSV files with LF line ends.", False),
        ("final_newline", "one LF at the end", True),
        ("final_newline", "the order ends at the last row", False),
        ("sort_keys", "the keys stand in the order of rule 4", True),
        ("sort_keys", "an object with the keys a and b", False),
        ("indent", "two blanks of indentation", True),
        ("row_order", "any order", False),
    ],
)
def test_a_spelling_that_the_texts_decide_may_be_refused(kind: str, texts: str, spoken: bool) -> None:
    assert _spoken(f"equivalent/out/a.csv:{kind}", texts) is spoken
    assert not _spoken(f"file_mutant/out/a.csv:{kind}", texts)
