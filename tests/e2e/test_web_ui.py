"""The Dagster web UI and daemon of an installation, in a real browser and over GraphQL."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from facet_dagster.setup.browser import chromium
from tests.e2e.conftest import FACET, ROOT, Live
from tests.fixtures.web_client import WebClient, free_port, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.browser]

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
SHOTS = Path(os.environ.get("FACET_SHOTS", "")) if os.environ.get("FACET_SHOTS") else None


class Server(WebClient):
    """``facet ui`` on a free port."""

    def __init__(self, live: Live) -> None:
        super().__init__(free_port())
        environment = live.installation.environment(FACET_UI_PORT=str(self.port))
        self.ui_log = (live.installation.home / "ui.log").open("wb")
        self.process = subprocess.Popen(
            [str(FACET), "ui"], env=environment, cwd=live.installation.home, stdout=self.ui_log, stderr=self.ui_log
        )

    def answers(self) -> bool:
        assert self.process.poll() is None, "the web UI ended"
        return super().answers()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.ui_log.close()


@pytest.fixture(scope="module")
def server(live: Live) -> Iterator[Server]:
    found = Server(live)
    try:
        wait_for(found.answers)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def page(server: Server) -> Iterator[Page]:
    program = chromium()
    assert program, "chromium is not installed: `make test` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        context = browser.new_context(
            viewport={"width": 1500, "height": 950}, base_url=f"http://127.0.0.1:{server.port}"
        )
        opened = context.new_page()
        opened.set_default_timeout(60_000)
        yield opened
        browser.close()


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.wait_for_timeout(1500)
        page.screenshot(path=str(SHOTS / f"{name}.png"))


@pytest.fixture(scope="module")
def rejected(live: Live) -> dict[str, Any]:
    lines = live.installation.json("seeds", "--batch", "e2e")
    return next(line for line in lines if line["stage"] == "task" and line["verdict"] == "rejected")


def test_the_graph_shows_the_funnel(page: Page) -> None:
    groups = ",".join(
        f"global%40global%3A{g}" for g in ("s1_skills", "s2_seeds", "s3_environments", "s4_tasks", "reports")
    )
    page.goto(f"/asset-groups?expanded={groups}", wait_until="commit")
    for name in ("skills", "seed_candidates", "first_build", "certificate"):
        page.get_by_text(name, exact=True).first.wait_for()
    shot(page, "graph")


def test_a_rejected_seed_shows_verdict_stage_reason_and_component(page: Page, rejected: dict[str, Any]) -> None:
    page.goto(f"/assets/task?view=partitions&partition={rejected['key']}", wait_until="commit")
    page.get_by_text("task.repair_exhausted").first.wait_for()
    text = page.inner_text("body")
    for word in ("verdict", "rejected", "reason", "component", "solution", "stage"):
        assert word in text
    assert "RULES" not in text.split("reason")[0]
    shot(page, "rejected")


def test_its_skills_are_one_click_away(page: Page, rejected: dict[str, Any]) -> None:
    page.goto(f"/assets/task?view=partitions&partition={rejected['key']}", wait_until="commit")
    link = page.locator("a[href*='/assets/skills']").first
    link.wait_for()
    assert "partition=" in (link.get_attribute("href") or "")


def test_rejected_seeds_can_be_filtered_in_the_checks_tab(page: Page, rejected: dict[str, Any]) -> None:
    page.goto("/assets/task?view=checks", wait_until="commit")
    page.get_by_text("Latest execution").first.wait_for()
    page.get_by_role("tab", name="Partitions").last.click()
    page.get_by_text("Failed (2)").first.wait_for()  # a lost and an infeasible task
    shot(page, "checks")


def test_one_seed_is_materialized_from_the_ui(page: Page, server: Server, rejected: dict[str, Any]) -> None:
    before = len(runs(server))
    page.goto("/assets/certificate", wait_until="commit")
    page.get_by_text("Materialize…", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Partition selection").first.wait_for()
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_role("menuitem", name="Add partition").wait_for()
    page.keyboard.type(rejected["key"])
    page.get_by_role("menuitem").filter(has_text=rejected["key"]).first.click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Launch 1 run").click()
    wait_for(lambda: len(runs(server)) > before and runs(server)[0]["status"] == "SUCCESS")


def runs(server: Server) -> list[dict[str, Any]]:
    data = server.query("{ runsOrError(limit: 100) { ... on Runs { results { runId status } } } }")
    return list(data["runsOrError"]["results"])


LAUNCH = """
mutation ($keys: [String!]!, $assets: [AssetKeyInput!]!) {
  launchPartitionBackfill(backfillParams: {partitionNames: $keys, assetSelection: $assets}) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}"""
LATEST = """
query ($asset: AssetKeyInput!) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode { assetMaterializations(limit: 50) { partition timestamp } }
  }
}"""


def test_a_backfill_over_several_stages_materializes_the_last_one(server: Server, live: Live) -> None:
    keys = [line["key"] for line in live.installation.json("seeds", "--batch", "e2e")]
    began = time.time() * 1000
    stages = [{"path": [name]} for name in ("first_validation", "task", "certificate")]
    launched = server.query(LAUNCH, keys=keys, assets=stages)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def done() -> bool:
        events = server.query(LATEST, asset={"path": ["certificate"]})["assetNodeOrError"]["assetMaterializations"]
        found = {event["partition"] for event in events if float(event["timestamp"]) > began}
        return found == set(keys)

    wait_for(done)


def test_a_port_in_use_is_said_in_one_sentence(server: Server, live: Live) -> None:
    done = live.installation.call("ui", FACET_UI_PORT=str(server.port))
    assert done.returncode == 1
    assert "FACET_UI_PORT" in done.stderr
    assert str(ROOT) not in done.stderr
