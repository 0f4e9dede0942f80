"""What a recipe may hold, what a generator may do, and how edits are made."""

from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.domain.environment import EnvironmentRepairReply, ManifestReply, Recipe, RecipeReply
from facet_dagster.stages.environment.edits import apply_repair, compose, plain_manifest
from facet_dagster.stages.environment.generator import generator_problems
from facet_dagster.stages.environment.policy import policy_problems

PLANS = [
    {"path": path, "purpose": "p", "how": "literal", "rows": 1} for path in ("RULES.md", "data/a.csv", "data/b.csv")
]
OUTPUTS = ["/app/out/report.json", "/app/summary.csv"]


def manifest(*more: dict[str, Any]) -> ManifestReply:
    plans = [{"purpose": "p", "how": "literal", "rows": 1, **plan} for plan in more]
    return ManifestReply.model_validate({"packages": [], "rules_file": "RULES.md", "files": [*PLANS, *plans]})


def recipe(*more: tuple[str, str], **values: Any) -> Recipe:
    files = [(str(plan["path"]), "text\n") for plan in PLANS]
    return Recipe.model_validate(
        {
            "packages": ["jq"],
            "rules_file": "RULES.md",
            "files": [{"path": path, "content": content} for path, content in [*files, *more]],
            **values,
        }
    )


def problems(given: Recipe, planned: ManifestReply | None = None, discriminators: tuple[str, ...] = ()) -> str:
    return "\n".join(policy_problems(given, planned or manifest(), OUTPUTS, discriminators))


def test_a_plain_recipe_has_no_problems() -> None:
    assert problems(recipe(("data/über uns.txt", "x"))) == ""


@pytest.mark.parametrize("name", ["jq", "sqlite3", "libxml2-utils", "g++", "python3.11"])
def test_ordinary_packages_are_allowed(name: str) -> None:
    assert problems(recipe(packages=[name])) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jq=1.6", "not the name"),
        ("--yes", "not the name"),
        ("jq; rm -rf /", "not the name"),
        ("$(id)", "not the name"),
        ("bash-", "not the name"),
        ("JQ", "not the name"),
        ("openssh-server", "not allowed"),
        ("docker.io", "not allowed"),
        ("systemd-sysv", "not allowed"),
        ("sudo", "not allowed"),
        ("python3-yaml", "standard library"),
    ],
)
def test_other_packages_are_refused(name: str, words: str) -> None:
    assert words in problems(recipe(packages=[name]))


def test_packages_are_counted() -> None:
    assert "at most 12" in problems(recipe(packages=[f"p{n}" for n in range(13)]))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/etc/passwd", "relative to /app"),
        ("", "relative to /app"),
        ("../x", "'..'"),
        ("a/../../x", "'..'"),
        ("a//b", "no empty part"),
        ("a/", "no empty part"),
        ("solution/solve.sh", "reserved"),
        ("tests/test.sh", "reserved"),
        ("Tests/x", "reserved"),
        (".git/config", "reserved"),
        ("repo/.git/config", "reserved"),
        ("a\nb", "printable"),
        ("a\\b", "backslash"),
        ("x" * 151, "150 characters"),
        ("generator", "another"),
    ],
)
def test_paths_stay_inside_the_work_directory(path: str, words: str) -> None:
    assert words in problems(recipe((path, "x")))
    assert words in problems(recipe(), manifest({"path": path}))


def test_an_input_may_lie_in_a_folder_called_logs() -> None:
    assert problems(recipe(("logs/a.log", "x"))) == ""
    assert "reserved" not in problems(recipe(), manifest({"path": "logs/a.log", "how": "generated"}))


def test_a_path_occurs_once() -> None:
    assert "occurs 2 times" in problems(recipe(("data/a.csv", "x")))


def test_a_file_is_no_folder_of_another() -> None:
    assert "also a folder of data/a.csv/x" in problems(recipe(("data/a.csv/x", "x")))
    assert "also a folder" not in problems(recipe(("data/a.csv.bak", "x")))


@pytest.mark.parametrize("path", ["out/report.json", "summary.csv", "out", "summary.csv/part"])
def test_answers_must_not_be_there_before_the_work(path: str) -> None:
    assert "must not hold an answer" in problems(recipe((path, "x")))


def test_a_planned_answer_is_refused_too() -> None:
    planned = manifest({"path": "out/report.json", "how": "generated"})
    assert "must not hold an answer" in problems(recipe(generator="pass"), planned)


def test_a_file_beside_an_answer_is_fine() -> None:
    assert problems(recipe(("out/README.txt", "x"))) == ""


def test_sizes_are_bounded() -> None:
    assert "more than 16384" in problems(recipe(("big", "é" * 9_000)))
    assert "bytes together" in problems(recipe(*[(f"f{n}", "x" * 15_000) for n in range(4)]))
    assert "literal files; at most 40" in problems(recipe(*[(f"f{n}", "x") for n in range(38)]))


@pytest.mark.parametrize("values", [{"rules_file": "OTHER.md"}, {"rules_file": "empty.md"}])
def test_the_rules_file_is_literal_and_not_empty(values: dict[str, str]) -> None:
    assert "rules file" in problems(recipe(("empty.md", " \n"), **values))


@pytest.mark.parametrize(
    ("plan", "files", "generator", "words"),
    [
        ({"path": "data/c.csv"}, (), "", "missing from the files"),
        ({"path": "data/c.csv", "how": "generated"}, (("data/c.csv", "x"),), "pass", "keep one of the two"),
        ({"path": "data/c.csv", "how": "generated"}, (), "", "there is no generator"),
    ],
)
def test_manifest_and_files_agree(plan: dict[str, Any], files: Any, generator: str, words: str) -> None:
    assert words in problems(recipe(*files, generator=generator), manifest(plan))


def test_a_generated_file_is_not_expected_among_the_literal_ones() -> None:
    assert problems(recipe(generator="pass"), manifest({"path": "data/c.csv", "how": "generated"})) == ""


@pytest.mark.parametrize(
    ("encoding", "content", "words"),
    [
        ("latin-47", "x", "is not known"),
        ("windows-1252", "→", "does not exist in"),
        ("ascii", "é", "does not exist in"),
    ],
)
def test_encodings_must_hold_the_text(encoding: str, content: str, words: str) -> None:
    planned = manifest({"path": "data/c.csv", "encoding": encoding})
    assert words in problems(recipe(("data/c.csv", content)), planned)


def test_every_discriminator_has_a_row() -> None:
    rows = [{"id": "D1", "path": "data/a.csv", "find": "o-1"}]
    assert "Discriminator D2 has no row" in problems(recipe(rows=rows), None, ("D1", "D2"))
    assert problems(recipe(rows=rows), None, ("D1",)) == ""


def test_a_row_stands_in_a_known_file() -> None:
    assert "no file of the environment" in problems(recipe(rows=[{"id": "D1", "path": "ghost", "find": "xx"}]))


GOOD = """\
import csv, gzip, json, os, sqlite3, zipfile
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
import random

rng = random.Random("data/events.jsonl")
other = Random("data/b.csv")
os.makedirs("data", exist_ok=True)
start = datetime(2024, 3, 1)
with open("data/events.jsonl", "w", encoding="utf-8", newline="\\n") as out:
    for n in range(3):
        out.write(json.dumps({"id": n, "at": (start + timedelta(seconds=rng.randrange(9))).isoformat()}) + "\\n")
Path("data/x.gz").write_bytes(gzip.compress(b"a", mtime=0))
"""


@pytest.mark.parametrize("source", ["", "  \n", GOOD])
def test_a_deterministic_generator_is_allowed(source: str) -> None:
    assert generator_problems(source) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import time", "module time"),
        ("import uuid", "module uuid"),
        ("import secrets", "module secrets"),
        ("import subprocess", "module subprocess"),
        ("import socket", "module socket"),
        ("import urllib.request", "module urllib.request"),
        ("from http import client", "module http"),
        ("import numpy", "module numpy"),
        ("from . import x", "module ."),
        ("import random as r", "under its own name"),
        ("from random import choice", "do not import choice"),
        ("from random import *", "do not import *"),
        ("from os import system", "do not import system"),
        ("import random\nrandom.seed(1)", "line 2: random.seed"),
        ("import random\nx = random.choice([1])", "no fixed seed"),
        ("import random\nr = random.Random()", "fixed seed"),
        ("import random\nr = random.Random(None)", "fixed seed"),
        ("import random\nr = random.SystemRandom()", "no fixed seed"),
        ("import os\nos.urandom(3)", "os.urandom"),
        ("import os\nos.system('x')", "os.system"),
        ("import os\nos.execv('x', [])", "os.execv"),
        ("import os\nprint(os.environ['X'])", "os.environ"),
        ("from datetime import datetime as d\nd.now()", "reads the clock"),
        ("import datetime\ndatetime.date.today()", "reads the clock"),
        ("import gzip\ngzip.compress(b'')", "pass mtime=0"),
        ("import gzip\ngzip.GzipFile('x', 'w')", "pass mtime=0"),
        ("import gzip\ngzip.open('x', 'w')", "gzip.open"),
        ("eval('1')", "eval() is not allowed"),
        ("__import__('time')", "__import__() is not allowed"),
        ("def f(:", "not valid Python"),
        ("x = '\0'", "not valid Python"),
        ("#" * 30_000, "more than"),
    ],
)
def test_a_generator_that_differs_between_builds_is_refused(source: str, words: str) -> None:
    assert words in "\n".join(generator_problems(source))


def edit(*edits: tuple[str, str, str], **more: Any) -> tuple[Recipe, list[str]]:
    reply = {"diagnosis": "d", "edits": [dict(zip(("path", "find", "replace"), e, strict=True)) for e in edits], **more}
    start = recipe(("data/t.txt", "one two two\n"), generator="x = 1\n", rows=[row("D1", "old"), row("D2", "kept")])
    return apply_repair(start, EnvironmentRepairReply.model_validate(reply))


def row(ident: str, find: str) -> dict[str, str]:
    return {"id": ident, "path": "data/t.txt", "find": find}


def content(given: Recipe, path: str) -> str:
    return next(file.content for file in given.files if file.path == path)


@pytest.mark.parametrize("path", ["data/t.txt", "/app/data/t.txt", "./data/t.txt"])
def test_a_unique_text_is_replaced(path: str) -> None:
    edited, found = edit((path, "one", "1"))
    assert found == []
    assert content(edited, "data/t.txt") == "1 two two\n"


def test_edits_are_made_in_order() -> None:
    edited, _ = edit(("data/t.txt", "one", "zero"), ("data/t.txt", "zero", "null"))
    assert content(edited, "data/t.txt").startswith("null")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("data/t.txt", "two", "2"), "occurs 2 times"),
        (("data/t.txt", "three", "3"), "occurs 0 times"),
        (("data/ghost.txt", "a", "b"), "no such file"),
        (("generator", "y = 1", ""), "occurs 0 times"),
    ],
)
def test_an_edit_that_is_not_unique_changes_nothing_at_all(change: tuple[str, str, str], words: str) -> None:
    edited, found = edit(("data/t.txt", "one", "1"), change)
    assert words in found[0]
    assert found[0].startswith("Edit of")
    assert content(edited, "data/t.txt") == "one two two\n"


def test_the_generator_is_edited_by_its_name() -> None:
    assert edit(("generator", "x = 1", "x = 2"))[0].generator == "x = 2\n"


def test_an_empty_find_replaces_or_adds_a_file() -> None:
    edited, found = edit(("data/t.txt", "", "new\n"), ("data/new.txt", "", "fresh\n"))
    assert found == []
    assert (content(edited, "data/t.txt"), content(edited, "data/new.txt")) == ("new\n", "fresh\n")


def test_files_and_packages_can_be_removed_and_added() -> None:
    edited, found = edit(remove_files=["data/t.txt"], add_packages=["bc", "python3"], remove_packages=["jq"])
    assert found == []
    assert edited.packages == ("bc",)
    assert "data/t.txt" not in [file.path for file in edited.files]


def test_only_literal_files_can_be_removed() -> None:
    assert edit(remove_files=["ghost"])[1] == ["Edit of ghost: it cannot be removed, since it is no literal file."]


def test_marks_can_be_corrected() -> None:
    edited, _ = edit(rows=[row("D1", "new")])
    assert [(r.id, r.find) for r in edited.rows] == [("D2", "kept"), ("D1", "new")]


def test_a_repair_without_effect_is_a_problem() -> None:
    assert "changed nothing" in edit()[1][0]


def test_executable_bits_survive_an_edit() -> None:
    start = recipe().model_copy(
        update={"files": tuple(file.model_copy(update={"executable": True}) for file in recipe().files)}
    )
    reply = EnvironmentRepairReply.model_validate(
        {"diagnosis": "d", "edits": [{"path": "data/a.csv", "find": "text", "replace": "t"}]}
    )
    assert all(file.executable for file in apply_repair(start, reply)[0].files)


def test_a_blank_generator_is_none() -> None:
    assert compose(plain_manifest(manifest()), RecipeReply(files=[], generator=" \n")).generator == ""


def test_mixed_line_ends_stand_in_the_text_itself() -> None:
    planned = manifest({"path": "data/log.txt", "newline": "mixed"})
    assert problems(recipe(("data/log.txt", "a\r\nb\n")), planned) == ""
    for text in ("a\nb\n", "a\r\nb\r\n", "one line"):
        assert "end some of its lines in \\r\\n" in problems(recipe(("data/log.txt", text)), planned)
