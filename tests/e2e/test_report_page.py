"""The report page in a real browser: it asks for nothing, runs nothing, and every picture can be seen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from benchmarks.made_up_attempts import fill_attempts
from benchmarks.made_up_run import Filler, fill_seeds, fill_skills
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.page import write
from facet_dagster.settings import Settings
from facet_dagster.setup.browser import chromium
from tests.e2e.conftest import Live

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
SHOTS = Path(os.environ["FACET_SHOTS"]) if os.environ.get("FACET_SHOTS") else None
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a made-up run whose teacher has a hostile name."""
    home = tmp_path_factory.mktemp("home")
    settings, ledger = Settings(home=home, teacher=HOSTILE, attempts=3), MemoryLedger()
    filler = Filler(settings, ledger, 30, skills=200)
    keys, memo = fill_seeds(filler, fill_skills(filler))
    fill_attempts(filler, keys, memo, "estimate")
    write(
        home / "page",
        Home(settings, "estimate", ledger, FsspecArtifactStore(str(home / "artifacts")), day="2026-11-30"),
    )
    return home / "page"


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[tuple[Page, list[str]]]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        opened = browser.new_page(viewport={"width": 1280, "height": 1000})
        seen = list[str]()
        opened.on("console", lambda message: seen.append(message.text))
        opened.on("dialog", lambda dialog: seen.append(dialog.message))
        opened.on("request", lambda request: seen.append(request.url) if request.url[:5] != "data:" else None)
        opened.goto((folder / "report.html").as_uri())
        yield opened, seen
        browser.close()


@pytest.mark.browser
def test_nothing_is_asked_for_and_nothing_runs(page: tuple[Page, list[str]], folder: Path) -> None:
    opened, seen = page
    assert seen == [(folder / "report.html").as_uri()]
    assert HOSTILE in opened.inner_text("#tags .protocol")
    assert opened.locator("script, iframe, form, link").count() == 0
    if SHOTS:
        opened.screenshot(path=SHOTS / "report_page.png", full_page=True)


@pytest.mark.browser
def test_every_picture_is_drawn_and_no_section_is_wider_than_the_page(page: tuple[Page, list[str]]) -> None:
    opened, _ = page
    assert opened.locator("section").count() == 18
    assert opened.locator("img").count() >= 15
    widths = opened.evaluate("Array.from(document.images).map(i => i.complete ? i.naturalWidth : 0)")
    assert min(widths) > 300
    assert opened.evaluate("document.documentElement.scrollWidth") <= 1280
    links = opened.evaluate("Array.from(document.querySelectorAll('nav a')).map(a => a.getAttribute('href'))")
    assert all(opened.locator(link).count() == 1 for link in links)


@pytest.mark.docker
@pytest.mark.postgres
def test_the_command_writes_the_page_of_a_real_run(live: Live, tmp_path: Path) -> None:
    told = live.installation.json("report", str(tmp_path / "out"))
    assert {"rollouts", "tags"} <= set(told["missing"])
    assert "funnel" not in told["missing"]
    funnel = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))[0]["tables"][0]
    counts = {row[0]: row[1] for row in funnel["rows"]}
    assert counts["Final validated tasks"] == str(live.funnel["counts"]["validated"])
    assert "--compare" in Path(told["page"]).read_text(encoding="utf-8")
    assert live.installation.json("difficulty")["overall"]["tasks"] == 0
    done = live.installation.call("report", str(tmp_path / "out"), "--compare", str(tmp_path / "nothing"))
    assert done.returncode == 1
    assert "is no folder: name one with tasks" in done.stderr
