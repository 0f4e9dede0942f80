"""The report page over a made-up run: every section, nothing that a hostile text could do, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.made_up_attempts import fill_attempts
from benchmarks.made_up_run import CHECKS, Filler, fill_seeds, fill_skills
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import StageFact
from facet_dagster.errors import ConfigError
from facet_dagster.reports.attempts import as_last_tried
from facet_dagster.reports.foreign import foreign
from facet_dagster.reports.page import draw, page
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Section, markdown, rate_text, table
from facet_dagster.reports.statistics import rate
from facet_dagster.settings import Settings

TASKS = 24
HOSTILE = "<script>alert(1)</script><img src=http://evil/x onerror=alert(2)>\"'`&{{7*7}}$x_$"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    return Settings(home=home, teacher="openai/<b>teacher</b>", attempts=3, tape=home / "none")


@pytest.fixture(scope="module")
def ledger(settings: Settings) -> MemoryLedger:
    ledger = MemoryLedger()
    filler = Filler(settings, ledger, TASKS, skills=300)
    keys, memo = fill_seeds(filler, fill_skills(filler))
    fill_attempts(filler, keys, memo, "estimate")
    return ledger


@pytest.fixture(scope="module")
def home(settings: Settings, ledger: MemoryLedger, tmp_path_factory: pytest.TempPathFactory) -> Home:
    other = tmp_path_factory.mktemp("other") / "<i>other"
    other.mkdir()
    (other / "task.toml").write_text(f"[metadata]\ncategory = '''{HOSTILE}'''\n")
    rows = [{"role": "assistant", "content": f"```bash\n'{HOSTILE.replace(chr(39), '')}' 1; ls\n```"}]
    (other / "chat.jsonl").write_text(json.dumps({"messages": rows}))
    found = [foreign(other, lambda texts: {HOSTILE: len(list(texts))})]
    store = FsspecArtifactStore(str(settings.home / "artifacts"))
    made = Home(settings, "estimate", ledger, store, day="2026-11-30", others=found)
    made.own_families = {"structured data": 1}
    return made


@pytest.fixture(scope="module")
def sections(home: Home) -> Sequence[Section]:
    return list(page.sections(home))


def section(sections: Sequence[Section], ident: str) -> Section:
    return next(one for one in sections if one.ident == ident)


def row(found: Section, name: str, place: int = 0) -> tuple[str, ...]:
    return next(one for one in found.tables[place].rows if one[0] == name)


def test_every_section_has_its_source_and_protocol(sections: Sequence[Section]) -> None:
    assert len({one.ident for one in sections}) == len(sections) == 18
    for one in sections:
        assert one.source, one.ident
        assert one.ours, one.ident
        assert one.parts, f"{one.ident} is empty over a full run"
    empty = {one.ident: one.missing for one in sections if one.missing}
    assert set(empty) == {"causes", "ablation", "pipelines", "results"}
    assert "facet experiment orders" in empty["causes"]
    assert "facet experiment pipelines" in empty["pipelines"]


def test_the_protocol_of_a_number_names_model_attempts_limits_and_day(sections: Sequence[Section]) -> None:
    told = section(sections, "tags").ours
    for part in ("terminus-2", "openai/<b>teacher</b>", "temperature 1", "3 judged attempts", "131,072", "2026-11-30"):
        assert part in told
    told = section(sections, "funnel").ours
    for part in ("written by m", "order forward", "3 environment and 5 task repairs", "certificate standard"):
        assert part in told


def test_figures_are_those_of_the_run(home: Home, sections: Sequence[Section]) -> None:
    solved = sum(one.reward == 1 for one in home.rows)
    told = section(sections, "rollouts")
    assert row(told, "Attempts")[1] == str(3 * TASKS)
    assert row(told, "Solved, strictly")[1].startswith(f"{solved}/{3 * TASKS} = ")
    assert row(told, "Solved, strictly")[2] == "1,270/6,066 = 20.9 % (19.9-22.0)"
    assert row(section(sections, "card"), "Certified, which is what is exported")[1] == str(TASKS)
    assert row(section(sections, "funnel"), "Final validated tasks")[5:7] == ("6,078", "81.63 %")
    assert row(section(sections, "tests"), "Tests a certified task")[1:3] == (str(TASKS), f"{CHECKS}.00")
    assert row(section(sections, "datasets"), "this installation")[3:5] == (str(TASKS), f"{CHECKS}.00")
    assert row(section(sections, "sft"), "Successful attempts")[1] == str(solved)
    groups = section(sections, "difficulty").tables[0].rows
    assert [one[1] for one in groups[:1]] == [str(TASKS)]
    assert sum(int(one[1]) for one in groups if one[0] in ("first-pass", "repaired")) == TASKS
    missed = section(sections, "missed").tables[0].rows
    assert sum(int(one[1]) for one in missed) == 3 * TASKS - solved


def test_every_command_is_counted(home: Home, sections: Sequence[Section]) -> None:
    told = section(sections, "commands")
    assert row(told, "Trajectories")[2] == str(3 * TASKS)
    assert int(row(told, "Commands")[2].replace(",", "")) == home.typings.every.commands > 3 * TASKS * 14


class Seen(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.links, self.handlers = set[str](), set[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in {"src", "href", "action", "srcset", "data", "style"}:
                self.links.add((value or "").partition(",")[0])
            if name.startswith("on"):
                self.handlers.add(name)


def test_no_text_is_markup_and_nothing_is_loaded(home: Home, sections: Sequence[Section]) -> None:
    found = page.render(sections, home)
    seen = Seen()
    seen.feed(found)
    assert not seen.handlers
    assert not seen.tags & {"script", "iframe", "object", "embed", "link", "form", "base", "svg", "b", "i"} - {"b"}
    assert {one for one in seen.links if not one.startswith("#")} == {"data:image/svg+xml;base64"}
    assert "alert(1)" in found, "the hostile text is shown"
    assert "<script" not in found
    assert "{{" not in found.replace(draw.label("{{7*7}}"), "")
    assert "default-src &#39;none&#39;" in found or "default-src 'none'" in found
    assert "openai/&lt;b&gt;teacher&lt;/b&gt;" in found


def test_labels_of_pictures_are_no_formulas() -> None:
    found = draw.bars("t", HOSTILE, {HOSTILE: 1.0, "$\\frac{": 2.0, "名前\u202e": 3.0}, bounds={HOSTILE: (0.5, 2.0)})
    assert found.uri.startswith("data:image/svg+xml;base64,")
    assert draw.label("名前\u202e x") == "??? x"
    again = draw.bars("t", HOSTILE, {HOSTILE: 1.0, "$\\frac{": 2.0, "名前\u202e": 3.0}, bounds={HOSTILE: (0.5, 2.0)})
    assert found == again, "the same numbers, the same bytes"


def test_tables_in_markdown_hold_no_markup_and_are_bounded() -> None:
    told = markdown(table("T", ("a", "n"), [(f"a|b {HOSTILE}", 1), ("[x](http://evil)", 2), *[("r", 3)] * 98]))
    assert "<" not in told.replace("&lt;", "")
    assert "\\[x\\](http" in told
    assert "a\\|b" in told
    assert told.endswith("60 more rows stand in the page.")


def test_main_tables_of_the_asset(sections: Sequence[Section]) -> None:
    told = page.main_tables(sections)
    assert list(told) == ["funnel", "rollouts", "tags", "difficulty", "sft", "repairs"]
    assert "Final validated tasks" in told["funnel"]
    assert max(map(len, told.values())) < 40_000


def test_cells() -> None:
    found = table("t", ("a", "b"), [(None, 1234567), (True, 1.5), ("x\u202ey\x00z", "a" * 400)])
    assert found.rows[0] == ("", "1,234,567")
    assert found.rows[1] == ("yes", "1.50")
    assert found.rows[2][0] == "x\ufffdy\ufffdz"
    assert len(found.rows[2][1]) == 300
    assert rate_text(rate(0, 0)) == "-"


def test_an_empty_installation_says_which_command_makes_each_section(tmp_path: Path) -> None:
    home = Home(Settings(home=tmp_path), "estimate", MemoryLedger(), MemoryArtifactStore(), day="2026-11-30")
    found = page.write(tmp_path / "page", home)
    empty = {one.ident: one.missing for one in found if one.missing}
    for ident, command in {
        "funnel": "facet run",
        "skills": "facet ingest PATH",
        "rollouts": "facet run --until trajectories",
        "tags": "FACET_TEACHER",
        "commands": "FACET_TEACHER",
        "datasets": "--compare FOLDER",
        "pipelines": "facet experiment pipelines",
        "card": "facet run",
    }.items():
        assert command in empty[ident], ident
    told = json.loads((tmp_path / "page" / "report.json").read_text())
    assert [one["id"] for one in told] == [one.ident for one in found]


def test_a_page_is_whole_or_the_old_one_stays(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.html").write_text("old")
    monkeypatch.setattr(page, "SECTIONS", (lambda _: Section("x", "X", "s", "o", parts=(Note("n"),)),))

    def full(self: Path, text: str, encoding: str) -> None:
        self.write_bytes(text.encode()[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(ConfigError, match=r"Cannot write the report to .*: No space left on device"):
            page.write(tmp_path, home)
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "old"
    page.write(tmp_path, home)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_without_a_teacher_the_last_attempts_are_shown(settings: Settings, ledger: MemoryLedger) -> None:
    store = FsspecArtifactStore(str(settings.home / "artifacts"))
    bare = Settings(home=settings.home, tape=settings.tape)
    assert as_last_tried(bare, ledger, store) == bare.model_copy(update={"teacher": settings.teacher, "attempts": 3})
    assert as_last_tried(settings, ledger, store) is settings
    assert as_last_tried(bare, MemoryLedger(), store) is bare
    assert ledger.find(StageFact, stage="rollouts")
