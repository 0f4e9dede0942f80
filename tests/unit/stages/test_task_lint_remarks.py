from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from facet_dagster.domain.environment import E0File, Environment, PlannedFile
from facet_dagster.domain.outcome import Component
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.lint import RULES, lint, lint_on, lint_remarks, lint_verifier
from tests.fixtures import task_example as example

OUT = "/app/out/totals.json"


def draft(body: str = "", *, helpers: str = "", intro: str = "", solve: str = "") -> Draft:
    """The example with another check 5, more helpers, a longer intro or another script."""
    verifier = example.with_check(5, body=body) if body else example.VERIFIER
    verifier = verifier.model_copy(update={"helpers": f"{example.HELPERS}\n{helpers}"})
    instruction = example.INSTRUCTION.model_copy(update={"intro": f"{example.INSTRUCTION.intro} {intro}"})
    solution = example.solution(solve) if solve else example.SOLUTION
    return example.draft(verifier=verifier, instruction=instruction, solution=solution)


def environment(**update: Any) -> Environment:
    """The example's, with parts of e0, manifest or recipe replaced."""
    base = example.environment()
    assert base.e0 is not None
    parts = {name: getattr(base, name).model_copy(update=update.get(name, {})) for name in ("e0", "manifest", "recipe")}
    return base.model_copy(update=parts)


def told(given: Draft, where: Environment | None = None, **scenario: Any) -> list[tuple[str, str]]:
    scene = example.SCENARIO
    if scenario:
        scene = scene.model_copy(update={"reconstruction": scene.reconstruction.model_copy(update=scenario)})
    return [(found.rule, found.text) for found in lint_remarks(given, where or environment(), scene)]


def test_the_example_has_no_remarks() -> None:
    assert told(example.draft()) == []


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ("unknown-literal", draft('assert totals() == "2024-07-01T10:00"')),
        ("unknown-literal", draft('assert totals() == {"north": 7431}')),
        ("unknown-literal", draft("totals()", helpers='def never():\n    return "zz-unheard-of"\n')),
        ("sampled-comparison", draft('assert text_of(APP / "data/sales.csv")[0] == "i"')),
        (
            "sampled-comparison",
            draft("now()", helpers="def now():\n    assert text_of(APP / 'data' / 'sales.csv') == 'x'\n"),
        ),
        ("parse-it", draft("assert re.search(r'\"north\"', text_of(APP / 'out/totals.json'))")),
        ("parse-it", draft(r"assert re.fullmatch(r'14\.4 \* 5', str(totals()))")),
        ("exact-beside-tolerance", draft('assert totals()["north"] == 1', intro="Each `north` is right within 0.01.")),
        ("raw-text", draft('assert (APP / "out/totals.json").read_text() == str(expected())')),
        ("raw-text", draft('assert text_of(APP / "out/rejects.csv").split("\\n")')),
        ("unsteady-verifier", draft("assert hash(str(totals())) == 1")),
        ("unsteady-verifier", draft("assert (APP / 'out').stat().st_mtime < 9")),
        ("undeclared-path", draft(intro="The map is in `/app/data/map.json`.")),
        ("unstated-output", draft('assert not (APP / "secret/thing.txt").exists()')),
    ],
)
def test_what_is_often_a_defect_is_said(rule: str, given: Draft) -> None:
    assert [name for name, _ in told(given)] == [rule]
    assert lint(given, example.SCENARIO, "RULES.md") == ()  # and refuses nothing


@pytest.mark.parametrize(
    "given",
    [
        draft('assert totals() == 1, "2024-07-01T10:00 was expected here"'),
        draft('rows = {"own_key_1": 1}\nassert totals() == rows["own_key_1"]'),
        draft('assert text_of(APP / "out/rejects.csv").encode("iso-8859-1")[:4000]'),
        draft('assert text_of(APP / "data/sales.csv") == text_of(E0 / "data/sales.csv")'),
        draft('assert (APP / "data/sales.csv").is_file()'),
        draft('assert re.fullmatch(r"[0-9]+[.][0-9]{2}", str(totals()))'),
        draft('assert abs(totals()["north"] - 1) <= 0.01', intro="Each `north` is right within 0.01."),
        draft('assert (APP / "data/regions.json").read_text() == (E0 / "data/regions.json").read_text()'),
        draft(intro="Write `/app/out/<name>.md` for none, and nothing to `/app/out`. /app/data/*.csv stay."),
    ],
)
def test_what_is_right_is_not_remarked(given: Draft) -> None:
    assert told(given) == []


@pytest.mark.parametrize(
    "path",
    ["/app/data/map.json", "/app/input/sales.csv", "/app/total.json"],
    ids=["nowhere", "wrong folder", "misspelt"],
)
def test_a_path_that_nobody_knows_refuses_the_instruction(path: str) -> None:
    problems = lint_on(draft(intro=f"See `{path}`."), environment(), example.SCENARIO)
    assert [(p.rule, p.component) for p in problems] == [("lost-path", Component.INSTRUCTION)]
    assert path in problems[0].text


@pytest.mark.parametrize(
    "given",
    [
        draft(intro="The rows are in `/app/data/sales.csv`, below `/app/data`."),
        draft(intro="Leave no `/app/work.tmp`.", solve=f"{example.SOLVE}rm -f /app/work.tmp\n"),
        draft("assert not (APP / 'keep/out.log').exists()", intro="Do not write `/app/keep/out.log`."),
        draft(intro="Write nothing to `/app/out/<name>.md`, nor to `/app/logs/*.txt`."),
    ],
)
def test_a_path_that_solution_or_verifier_knows_does_not(given: Draft) -> None:
    assert lint_on(given, environment(), example.SCENARIO) == ()


def test_a_literal_that_the_solution_s_result_bears_out_is_known() -> None:
    given = draft('assert totals() == "2024-07-01T10:00"')
    assert lint_remarks(given, environment(), example.SCENARIO, frozenset({"C5"})) == ()


@pytest.mark.parametrize(
    ("solve", "said"),
    [
        ("jq . data/regions.json", "calls jq, and the package jq"),
        ("cat x | sqlite3 y.db", "calls sqlite3"),
        ("awk '{ print gensub(/a/, \"b\", 1) }' x", "gensub of gawk"),
        ("awk '{ match($0, /a(b)/, m); print m[1] }' x", "match with three arguments of gawk"),
        ("awk 'BEGIN { PROCINFO[\"sorted_in\"] = 1 }'", "PROCINFO of gawk"),
        ("command -v jq && jq . x", ""),
        ("jq() { python3 -m json.tool; }\njq . x", ""),
        ("python3 - <<'PY'\nprint('; jq x')\nPY", ""),
        ("# jq is not there\ngrep jq x", ""),
        ("awk '{ match($0, /a/); print }' x", ""),
    ],
)
def test_programs_and_features_that_the_image_lacks(solve: str, said: str) -> None:
    found = told(draft(solve=solve), environment(e0={"package_versions": {"mawk": "1.3.4", "grep": "3.8"}}))
    assert [said in text for _, text in found] == ([True] if said else [])


def test_nothing_is_said_of_programs_while_the_packages_are_not_known() -> None:
    assert told(draft(solve="jq . x")) == []


@pytest.mark.parametrize(
    ("rules", "open_"),
    [
        (["1. At least 5 rows."], 0),
        (["4. At least 5 rows."], 1),
        (["4. Rows from start to end, inclusive."], 1),
        (["4. A row with n <= last counts."], 1),
        (["4. The name is exactly x; <name> stands for it, and a -> b."], 0),
    ],
)
def test_a_limit_needs_a_row_that_lies_on_it(rules: list[str], open_: int) -> None:
    assert [rule for rule, _ in told(example.draft(), rules=rules)] == ["boundary-row"] * open_


def generated(generator: str) -> Environment:
    files = [plan.model_copy(update={"how": "generated"}) for plan in example.MANIFEST.files[1:]]
    return environment(manifest={"files": files}, recipe={"generator": generator})


def test_one_stream_of_chance_for_several_files() -> None:
    one = "import random\nr = random.Random('x')\nprint(r.random())\n"
    assert [rule for rule, _ in told(example.draft(), generated(one))] == ["shared-random"]
    each = "from random import Random\ndef make(name):\n    return Random(name)\n"
    assert told(example.draft(), generated(each)) == []
    assert told(example.draft(), generated(one + "s = random.Random('y')\n")) == []


def planned(content: str, *, purpose: str = "p", encoding: str = "utf-8", final_newline: bool = True) -> Environment:
    plan = PlannedFile(path="x.txt", purpose=purpose, how="literal", encoding=encoding, rows=1)
    seen = E0File(path="/app/x.txt", type="file", mode="0644", uid=0, gid=0, size=9, content=content)
    seen = seen.model_copy(update={"encoding": "cp1252" if encoding != "utf-8" else "utf-8"})
    files = (seen.model_copy(update={"final_newline": final_newline}),)
    return environment(manifest={"files": [plan]}, e0={"files": (*example.environment().e0.files, *files)})  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("where", "hits"),
    [
        (planned("caf\u00e9\n", encoding="windows-1252"), 1),
        (planned("5 \u20ac\n", encoding="windows-1252"), 0),
        (planned("caf\u00e9\n"), 0),
        (planned("x", purpose="Its last line is torn."), 1),
        (planned("x", purpose="Its last line is torn.", final_newline=False), 0),
        (planned("x", purpose="The torn path x; line 3 is torn."), 0),
    ],
)
def test_what_a_file_is_planned_to_show(where: Environment, hits: int) -> None:
    assert [rule for rule, _ in told(example.draft(), where)] == ["encoding-claim"] * hits


EXPECTED = 'def expected_rows():\n    return rows_of(APP / "data" / "sales.csv")\n'


def test_expected_values_come_from_the_pristine_files() -> None:
    problems = lint_verifier(draft(helpers=EXPECTED).verifier, example.SCENARIO, example.INSTRUCTION)
    assert [(p.rule, p.component) for p in problems] == [("expectation-from-app", Component.VERIFIER)]
    assert "/app/data/sales.csv" in problems[0].text


@pytest.mark.parametrize(
    "helpers",
    [
        EXPECTED.replace("APP", "E0"),
        EXPECTED.replace("expected_rows", "current_rows"),
        EXPECTED.replace("data/sales.csv", "out/totals.json").replace('"data" / "sales.csv"', '"out/totals.json"'),
        'def expect_file():\n    assert (APP / "data/sales.csv").is_file()\n',
    ],
)
def test_other_helpers_may_read_what_the_work_left(helpers: str) -> None:
    assert lint_verifier(draft(helpers=helpers).verifier, example.SCENARIO, example.INSTRUCTION) == ()


def test_the_page_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lint.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{name}` | {rule.what} | {rule.component} | {'problem' if rule.refuses else 'remark'} |"
        for name, rule in RULES.items()
    ]
