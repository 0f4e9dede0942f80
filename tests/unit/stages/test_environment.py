"""First build, capture, promises and the bounded repair loop."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.domain.archive import pack
from facet_dagster.domain.environment import E0, Environment, EnvironmentRepairReply
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.trial import ImageInfo, Limits, Reaped
from facet_dagster.errors import MalformedReply, SandboxError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import BuildContext, BuildFailed, Built, Run, RunOutcome, Session
from facet_dagster.prompts import render
from facet_dagster.stages.environment import apply_repair, capture, first_build, realise, rebuild
from tests.unit.stages.sample_scenario import OUTPUT, SEED, scenario

BASE = "python:3.11-slim-bookworm"
STATUS = b"Package: mawk\nStatus: install ok installed\nVersion: 1.3.4\n"
MANIFEST: dict[str, Any] = {
    "packages": ["jq", "python3"],
    "rules_file": "RULES.md",
    "files": [
        {"path": "RULES.md", "purpose": "rules", "how": "literal", "rows": 4},
        {"path": "data/orders.csv", "purpose": "orders", "how": "literal", "rows": 3, "discriminators": ["D1"]},
        {"path": "/app/data/customers.csv", "purpose": "customers", "how": "literal", "rows": 1},
    ],
}
RECIPE: dict[str, Any] = {
    "files": [
        {"path": "RULES.md", "content": "1. Read.\n2. At least 10000.\n"},
        {"path": "data/orders.csv", "content": "id,cents\no-901,10000\no-902,9999\no-903,10001\n"},
        {"path": "./data/customers.csv", "content": "id\nc-1\n"},
    ],
    "rows": [{"id": f"D{n}", "path": "/app/data/orders.csv", "find": f"o-90{n}"} for n in (1, 2, 3)],
}
GENERATED = deepcopy(MANIFEST)
GENERATED["files"].append({"path": "data/log.txt", "purpose": "log", "how": "generated", "rows": 2})
EDIT = {"path": "data/orders.csv", "find": "o-902,9999", "replace": "o-902,9998"}


class ImageShelf:
    """A sandbox without an engine: an image is its context's files below /app plus what its generator writes.

    ``failures`` are the results of the first builds; ``written`` stands for the generator's files.
    """

    def __init__(self, failures: tuple[BuildFailed, ...] = (), written: dict[str, bytes] | None = None) -> None:
        self._failures = list(failures)
        self._written = written or {}
        self.images: dict[str, dict[str, bytes]] = {}
        self.labels = {"facet.standin": BASE}
        self.builds: list[BuildContext] = []

    def build(
        self, context: BuildContext, *, subject: str, attempt: int = 0, seconds: float = 600.0
    ) -> Built | BuildFailed:
        self.builds.append(context)
        if self._failures:
            return self._failures.pop(0)
        tag = "task:" + hashlib.sha256(repr(sorted(context.files.items())).encode()).hexdigest()[:12]
        reused = tag in self.images
        written = self._written if "build/generate.py" in context.files else {}
        self.images[tag] = {**{k: v for k, v in context.files.items() if k.startswith("app/")}, **written}
        return Built(tag, reused, 0.1)

    def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
        if image not in self.images:
            return None
        return pack({"status": STATUS}) if path.endswith("/status") else pack(self.images[image], folders=["app"])

    def image(self, name: str) -> ImageInfo | None:
        if name != BASE and name not in self.images:
            return None
        return ImageInfo(f"sha256:{name}", {"LANG": "C.UTF-8", "GPG_KEY": "k"}, "", self.labels, 1)

    def run(self, run: Run) -> RunOutcome:
        raise AssertionError("nothing is ever started to build or capture an environment")

    def open(self, run: Run) -> AbstractContextManager[Session]:
        raise AssertionError("nothing is ever started to build or capture an environment")

    def hold(self, image: str) -> AbstractContextManager[bool]:
        return nullcontext(image in self.images)

    def remove_image(self, image: str) -> None:
        self.images.pop(image, None)

    def reap(self, *, images: bool = False, everything: bool = False) -> Reaped:
        return Reaped()


def failure(step: str = "RUN generate.py", log: str = "Traceback: KeyError 'x'") -> BuildFailed:
    return BuildFailed(step, 1, log, 0.5)


def start(shelf: ImageShelf, *, manifest: Any = MANIFEST, recipe: Any = RECIPE, **more: Any) -> Outcome:
    llm = ScriptedLLM({"manifest": [manifest], "environment": [recipe]})
    return first_build(SEED, scenario(), llm=llm, sandbox=shelf, base_image=BASE, build_seconds=60, **more)


def built(outcome: Outcome) -> Environment:
    assert isinstance(outcome.value, Environment)
    return outcome.value


def finish(
    first: Outcome, shelf: ImageShelf, *replies: Any, repairs: int = 3, **more: Any
) -> tuple[Outcome, ScriptedLLM]:
    llm = ScriptedLLM({"repair_environment": list(replies)})
    outcome = realise(built(first), scenario(), llm=llm, sandbox=shelf, repairs=repairs, build_seconds=60, **more)
    return outcome, llm


def repair(*edits: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"diagnosis": "d", "edits": list(edits), **more}


def with_file(path: str, content: str) -> dict[str, Any]:
    reply = deepcopy(RECIPE)
    reply["files"] = [f for f in reply["files"] if f["path"] != path] + [{"path": path, "content": content}]
    return reply


def test_a_first_build_is_one_accepted_attempt() -> None:
    outcome = start(ImageShelf())
    environment = built(outcome)
    assert outcome.rejection is None
    assert outcome.numbers == {"ok": 1.0}
    assert [(a.round, a.ok) for a in environment.attempts] == [(0, True)]
    assert environment.e0 is None
    assert environment.standin


def test_a_base_image_without_the_label_is_no_stand_in() -> None:
    shelf = ImageShelf()
    shelf.labels = {}
    assert not built(start(shelf)).standin


def test_paths_are_made_relative_and_provided_packages_dropped() -> None:
    environment = built(start(ImageShelf()))
    assert environment.recipe.packages == ("jq",)
    assert [f.path for f in environment.recipe.files] == ["RULES.md", "data/orders.csv", "data/customers.csv"]
    assert environment.manifest.files[2].path == "data/customers.csv"
    assert environment.recipe.rows[0].path == "data/orders.csv"


def test_a_failed_first_build_is_no_rejection() -> None:
    outcome = start(ImageShelf((failure(),)))
    assert outcome.rejection is None
    assert outcome.numbers == {"ok": 0.0}
    attempt = built(outcome).attempts[0]
    assert (attempt.failed_step, attempt.exit_code, attempt.log_tail) == (
        "RUN generate.py",
        1,
        "Traceback: KeyError 'x'",
    )


def test_a_policy_violation_is_a_failed_attempt_without_a_build() -> None:
    shelf = ImageShelf()
    attempt = built(start(shelf, recipe=with_file("../x", "y"))).attempts[0]
    assert attempt.failed_step == "policy"
    assert shelf.builds == []


def test_a_malformed_reply_is_the_callers_matter() -> None:
    with pytest.raises(MalformedReply):
        start(ImageShelf(), manifest={"files": []})


def test_a_missing_base_image_is_infrastructure() -> None:
    with pytest.raises(SandboxError, match="Base image"):
        start(ImageShelf((failure(f"FROM {BASE}", "no such image"),)))


def test_attempts_are_facts_and_recipes_blobs() -> None:
    store = MemoryArtifactStore()
    outcome = start(ImageShelf(), store=store)
    fact = next(f for f in outcome.facts if isinstance(f, AttemptFact))
    assert (fact.stage, fact.kind, fact.round, fact.ok) == ("first_build", "build", 0, True)
    assert fact.artifact
    assert store.has(fact.artifact)


def test_a_good_first_build_is_captured_without_a_model_call() -> None:
    shelf = ImageShelf()
    outcome, llm = finish(start(shelf), shelf)
    e0 = built(outcome).e0
    assert isinstance(e0, E0)
    assert outcome.rejection is None
    assert outcome.numbers == {"repairs": 0, "files": 3, "first_build_ok": 1.0}
    assert llm.asked == []
    assert e0.env == {"LANG": "C.UTF-8"}
    assert {"mawk", "python3"} <= set(e0.tools)


def test_discriminator_rows_are_captured() -> None:
    shelf = ImageShelf()
    e0 = built(finish(start(shelf), shelf)[0]).e0
    assert e0
    orders = next(f for f in e0.files if f.path == "/app/data/orders.csv")
    assert orders.rows == {"D1": "o-901,10000", "D2": "o-902,9999", "D3": "o-903,10001"}


def test_an_image_that_is_gone_is_built_again() -> None:
    shelf = ImageShelf()
    first = start(shelf)
    shelf.images.clear()
    assert finish(first, shelf)[0].rejection is None


def test_one_repair_after_a_failed_build() -> None:
    shelf = ImageShelf((failure(),))
    outcome, llm = finish(start(shelf), shelf, repair(EDIT))
    assert outcome.rejection is None
    assert outcome.numbers == {"repairs": 1, "files": 3, "first_build_ok": 0.0}
    assert [(a.round, a.ok) for a in built(outcome).attempts] == [(0, False), (1, True)]
    assert "o-902,9998" in built(outcome).recipe.files[1].content
    shown = llm.variables[0]["evidence"]
    assert (shown["round"], shown["failed_step"], shown["log_tail"]) == (
        0,
        "RUN generate.py",
        "Traceback: KeyError 'x'",
    )


def test_repair_prompts_render() -> None:
    shelf = ImageShelf((failure(),))
    _, llm = finish(start(shelf), shelf, repair(EDIT))
    assert "KeyError" in render("repair_environment", llm.variables[0], EnvironmentRepairReply).user


def test_the_tape_key_of_a_repair_does_not_depend_on_the_log() -> None:
    keys = set()
    for log in ("at 10:15", "at 10:16"):
        shelf = ImageShelf((failure(log=log),))
        _, llm = finish(start(shelf), shelf, repair(EDIT))
        keys.add(render("repair_environment", llm.variables[0], EnvironmentRepairReply).tape_key(0))
    assert len(keys) == 1


def test_exhausted_repairs_reject_with_evidence_and_keep_the_value() -> None:
    shelf = ImageShelf((failure(), failure(), failure("RUN apt-get", "E: no such package")))
    edits = [repair({**EDIT, "find": f"o-902,{a}", "replace": f"o-902,{b}"}) for a, b in [("9999", "8"), ("8", "7")]]
    outcome, _ = finish(start(shelf), shelf, *edits, repairs=2)
    assert outcome.rejection
    assert outcome.rejection.reason is Reason.ENVIRONMENT_REPAIR_EXHAUSTED
    assert outcome.rejection.component is Component.ENVIRONMENT
    assert outcome.rejection.evidence["failed_step"] == "RUN apt-get"
    assert outcome.rejection.evidence["log_tail"] == "E: no such package"
    assert outcome.numbers["repairs"] == 2
    assert len(built(outcome).attempts) == 3
    assert [f.round for f in outcome.facts if isinstance(f, AttemptFact)] == [1, 2]


def test_without_repair_rounds_a_failed_build_is_rejected_at_once() -> None:
    shelf = ImageShelf((failure(),))
    outcome, llm = finish(start(shelf), shelf, repairs=0)
    assert outcome.rejection
    assert llm.asked == []


def test_a_policy_violation_can_be_repaired() -> None:
    shelf = ImageShelf()
    first = start(shelf, recipe=with_file("out/report.json", "{}"))
    outcome, llm = finish(first, shelf, repair(remove_files=["out/report.json"]))
    assert outcome.rejection is None
    assert OUTPUT in llm.variables[0]["evidence"]["problems"][0]


def test_a_planned_file_that_the_generator_forgot_is_repaired() -> None:
    recipe = {**deepcopy(RECIPE), "generator": "print('nothing')"}
    shelf = ImageShelf()
    first = start(shelf, manifest=GENERATED, recipe=recipe)
    assert first.numbers == {"ok": 1.0}
    edit = repair({"path": "generator", "find": "print('nothing')", "replace": "open('data/log.txt', 'w').write('a')"})

    class Writes(ImageShelf):
        def build(
            self, context: BuildContext, *, subject: str, attempt: int = 0, seconds: float = 600.0
        ) -> Built | BuildFailed:
            forgotten = b"nothing" in context.files["build/generate.py"]
            self._written = {} if forgotten else {"app/data/log.txt": b"a\nb\n"}
            return super().build(context, subject=subject, attempt=attempt, seconds=seconds)

    shelf_later = Writes()
    outcome, llm = finish(first, shelf_later, edit)
    assert outcome.rejection is None
    assert outcome.numbers == {"repairs": 1, "files": 4, "first_build_ok": 0.0}
    shown = llm.variables[0]["evidence"]
    assert shown["failed_step"] == "initial state"
    assert shown["problems"] == ["data/log.txt is planned and the generator did not write it."]


def promises(written: dict[str, bytes], plan: dict[str, Any], **more: Any) -> tuple[str, ...]:
    """Problems of the first capture when the generator has written ``written``."""
    manifest = deepcopy(GENERATED)
    manifest["files"][-1] |= plan
    recipe = {**deepcopy(RECIPE), "generator": "pass", **more}
    shelf = ImageShelf(written={f"app/{path}": data for path, data in written.items()})
    outcome, _ = finish(start(shelf, manifest=manifest, recipe=recipe), shelf, repairs=0)
    return built(outcome).attempts[-1].problems


@pytest.mark.parametrize(
    ("data", "plan", "words"),
    [
        (b"", {}, "is empty"),
        (b"plain\n", {"encoding": "windows-1252"}, "add a character that shows the encoding"),
        ("é\n".encode(), {"encoding": "cp1252"}, "is utf-8"),
        (b"\x80\n", {"encoding": "utf-8"}, "is cp1252"),
        (b"a\n", {"encoding": "utf-16"}, "is ascii"),
        (b"\x00\x01", {}, "holds binary data"),
        (b"a\nb\n", {"newline": "crlf"}, "planned with crlf line ends and has lf"),
        (b"a\r\nb\r\n", {"newline": "lf"}, "has crlf"),
        (b"a\r\nb\r\n", {"newline": "mixed"}, "has crlf"),
    ],
)
def test_broken_promises_of_the_manifest_are_problems(data: bytes, plan: dict[str, Any], words: str) -> None:
    assert words in " ".join(promises({"data/log.txt": data}, plan))


@pytest.mark.parametrize(
    ("data", "plan"),
    [
        (b"", {"rows": 0}),
        (b"5 \x80\n", {"encoding": "windows-1252"}),
        (b"\xe9\n", {"encoding": "latin-1"}),
        ("a\n".encode("utf-16"), {"encoding": "utf-16"}),
        (b"\x00\x01", {"encoding": "binary", "newline": "none"}),
        (b"a\r\nb\n", {"newline": "mixed"}),
        (b"one line", {"newline": "crlf"}),
    ],
)
def test_kept_promises_are_no_problem(data: bytes, plan: dict[str, Any]) -> None:
    assert promises({"data/log.txt": data}, plan) == ()


def test_an_answer_that_the_generator_wrote_is_a_problem() -> None:
    found = promises({"data/log.txt": b"a\n", "out/report.json": b"{}"}, {})
    assert found == (f"{OUTPUT} exists before the work starts; nothing may create it at build.",)


def test_a_mark_that_is_nowhere_is_a_problem() -> None:
    rows = [*RECIPE["rows"], {"id": "D2", "path": "data/log.txt", "find": "e-42"}]
    assert "'e-42' of discriminator D2 is nowhere" in promises({"data/log.txt": b"a\n"}, {}, rows=rows)[0]


def test_refused_edits_cost_a_round_and_the_cause_stays_visible() -> None:
    shelf = ImageShelf()
    first = start(shelf, recipe=with_file("out/report.json", "{}"))
    wrong = repair({"path": "data/ghost.csv", "find": "x", "replace": "y"})
    outcome, llm = finish(first, shelf, wrong, repair(remove_files=["out/report.json"]))
    assert outcome.numbers["repairs"] == 2
    problems = llm.variables[1]["evidence"]["problems"]
    assert "no such file" in problems[0]
    assert OUTPUT in problems[1]
    assert len(shelf.builds) == 1


def test_a_malformed_repair_costs_a_round() -> None:
    shelf = ImageShelf((failure(),))
    outcome, llm = finish(start(shelf), shelf, {"nonsense": 1}, repair(EDIT))
    assert outcome.rejection is None
    assert outcome.numbers["repairs"] == 2
    assert "did not fit its schema" in llm.variables[1]["evidence"]["problems"][0]


def test_engine_trouble_is_no_attempt() -> None:
    class Broken(ImageShelf):
        def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
            raise SandboxError("no engine")

    shelf = Broken()
    with pytest.raises(SandboxError):
        finish(start(shelf), shelf)


def test_an_empty_capture_is_infrastructure() -> None:
    shelf = ImageShelf()
    shelf.images["i"] = {}
    with pytest.raises(SandboxError, match="no file below"):
        capture("i", sandbox=shelf, base_image=BASE)


def test_an_image_that_vanished_is_infrastructure() -> None:
    with pytest.raises(SandboxError, match="vanished"):
        capture("gone", sandbox=ImageShelf(), base_image=BASE)


def test_rebuild_adds_one_attempt_and_captures_anew() -> None:
    shelf = ImageShelf()
    environment = built(finish(start(shelf), shelf)[0])
    recipe, problems = apply_repair(environment.recipe, EnvironmentRepairReply.model_validate(repair(EDIT)))
    again = rebuild(environment, recipe, scenario(), sandbox=shelf, build_seconds=60)
    assert problems == []
    assert again.image != environment.image
    assert again.e0 != environment.e0
    assert [a.round for a in again.attempts] == [0, 1]
