"""If these fail, some screen of the page is inaccessible or does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.bench import (
    NARROW,
    Workbench,
    answers,
    find_flaws,
    open_agent,
    open_chat,
    overflow_px,
    say,
)
from tests.browser.expecting import expect
from tests.browser.review_scenarios import sidebar
from tests.browser.scenarios import WORK, answering, call, scenarios
from tests.support import BIN

Make = Callable[..., Workbench]


def screens(bench: Workbench, page: Page) -> Iterator[str]:
    """Visit all screens; yields the name of each."""
    yield "nothing open"
    open_chat(page)
    yield "an empty chat"
    say(page, "add a flag")
    page.get_by_role("form", name="Allow").wait_for()
    yield "a question"
    page.get_by_role("form", name="Allow changes").get_by_role("button", name="Allow once").click()
    expect(page.get_by_role("cell", name="cli.py")).to_be_visible()
    for name in ("edit cli.py", "bash echo one"):
        page.get_by_role("button", name=name).click()
    yield "an answer, calls unfolded"
    open_agent(page, "Review the files")
    yield "a contract"
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Failed")
    yield "an agent that failed"
    page.keyboard.press("Alt+t")
    page.get_by_role("region", name="time", exact=True).wait_for()
    yield "the tools"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("option").first.wait_for()
    yield "the palette"
    page.keyboard.press("Escape")
    page.get_by_role("tab").last.focus()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    yield "the keys"
    page.keyboard.press("Escape")


@pytest.mark.timeout(90)  # nine screens in three looks each
def test_every_screen_is_accessible_and_fits(workbench: Make) -> None:
    fault = {"fault": {"kind": "status", "status": 400}, "response": {"content": ""}}
    bench = workbench(
        scenarios(WORK, answering("Review", fault)),
        "--approve",
        "ask",
        servers={"time": {"command": str(BIN / "mcp-server-time")}},
    )
    (bench.newel.project / "cli.py").write_text("def main():\n    run(source)\n")
    page = bench.page(**NARROW)
    for screen in screens(bench, page):
        assert (screen, find_flaws(page)) == (screen, [])


@pytest.mark.core
def test_everything_works_with_the_keyboard(workbench: Make) -> None:
    page = workbench(scenarios(answering("hello", {"content": "Good day."}))).page()
    keys = page.keyboard
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()  # that of the first page
    keys.press("Alt+n")
    expect(page.get_by_role("tab")).to_have_count(1)
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    keys.type("hello")
    keys.press("Enter")
    expect(answers(page)).to_contain_text("Good day.")
    keys.press("Control+k")
    keys.type("rename")
    keys.press("Enter")
    keys.press("Control+a")
    keys.type("Greetings")
    keys.press("Enter")
    expect(page.get_by_role("tab", name="Greetings")).to_be_visible()
    keys.press("Alt+g")
    expect(page.get_by_role("textbox", name="Contract", exact=True)).to_be_focused()
    page.get_by_role("tab", name="Agent-1").focus()
    keys.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Greetings")).to_be_focused()
    keys.press("Enter")
    expect(answers(page)).to_be_visible()
    keys.press("Alt+2")
    # A tab takes the focus for its message box: only afterwards another focus stays.
    expect(page.get_by_role("textbox", name="Contract", exact=True)).to_be_focused()
    page.get_by_role("tab", name="Agent-1").focus()
    keys.press("Delete")
    expect(page.get_by_role("tab")).to_have_count(1)
    # By Tab alone from the top: every stop is visible, and the message box is among them.
    page.evaluate("document.activeElement.blur()")
    seen: set[str] = set()
    for _ in range(30):
        keys.press("Tab")
        stop = page.evaluate(
            "(() => { const box = document.activeElement.getBoundingClientRect(); const style ="
            " getComputedStyle(document.activeElement); return [document.activeElement.getAttribute('aria-label') ??"
            " document.activeElement.textContent.trim(), box.width * box.height > 0,"
            " style.outlineStyle !== 'none' || document.activeElement.matches('textarea, body')]; })()"
        )
        assert stop[1:] == [True, True], stop
        seen.add(stop[0])
    assert {"New chat", "New agent", "Message", "Copy message", "Commands (Ctrl+K)"} <= seen


def test_colours_follow_the_system_until_they_are_switched(workbench: Make) -> None:
    page = workbench(scenarios()).page(scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(22, 24, 27)"
    page.get_by_role("button", name="Colour theme").click()
    assert page.evaluate(ground) == "rgb(251, 251, 249)"
    page.reload()
    expect(page.get_by_role("button", name="Colour theme: light")).to_be_visible()
    assert page.evaluate(ground) == "rgb(251, 251, 249)"


def test_a_tabs_url_opens_it(workbench: Make) -> None:
    page = workbench(scenarios()).page()
    open_chat(page)
    say(page, "the first")
    expect(answers(page)).to_have_count(1)
    first = page.url
    open_chat(page)
    assert page.url != first
    page.goto(first)
    expect(page.get_by_role("tab", name="the first")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.get_by_role("tab", name="Chat", exact=True)).to_have_attribute("aria-selected", "true")


def test_a_path_that_is_too_long_shows_its_end(workbench: Make) -> None:
    """Otherwise a user cannot tell the project's folder, or two files in the same deep folder, from another."""
    path = f"{'a_folder_with_a_long_name/' * 3}module.py"
    write = answering("write", call("write", file_path=path, content="x = 1\n"), {"content": "Done."})
    page = workbench(scenarios(write), "--approve", "review").page()
    open_chat(page)
    say(page, "write it")
    expect(answers(page).last).to_contain_text("Done.")
    for shown in (page.locator(".project"), sidebar(page).locator(".file-name")):
        expect(shown).to_be_visible()
        hidden_px = shown.evaluate(
            """(element) => {
              const text = document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode();
              const range = new Range();
              range.setStart(text, text.length - 1);
              range.setEnd(text, text.length);
              return range.getBoundingClientRect().right - element.getBoundingClientRect().right;
            }"""
        )
        assert shown.evaluate("(element) => element.scrollWidth > element.clientWidth")
        assert hidden_px < 1


def test_many_tabs_stay_in_one_scrollable_row(workbench: Make) -> None:
    page = workbench(scenarios()).page(width=800)
    for number in range(12):
        open_chat(page)
        say(page, f"conversation number {number}")
    expect(page.get_by_role("tab")).to_have_count(12)
    expect(page.get_by_role("tab", name="conversation number 11")).to_be_in_viewport()
    open_chat(page)
    expect(page.get_by_role("tab", name="Chat", exact=True)).to_be_in_viewport(ratio=1)
    page.get_by_role("tab", name="conversation number 9").click()
    page.set_viewport_size({"width": 400, "height": 800})
    expect(page.get_by_role("tab", name="conversation number 9")).to_be_in_viewport(ratio=1)
    assert overflow_px(page) == 0


@pytest.mark.core
def test_an_ignored_server_of_the_project_is_reported(workbench: Make) -> None:
    """Otherwise a user who wanted that server wonders why another one answers."""
    bench = workbench(scenarios())
    bench.kill()
    url = bench.newel.environ.pop("LLM_BASE_URL")
    (bench.newel.home / ".newel" / "config.toml").write_text(f'base_url = "{url}"\n')
    (bench.newel.project / ".env").write_text("LLM_BASE_URL=http://127.0.0.1:9/v1\n")
    bench.start()
    page = bench.page(**NARROW)
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("newel trust http://127.0.0.1:9/v1")
    assert overflow_px(page) == 0
    page.get_by_role("button", name="Dismiss").click()
    expect(notice).to_have_count(0)
