"""If these fail, a user cannot start, stop, follow or change an agent on a contract in the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, WebSocketRoute

from tests.browser.bench import Workbench, open_agent
from tests.browser.expecting import expect
from tests.browser.scenarios import WAIT, answering, scenarios, verdict
from tests.support import bash

Make = Callable[..., Workbench]

JUDGE: dict[str, Any] = {
    "name": "judge",
    "trigger_regex": r"After \d+ tool call",
    "steps": [{"response": verdict("Both files were read.", satisfied=True)}],
}


def state(page: Page) -> Locator:
    return page.locator(".agent-bar .badge")


def test_a_contract_is_worked_on_judged_checked_and_completed(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            JUDGE, answering("Review", {"content": "Reading.", **bash("touch seen")}, {"content": "Done."})
        )
    )
    page = bench.page()
    open_agent(page, "Review all files.\nLook for injections.")
    expect(state(page)).to_have_text("Ready")
    page.get_by_label("Acceptance command").fill("test -e seen && echo accepted")
    page.get_by_label("Turns").fill("7")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(state(page)).to_have_text("Completed")
    for _ in range(2):
        expect(page.locator(".call-words")).to_have_text("bash touch seen")
        expect(page.get_by_text("The contract is fulfilled: Both files were read.")).to_be_visible()
        expect(page.get_by_text("Acceptance command passed:")).to_be_visible()
        expect(page.get_by_text("7 turns")).to_be_visible()
        expect(page.get_by_text("Look for injections.").and_(page.locator(":visible"))).to_have_count(0)
        page.locator(".contract summary").click()
        expect(page.get_by_text("Look for injections.")).to_have_count(1)
        expect(page.locator(".log-file code")).to_contain_text(".newel/logs/")
        expect(page.get_by_role("button", name="Restart")).to_be_visible()
        page.reload()
    expect(page.get_by_role("tab", name="Agent-1")).to_contain_text("Completed")


def test_an_agent_is_stopped_keeps_its_output_and_is_started_again(workbench: Make) -> None:
    bench = workbench(
        scenarios(JUDGE, answering("Wait", {"content": "I wait.", **bash(WAIT)}, {"content": "Done."}))
    )
    page = bench.page()
    open_agent(page, "Wait a little")
    page.get_by_role("textbox", name="Contract", exact=True).press("Control+Enter")
    page.get_by_role("button", name=re.compile("bash until.*running")).wait_for()
    expect(state(page)).to_have_text("Running")
    log = page.get_by_role("log")
    expect(log).to_be_focused()  # not lost with the form, nor below with the buttons
    page.get_by_role("button", name="Stop").click()
    expect(state(page)).to_have_text("Stopping…", timeout=500)
    go = bench.newel.project / "go"
    go.touch()
    expect(state(page)).to_have_text("Stopped")
    expect(page.get_by_text("I wait.")).to_be_visible()
    expect(log).to_be_focused()
    go.unlink()
    page.get_by_role("button", name="Restart").click()
    expect(state(page)).to_have_text("Running")
    expect(log).to_be_focused()
    go.touch()
    expect(state(page)).to_have_text("Completed")


def test_a_contract_cannot_be_changed_while_its_agent_starts(workbench: Make) -> None:
    """Its form closes when the agent runs, and with it what was typed meanwhile, perhaps for the next agent."""
    page = workbench(scenarios(answering("Wait", bash("sleep 20"), {"content": "Done."}))).page()
    held: list[str] = []
    servers: list[WebSocketRoute] = []

    def hold_start(socket: WebSocketRoute) -> None:
        servers.append(server := socket.connect_to_server())
        socket.on_message(
            lambda data: held.append(str(data)) if '"type":"start"' in str(data) else server.send(data)
        )

    page.route_web_socket("**/ws", hold_start)
    page.reload()
    open_agent(page, "Wait long")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("textbox", name="Contract", exact=True)).to_be_disabled()
    assert held
    servers[-1].send(held[0])
    expect(page.get_by_role("tab", name="Agent-1")).to_contain_text("Running")
    expect(page.get_by_role("log")).to_be_focused()


def test_agents_run_at_the_same_time_and_closing_one_asks(workbench: Make) -> None:
    page = workbench(scenarios(answering("Wait", bash("sleep 20"), {"content": "Done."}))).page()
    for name in ("Agent-1", "Agent-2"):
        open_agent(page, "Wait long")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("tab", name=name)).to_contain_text("Running")
    page.get_by_role("button", name="Close agent").click()
    expect(page.get_by_role("dialog")).to_contain_text("Close Agent-2?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab")).to_have_count(2)
    page.get_by_role("button", name="Close agent").click()
    page.get_by_role("button", name="Stop and close").click()
    expect(page.get_by_role("tab")).to_have_count(1)
    expect(page.get_by_role("tab", name="Agent-1")).to_contain_text("Running")


def test_a_contract_that_cannot_be_fulfilled_shows_why_and_can_be_edited(workbench: Make) -> None:
    fault = {"fault": {"kind": "status", "status": 400}, "response": {"content": ""}}
    page = workbench(
        scenarios(JUDGE, answering("hopeless", fault), answering("easy", bash("true"), {"content": "Done."}))
    ).page()
    open_agent(page, "A hopeless case")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(state(page)).to_have_text("Failed")
    expect(page.locator(".agent-bar .reason")).to_contain_text("scripted fault")
    page.get_by_role("button", name="Edit contract").click()
    page.get_by_role("textbox", name="Contract", exact=True).fill("An easy case")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(state(page)).to_have_text("Completed")
    expect(page.locator(".contract summary")).to_contain_text("An easy case")
