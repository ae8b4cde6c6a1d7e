"""If these fail, decisions and typing are lost, or applied twice, when the connection drops."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, HeldSocket, Workbench, axe_violations, find_flaws, open_chat
from tests.browser.expecting import expect
from tests.browser.proposals import NOTES, ask, proposal_scenarios, propose
from tests.browser.review_scenarios import file, sidebar
from tests.browser.test_editor import (
    SECOND,
    TITLE,
    WORDS,
    content,
    open_file,
    proposed,
    put,
    settled,
    summary,
    were_refused,
)

Make = Callable[..., Workbench]
BOTH = NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND")


def waiting(page: Page) -> Locator:
    return page.locator(".inline-hunk.hunk-waits")


def trouble(page: Page) -> Locator:
    return page.locator(".file-trouble")


def type_at(page: Page, text: Locator, line: str, words: str) -> None:
    text.get_by_text(line).click()
    page.keyboard.press("End")
    page.keyboard.type(words)


def states(page: Page, name: str = "notes.md") -> list[str]:
    return [hunk["state"] for hunk in ask(page, "GET", f"file?file_path={name}")["hunks"]]


@contextmanager
def hanging(bench: Workbench) -> Generator[None]:
    """The server is up but does not answer."""
    assert bench.process is not None
    bench.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        bench.process.send_signal(signal.SIGCONT)


def test_a_page_whose_server_is_slow_to_answer_says_that_it_connects(workbench: Make) -> None:
    bench = workbench(proposal_scenarios())
    context = bench.context()
    context.route_web_socket("**/ws", lambda _: None)
    page = bench.page(context)
    expect(page.get_by_role("main").get_by_text("Connecting…")).to_be_visible()
    for name in ("Model", "Agent mode"):  # of which nothing is known
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_page_that_wakes_up_notices_that_its_connection_is_gone(workbench: Make) -> None:
    """A machine that slept has a connection that looks open. Otherwise messages are sent into it for half a minute."""
    bench = workbench(proposal_scenarios())
    context = bench.context()
    socket = HeldSocket(context)
    context.clock.install()
    page = bench.page(context)
    open_chat(page)
    page.clock.pause_at((page.evaluate("Date.now()") + 1_000) / 1_000)
    socket.is_held = True
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.clock.run_for(10_100)
    page.clock.resume()
    # The next regular ping fails later.
    expect(page.get_by_text("Reconnecting…")).to_be_visible(timeout=10_000)
    socket.is_held = False
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()


def test_decisions_and_edits_made_offline_are_applied_once_after_reconnecting(
    workbench: Make,
) -> None:
    bench, page, _, text = proposed(workbench)
    bench.kill()
    expect(trouble(page)).to_contain_text("Not connected to Newel. Your edits and decisions are")
    page.get_by_role("button", name="Accept hunk 1").click()
    page.get_by_role("button", name="Reject hunk 2").click()
    type_at(page, text, "third", " and more")
    expect(waiting(page).nth(0)).to_contain_text("accepted · pending connection")
    expect(waiting(page).nth(1)).to_contain_text("rejected · pending connection")
    page.get_by_role("button", name="Undo hunk 2").click()
    expect(waiting(page)).to_have_count(1)
    page.get_by_role("button", name="Reject hunk 2").click()
    expect(sidebar(page).locator(".waiting-card")).to_contain_text("2 decisions wait for the connection.")
    expect(file(page, "notes.md").locator("[data-waits]")).to_have_count(2)
    bench.start()
    expect(summary(page)).to_have_text(
        "1 accepted, unsaved · 1 of yours, unsaved · 1 rejected", timeout=20_000
    )
    expect(text).not_to_contain_text("SECOND")  # counted as rejected before the server has removed it
    assert content(page) == NOTES.replace("# Notes", "# NOTES").replace("third", "third and more")
    # Each is one step of undo: nothing was applied twice.
    page.keyboard.press("Control+z")
    expect(summary(page)).to_have_text("1 hunk to decide · 1 accepted, unsaved · 1 of yours, unsaved")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(summary(page)).to_have_text("2 hunks to decide")
    assert content(page) == BOTH
    were_refused(bench)


@pytest.mark.parametrize("how", ["reload", "another window"])
def test_a_page_closed_offline_loses_nothing_although_another_window_went_on(
    workbench: Make, how: str
) -> None:
    bench, page, _, text = proposed(workbench)
    page.on("dialog", lambda dialog: dialog.accept())
    bench.kill()
    expect(trouble(page)).to_contain_text("Not connected")
    type_at(page, text, "third", " and 😀 more")
    page.get_by_role("button", name="Accept hunk 1").click()
    page.get_by_role("button", name="Accept hunk 2").click()
    expect(waiting(page)).to_have_count(2)
    context = page.context
    if how == "reload":
        page.goto("about:blank")
    else:
        page.close()
    bench.start()
    other = bench.page()
    there = open_file(bench, other)
    type_at(other, there, "first", ", there")
    settled(other)
    with other.expect_response("**/api/agent/decide"):  # shown before the server has it
        other.get_by_role("button", name="Reject hunk 3").click()
    expect(summary(other)).to_contain_text("1 rejected")
    if how == "reload":
        page.goto(bench.url)
    else:
        page = bench.page(context)
    open_file(bench, page)
    expect(summary(page)).to_contain_text("1 accepted, unsaved")
    expect(trouble(page)).to_contain_text("A hunk at line 5 was not decided: it is already rejected.")
    wanted = (
        NOTES.replace("# Notes", "# NOTES")
        .replace("first", "first, there")
        .replace("third", "third and 😀 more")
    )
    expect(there).to_contain_text("third and 😀 more")
    assert (content(page), states(page).count("accepted"), states(page).count("rejected")) == (wanted, 1, 1)
    sidebar(page).locator(".waiting-card").get_by_role("button", name="Dismiss").click()
    expect(trouble(page)).to_be_hidden()
    were_refused(bench)


def test_a_hanging_server_loses_no_decision_and_no_letter(workbench: Make) -> None:
    bench, page, _, text = proposed(workbench)
    with hanging(bench):
        page.get_by_role("button", name="Accept hunk 1").click()
        type_at(page, text, "third", " and more")
        expect(waiting(page)).to_contain_text("accepted · pending connection")
    expect(summary(page)).to_have_text(
        "1 hunk to decide · 1 accepted, unsaved · 1 of yours, unsaved", timeout=20_000
    )
    assert content(page) == BOTH.replace("third", "third and more")
    were_refused(bench)


def test_edits_that_no_longer_apply_are_shown_for_copying(workbench: Make) -> None:
    bench = workbench(proposal_scenarios(), "--ephemeral")
    put(bench)
    page = bench.page()
    page.on("dialog", lambda dialog: dialog.accept())
    text = open_file(bench, page)
    bench.kill()
    type_at(page, text, "third", " and more")
    expect(summary(page)).to_contain_text("unsent edits")
    page.goto("about:blank")
    put(bench, "another text\n")
    bench.start()
    page.goto(bench.url)
    open_file(bench, page)
    lost = page.locator(".file-lost")
    expect(lost.get_by_role("textbox", name="Unsent edits to notes.md")).to_have_value(" and more")
    assert axe_violations(page) == []
    page.reload()
    expect(lost).to_be_visible()
    lost.get_by_role("button", name="Discard").click()
    expect(lost).to_have_count(0)
    assert content(page) == "another text\n"
    were_refused(bench)


def test_offline_changes_are_accessible_and_fit(workbench: Make) -> None:
    bench = workbench(proposal_scenarios((WORDS, [TITLE, SECOND])))
    put(bench)
    page = bench.page(**NARROW)
    propose(page, WORDS)
    open_file(bench, page)
    bench.kill()
    expect(trouble(page)).to_contain_text("Not connected")
    page.get_by_role("button", name="Accept hunk 1").click()
    page.get_by_role("button", name="Reject hunk 2").click()
    expect(waiting(page)).to_have_count(2)
    assert find_flaws(page) == []
    expect(sidebar(page).locator("[data-waits]")).to_have_count(2)
    assert find_flaws(page) == []
