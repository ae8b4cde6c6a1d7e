"""If these fail, a user of the page cannot see what runs on other machines as it happens, or cannot review it here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from mock_llm_server import running
from tests.browser.bench import NARROW, Workbench, find_flaws
from tests.browser.expecting import expect
from tests.browser.test_hidden_characters import EVIL, hidden
from tests.fleet import FleetOfProcesses
from tests.integration.agents.support import after
from tests.postgres import open_server
from tests.served import wait_until
from tests.support import bash, scenario

Make = Callable[..., Workbench]
OpenDesk = Callable[..., tuple[FleetOfProcesses, Workbench]]


@pytest.fixture
def open_desk(workbench: Make, tmp_path: Path) -> Generator[OpenDesk]:
    """Makes a fleet whose model follows the scenarios, and a workbench on the same project."""
    with ExitStack() as stack:

        def make(*scenarios: dict[str, Any]) -> tuple[FleetOfProcesses, Workbench]:
            script = {"scenarios": [one for each in scenarios for one in each["scenarios"]]}
            model = stack.enter_context(running(script, strict=True))
            postgres = stack.enter_context(open_server())
            folder = tmp_path / "fleet"
            folder.mkdir()
            fleet = stack.enter_context(FleetOfProcesses(folder, postgres, model))
            environ = fleet.environ(folder)
            names = ("NEWEL_ENGINE", "NEWEL_FLEET_STORE")
            bench = workbench(environ={name: environ[name] for name in names})
            fleet.project = bench.newel.project
            return fleet, bench

        yield make


def rows(fleet: FleetOfProcesses, *names: str) -> str:
    file = fleet.folder / "rows.json"
    file.write_text(json.dumps([{"name": name} for name in names]))
    return str(file)


def state(page: Page) -> Locator:
    return page.locator(".agent-bar .badge")


def greet(name: str) -> dict[str, Any]:
    return scenario(f"Greet {name}", bash(f"echo hello {name} >> {name}; sleep 1"))


def test_jobs_on_another_machine_are_watched_and_their_hunks_are_kept_here(open_desk: OpenDesk) -> None:
    fleet, bench = open_desk(after(1, True), greet("ada"), greet("bob"))
    (bench.newel.project / "bob").write_text("good day\n")
    page = bench.page()
    page.get_by_role("button", name="Fleets").click()
    expect(page.get_by_text("No worker is running.")).to_be_visible()
    expect(page.get_by_text("No fleets yet.")).to_be_visible()
    fleet("fleet", "run", "Greet {{name}}", "--matrix", rows(fleet, "ada", "bob"))
    page.reload()
    page.get_by_role("button", name=re.compile("Greet ada.*2 jobs: 2 queued")).click()
    expect(page.get_by_role("button", name=re.compile(r"^1 Greet ada \(name=ada\)"))).to_be_visible()
    page.get_by_role("button", name=re.compile(r"^2 Greet bob")).click()
    expect(state(page)).to_have_text("Queued")
    fleet.worker("rack")
    expect(state(page)).to_have_text("Running", timeout=15_000)
    expect(page.locator(".call-words")).to_have_text("bash echo hello bob >> bob; sleep 1")
    expect(state(page)).to_have_text("Completed", timeout=15_000)
    expect(page.get_by_text(re.compile("^On "))).to_be_visible()
    page.get_by_role("button", name="Review changes").click()
    page.get_by_role("tab", name=re.compile("^bob")).wait_for()
    assert (bench.newel.project / "bob").read_text() == "good day\n"
    page.get_by_role("button", name="Accept all").click()
    page.get_by_role("button", name="Save", exact=True).click()
    wait_until(lambda: (bench.newel.project / "bob").read_text() == "good day\nhello bob\n", "the save")
    page.get_by_role("tab", name="Greet bob").click()
    expect(page.get_by_role("button", name="Review changes")).to_have_count(0)
    expect(page.get_by_role("group", name="Changes of this run")).to_contain_text("bob")

    page.get_by_role("tab", name=re.compile("^Fleet ")).click()
    page.get_by_role("button", name="2 completed").click()
    page.get_by_role("button", name="Review changes").click()
    page.get_by_role("tab", name=re.compile("^ada")).wait_for()
    expect(page.get_by_text("1 hunk to decide")).to_be_visible()
    assert not (bench.newel.project / "ada").exists()


def test_an_answer_on_another_machine_is_seen_word_by_word(open_desk: OpenDesk) -> None:
    slow = {"token_delay_ms": 60, "response": {"content": "begin " + "word " * 60 + "end"}}
    fleet, bench = open_desk(after(0, True), scenario("Tell", slow))
    page = bench.page()
    fleet("fleet", "run", "Tell")
    page.get_by_role("button", name="Fleets").click()
    page.get_by_role("button", name=re.compile("Tell.*1 job")).click()
    page.get_by_role("button", name=re.compile("^1 Tell")).click()
    expect(state(page)).to_have_text("Queued")
    fleet.worker("rack")
    answer = page.get_by_role("article", name="Assistant")
    expect(answer).to_contain_text("begin word word", timeout=15_000)
    expect(answer).not_to_contain_text("end")
    page.reload()
    expect(answer).to_contain_text("begin word word")
    expect(answer).not_to_contain_text("end")
    expect(answer).to_contain_text("word end", timeout=15_000)
    expect(answer).to_have_count(1)
    expect(state(page)).to_have_text("Completed", timeout=15_000)


@pytest.mark.timeout(90)
def test_a_database_that_is_away_is_said_and_the_answer_goes_on(open_desk: OpenDesk) -> None:
    slow = {"token_delay_ms": 80, "response": {"content": "begin " + "word " * 200 + "end"}}
    fleet, bench = open_desk(after(0, True), scenario("Tell", slow))
    page = bench.page()
    job = fleet.run("Tell")
    fleet.worker("rack")
    page.evaluate(f"location.hash = '#/fleet-job/{job}'")
    answer = page.get_by_role("article", name="Assistant")
    expect(answer).to_contain_text("begin word", timeout=15_000)
    fleet.postgres.stop()
    expect(page.get_by_text(re.compile("The database .* cannot be reached"))).to_be_visible(timeout=20_000)
    expect(answer).to_contain_text("begin word")
    fleet.postgres.start()
    expect(answer).to_contain_text("word end", timeout=40_000)
    expect(answer).to_have_count(1)
    expect(state(page)).to_have_text("Completed", timeout=15_000)
    expect(page.get_by_text("cannot be reached")).to_be_hidden()


def test_what_others_have_submitted_hides_nothing_and_fits_a_phone(open_desk: OpenDesk) -> None:
    fleet, bench = open_desk()
    html = "<img src=x onerror=alert(1)>"
    fleet("fleet", "run", f"{html} {{{{name}}}}", "--matrix", rows(fleet, f"{EVIL} {'long ' * 60}", "b"))
    page = bench.page(**NARROW)
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Fleets").click()
    page.get_by_role("button", name=re.compile("2 queued")).wait_for()
    assert hidden(page) == []
    assert find_flaws(page) == []
    page.get_by_role("button", name=re.compile("2 queued")).click()
    page.get_by_role("button", name=re.compile("^1 <img src=x")).wait_for()
    assert hidden(page) == []
    assert find_flaws(page) == []
    page.get_by_role("button", name=re.compile("^1 <img src=x")).click()
    expect(state(page)).to_have_text("Queued")
    assert hidden(page) == []
    assert find_flaws(page) == []
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel job", exact=True).click()
    expect(state(page)).to_have_text("Cancelled")
    page.get_by_role("tab", name=re.compile("^Fleet ")).click()
    page.get_by_role("button", name="Cancel jobs…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel jobs").click()
    expect(page.get_by_role("button", name="2 cancelled")).to_be_visible()
