"""The review page of an installation in a real browser."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from facet_dagster.setup.browser import chromium
from tests.e2e.conftest import FACET, Live
from tests.fixtures.web_client import free_port

pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.browser]
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
SHOTS = Path(os.environ["FACET_SHOTS"]) if os.environ.get("FACET_SHOTS") else None


@pytest.fixture(scope="module")
def address(live: Live) -> Iterator[str]:
    port = free_port()
    found = f"http://127.0.0.1:{port}"
    home = live.installation.home
    with (home / "review.log").open("wb") as log:
        command = [str(FACET), "review", "--port", str(port)]
        process = subprocess.Popen(command, env=live.installation.environment(), cwd=home, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                assert process.poll() is None, (home / "review.log").read_text()
                try:
                    urllib.request.urlopen(found, timeout=10).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield found
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        found = browser.new_page(viewport={"width": 1400, "height": 1500})
        found.goto(address)
        yield found
        browser.close()


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def test_a_person_finds_a_lost_task_reads_why_and_goes_to_its_skill(page: Page, live: Live) -> None:
    messages = list[str]()
    page.on("console", lambda message: messages.append(message.text))
    page.select_option("select[name=reason]", "task.repair_exhausted")
    page.click("form button")
    rows = page.locator("#seeds tr.rejected")
    assert rows.count() == 1
    shot(page, "review_list")
    key = rows.locator("td a").first.inner_text()
    rows.locator("td a").first.click()
    assert page.inner_text("#verdict") == "rejected"
    assert "task.repair_exhausted" in page.inner_text("#reason")
    assert "component solution" in page.inner_text("#reason")
    told = live.installation.json("why", key)
    assert told["message"] in page.inner_text(".why")
    failed = page.locator("#checks td.fail")
    assert failed.count() > 0, "the checks that the last oracle trial did not pass"
    assert page.locator(".minus").count() > 0, "the edits of its repairs"
    shot(page, "review_rejected")
    name = told["skills"][0]["name"]
    page.click(f"#skills a:text-is('{name}')")
    assert key in page.inner_text("#seeds")
    assert not messages, messages


def test_an_accepted_task_shows_its_parts_side_by_side(page: Page, live: Live) -> None:
    page.select_option("select[name=verdict]", "accepted")
    page.click("form button")
    page.locator("#seeds td a").first.click()
    parts = page.locator(".beside article")
    assert parts.count() == 4
    boxes = [parts.nth(n).bounding_box() for n in range(3)]
    assert len({round(box["y"]) for box in boxes if box}) == 1
    shot(page, "review_accepted")
