"""Every task of the set is judged in real containers: the good ones are certified, each bad one is refused, and for
the right reason. docs/task_fixtures.md lists them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.dockerfile import DOCKERFILE, bare_verifier_dockerfile
from facet_dagster.domain.outcome import Component
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.lint import RULES
from tests.fixtures import task_example as example
from tests.fixtures import task_set
from tests.fixtures.task_judge import Judge, Verdict, found_by
from tests.fixtures.task_set import Bad, Expected

BAD = task_set.bad_tasks("lint", "trials", "place", "certificate", "model")
PAGE = Path(__file__).parents[2] / "docs" / "task_fixtures.md"
# What a certificate asks a reader about this one: the instruction wants one exact form, and an input holds the rows.
REMARKS = {"site-nginx": ("stands whole in the input data/moved.csv", ":quoted)", ":final_newline)")}
Verdicts = dict[str, Future[Verdict]]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    # The image in which every verifier of this machine runs: others may use it, so that it may stay.
    shared = sandbox.build(
        BuildContext({DOCKERFILE: bare_verifier_dockerfile(example.BASE, ()).encode()}), subject="verifier"
    )
    assert isinstance(shared, Built)
    judge = Judge(sandbox)
    yield judge
    judge.close()
    if not shared.reused:
        sandbox.remove_image(shared.image)
    sandbox.close()
    api = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    assert api.containers(all=True, filters={"label": f"{RUN}={sandbox.run_id}"}) == []
    images = api.images(filters={"label": f"{RUN}={sandbox.run_id}"})
    assert [tag for image in images for tag in image["RepoTags"] or [image["Id"]] if tag != shared.image] == []
    api.close()


@pytest.fixture(scope="module")
def verdicts(judge: Judge, request: pytest.FixtureRequest) -> Iterator[Verdicts]:
    """The selected tasks, four at a time: each test waits for its own."""
    wanted = [item.callspec.params["name"] for item in request.session.items if _is_of_the_set(item)]
    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(_judged, judge, name) for name in wanted}


def _is_of_the_set(item: pytest.Item) -> bool:
    return item.path == Path(__file__) and "name" in getattr(getattr(item, "callspec", None), "params", {})


def _judged(judge: Judge, name: str) -> Verdict:
    return judge.good(name) if name in task_set.GOOD else judge.bad(BAD[name])


@pytest.mark.docker
@pytest.mark.parametrize("name", task_set.GOOD)
def test_a_good_task_is_certified_and_nothing_is_to_be_remarked(name: str, verdicts: Verdicts) -> None:
    verdict = verdicts[name].result()
    assert verdict.rejection is None
    assert verdict.certificate is not None
    assert (verdict.certificate.level, verdict.certificate.oracle) == ("basic", (1, 1, 1))
    expected = REMARKS.get(name, ())
    assert len(verdict.remarks) == len(expected), verdict.remarks
    assert all(text in remark for text, remark in zip(expected, verdict.remarks, strict=True)), verdict.remarks


@pytest.mark.docker
@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_is_refused_for_the_right_reason(name: str, verdicts: Verdicts) -> None:
    found, wanted = found_by(verdicts[name].result()), BAD[name].expect
    assert found is not None, f"not refused: {BAD[name].defect}"
    assert as_wanted(found, wanted) == wanted, found.says


def as_wanted(found: Expected, wanted: Expected) -> Expected:
    """``found`` without what ``wanted`` does not name."""
    named = {field: getattr(found, field) for field in ("rule", "probe", "checks", "path") if getattr(wanted, field)}
    says = wanted.says if wanted.says in found.says else found.says
    return Expected(reason=found.reason, component=found.component, says=says, **named)


def test_the_set_is_as_large_and_as_various_as_it_says() -> None:
    assert len(task_set.GOOD) >= 10
    assert len(BAD) >= 30
    cases = {name: task_set.load(name) for name in task_set.GOOD}
    assert all(len(case.draft.verifier.checks) >= 12 for case in cases.values())
    own = [case for name, case in cases.items() if name not in task_set.service_cases.NAMES]
    assert all(len(case.scenario.reconstruction.discriminators) >= 3 for case in own)
    suffixes = {Path(path).suffix for case in cases.values() for path in case.draft.instruction.outputs}
    assert {".json", ".csv", ".db", ".toml", ".txt", ".sh", ".gz"} <= suffixes
    assert sum(bool(case.recipe.services) for case in cases.values()) >= 2


@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_differs_from_its_good_one_and_says_what_finds_it(name: str) -> None:
    bad: Bad = BAD[name]
    texts = task_set.sources(bad.good)
    assert task_set.edited(texts, bad.edits) != texts
    assert bad.expect.component in set(Component)
    assert not bad.expect.rule or bad.expect.rule in RULES
    named = (bad.expect.rule, bad.expect.probe, bad.expect.checks, bad.expect.path, bad.expect.says)
    assert any(named)


def test_the_page_lists_every_task() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    good = [row for row in rows if row.count("|") == 4]
    assert [row.split("`")[1] for row in good] == list(task_set.GOOD)
    assert [row for row in rows if row not in good] == [row_of(bad) for bad in BAD.values()]


def row_of(bad: Bad) -> str:
    by = bad.expect
    found = by.rule or by.probe or by.path or ", ".join(by.checks) or by.says
    return f"| `{bad.name}` | {bad.good} | {bad.defect} | {found} | {by.reason} | {by.component} |"
