"""If these fail, a user of the page cannot choose what a chat asks about or how much its model thinks where that is shown."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, answers, find_flaws, open_chat, open_menu, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]

TALK = scenarios(
    answering("go", bash("touch made"), {"content": "Done."}),
    answering("again", bash("touch more"), {"content": "Done again."}),
)


def choose(page: Page, button: Locator, name: str) -> None:
    button.click()
    page.get_by_role("dialog").get_by_role("option").filter(has=page.get_by_text(name, exact=True)).click()


def test_the_modes_of_a_chat_are_switched_where_they_are_shown_and_kept(workbench: Make) -> None:
    bench = workbench(TALK, "--approve", "ask")
    page, window = bench.page(**NARROW), bench.page()
    open_chat(page)
    mode = page.get_by_role("button", name=re.compile("^Approval mode: "))
    thinking = page.get_by_role("button", name=re.compile("^Thinking: "))
    expect(mode).to_have_text("ask")
    expect(thinking).to_have_text("thinking off")
    assert find_flaws(page) == []
    say(page, "go")
    page.get_by_role("form", name="Allow “touch made”?").get_by_role("button", name="Run once").click()
    expect(answers(page).last).to_contain_text("Done.")
    choose(page, mode, "auto")
    choose(page, thinking, "high")
    for each in (page, window):
        expect(each.get_by_role("button", name="Approval mode: auto", exact=True)).to_be_visible()
        expect(each.get_by_role("button", name="Thinking: high")).to_be_visible()
    bench.kill()
    bench.start()
    page.reload()
    expect(mode).to_have_text("auto")
    expect(thinking).to_have_text("thinking high")
    say(page, "again")
    expect(answers(page).last).to_contain_text("Done again.")
    assert (bench.newel.project / "more").exists()
    assert bench.newel.server.requests[-1]["body"]["reasoning_effort"] == "high"


def test_what_each_mode_does_can_be_read_to_its_end(workbench: Make) -> None:
    page = workbench(TALK).page()
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        for button in ("Approval mode", "Thinking", "Agent mode"):
            open_menu(page)
            page.get_by_role("button", name=re.compile(f"^{button}: ")).click()
            details = page.get_by_role("option").locator(".option-detail")
            expect(details.first).to_be_visible()
            cut = "each => each.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
            assert details.evaluate_all(cut) == []
            page.keyboard.press("Escape")


def test_a_chat_whose_changes_are_reviewed_keeps_its_mode(workbench: Make) -> None:
    page = workbench(TALK, "--approve", "review").page(**NARROW)
    open_chat(page)
    expect(page.get_by_role("button", name="Approval mode: review", exact=True)).to_be_disabled()


def test_a_list_of_choices_begins_at_the_current_one_so_that_enter_changes_nothing(workbench: Make) -> None:
    page = workbench(scenarios()).page()
    open_chat(page)
    thinking = page.get_by_role("button", name="Thinking")
    thinking.click()
    page.get_by_role("option", name="medium").click()
    expect(thinking).to_have_accessible_name("Thinking: medium")
    thinking.click()
    expect(page.get_by_role("option", selected=True)).to_contain_text("medium")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(thinking).to_have_accessible_name("Thinking: medium")
    thinking.click()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("option", selected=True)).to_contain_text("low")
