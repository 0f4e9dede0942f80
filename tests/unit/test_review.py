"""The review page: what it lists, what it shows, and that hostile texts stay texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import AttemptFact, AuditFact, ModelCallFact, SeedFact, SkillFact, StageFact
from facet_dagster.domain.outcome import Reason, StageResult, Value, Verdict, reject
from facet_dagster.domain.task import Task, TaskEdit, TaskRepairReply
from facet_dagster.funnel import Memo, plan
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.quarantine import quarantine
from facet_dagster.reports.seeds import SeedLine
from facet_dagster.review.app import review
from facet_dagster.review.index import PAGE, Index, Listed
from facet_dagster.settings import Settings
from tests.fixtures import task_example as example

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
GOOD, BAD = "261130-a00000000000", "261130-b00000000000"


class World:
    def __init__(self, home: Path) -> None:
        self.settings, self.ledger, self.store = Settings(home=home), MemoryLedger(), MemoryArtifactStore()
        for key, batch in ((GOOD, "night"), (BAD, "day")):
            self.ledger.append(
                [
                    SeedFact(
                        key=key,
                        batch=batch,
                        candidate="c",
                        first="folder-a1",
                        second="folder-b2",
                        scenario="s",
                        families=["data"],
                    )
                ]
            )
        self.ledger.append(
            [SkillFact(skill="folder-a1", version="1", bucket="a1", name=EVIL, origin=EVIL, verdict=Verdict.ACCEPTED)]
        )
        self.settle(GOOD, None)
        self.settle(BAD, "task")
        self.client = TestClient(review(self.settings, self.ledger, self.store), base_url="http://localhost:3001")

    def settle(self, key: str, lost_at: str | None) -> None:
        draft = example.draft(seed=key).model_copy(
            update={"instruction": example.INSTRUCTION.model_copy(update={"title": EVIL, "intro": EVIL})}
        )
        task = Task(seed=key, title=EVIL, draft=draft, environment=example.environment(), validations=())
        values: dict[str, Value] = {
            "task_draft": draft,
            "environment": task.environment,
            "certificate": example.CERTIFIED,
        }
        for stage in seed_stages(self.settings):
            (work,) = plan(stage, [key], self.ledger, Memo()).work
            why = reject(Reason.TASK_REPAIR_EXHAUSTED, EVIL, log_tail=EVIL) if stage.name == lost_at else None
            result = StageResult(
                stage=stage.name,
                key=key,
                input_digest=work.input_digest,
                verdict=Verdict.REJECTED if why else Verdict.ACCEPTED,
                rejection=why,
                output=self.store.put(values.get(stage.name, task).model_dump_json().encode()),
            )
            self.ledger.append(
                [
                    StageFact(
                        stage=stage.name, key=key, input_digest=work.input_digest, verdict=result.verdict, result=result
                    )
                ]
            )
            if why:
                break
        edit = TaskEdit(target="solve.sh", find="blank", replace=EVIL)
        reply = TaskRepairReply.model_validate({"component": "solution", "evidence": "e", "edits": [edit.model_dump()]})
        attempt = {"stage": "task", "key": key, "kind": "repair", "ok": True, "component": "solution", "summary": EVIL}
        sha = self.store.put(reply.model_dump_json().encode())
        self.ledger.append([AttemptFact.model_validate({**attempt, "round": 1, "artifact": sha})])
        call = {"call": "solution", "cache_key": "k", "tape_key": "t", "subject": key, "attempt": 0, "turn": 0}
        told = {"origin": "live", "model": "m", "prompt_tokens": 7, "completion_tokens": 5, "malformed": False}
        self.ledger.append([ModelCallFact.model_validate({**call, **told, "reply": "r", "seconds": 1.0, "cost": 0.25})])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def keys(text: str) -> list[str]:
    return re.findall(r'<a href="/seed/([\w-]+)">', text)


def test_the_list_is_filtered(world: World) -> None:
    assert keys(world.client.get("/").text) == [BAD, GOOD]
    for query, found in (
        ("verdict=rejected", [BAD]),
        ("reason=task.repair_exhausted", [BAD]),
        ("batch=night", [GOOD]),
        ("family=data", [BAD, GOOD]),
        ("family=ai", []),
        ("skill=folder-b", [BAD, GOOD]),
        ("skill=other", []),
        ("from=261201", []),
        ("to=261130&id=261130-a", [GOOD]),
        ("page=99", [BAD, GOOD]),
        ("page=%C2%B2", [BAD, GOOD]),
    ):
        assert keys(world.client.get(f"/?{query}").text) == found, query


def test_a_seed_shows_its_story(world: World) -> None:
    text = world.client.get(f"/seed/{BAD[:8]}").text
    for told in (
        "task.repair_exhausted",
        "solve.sh",
        "initial state",
        "C1",
        "folder-b2",
        "0.2500",
        "ancestors".title(),
    ):
        assert told in text, told
    assert re.search(r'<pre class="minus">blank</pre>', text)


def test_what_people_decided_is_shown_and_filtered(world: World) -> None:
    quarantine(world.ledger, GOOD, EVIL, name=EVIL)
    world.ledger.append([AuditFact(key=BAD, package="p", round=0, ok=False, note=EVIL)])
    world.client = TestClient(review(world.settings, world.ledger, world.store), base_url="http://localhost:3001")
    text = world.client.get(f"/seed/{GOOD}").text
    assert "This task is in quarantine" in text
    assert "<script" not in text
    assert "audit: defect" in world.client.get(f"/seed/{BAD}").text
    assert keys(world.client.get("/?people=quarantined").text) == [GOOD]
    assert keys(world.client.get("/?people=defect").text) == [BAD]


@pytest.mark.parametrize("path", ["/", f"/seed/{GOOD}", f"/seed/{BAD}", f"/?skill={EVIL}", f"/?id={EVIL}&page=2"])
def test_nothing_hostile_becomes_part_of_a_page(world: World, path: str) -> None:
    answer = world.client.get(path)
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert "<img" not in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy


def test_it_only_reads(world: World) -> None:
    for method in ("post", "put", "delete", "patch"):
        assert getattr(world.client, method)("/").status_code == 405
        assert getattr(world.client, method)(f"/seed/{GOOD}").status_code == 405


def test_names_of_other_machines_get_nothing(world: World) -> None:
    assert world.client.get("/", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/seed/nothing", "/seed/folder-a1", "/seed/2", "/seed/..%2f..%2fetc%2fpasswd", "/templates/base.html"]
)
def test_what_is_not_a_seed_is_said(world: World, path: str) -> None:
    answer = world.client.get(path)
    assert answer.status_code == 404
    assert "<script" not in answer.text


def test_pages_of_a_long_list_and_an_old_list_is_shown_at_once() -> None:
    made = list[int]()

    def load() -> list[Listed]:
        made.append(1)
        return [
            Listed(line=SeedLine(key=f"261130-{n:012x}", batch="b", families=()), skills=("a", "b")) for n in range(250)
        ]

    index = Index(load)
    assert [len(index.page({"page": str(n)}).lines) for n in (1, 2, 3, 4)] == [PAGE, PAGE, 50, 50]
    assert index.page({}).counts["batch"] == {"b": 250}
    assert len(made) == 1
