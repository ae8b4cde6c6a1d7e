"""If these fail, a user who works elsewhere does not learn that a run has ended or asks; or is disturbed, twice, or without having
wished it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.browser.bench import Workbench, answers, message_box, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import WAIT, answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]
TALK = scenarios(
    answering("wait", bash(WAIT), {"content": "THE ANSWER"}),
    answering("ask", bash("touch made"), {"content": "Made."}),
)
# A browser without a desktop shows no notifications and has each page in front. These replace the desktop's part.
DESKTOP = """
  window.shown = [];
  window.asked = 0;
  window.isFront = true;
  document.hasFocus = () => window.isFront;
  window.setFront = (isFront) => { window.isFront = isFront; dispatchEvent(new Event(isFront ? "focus" : "blur")); };
  window.Notification = class {
    static get permission() { return localStorage.getItem("desktop") ?? "default"; }
    static async requestPermission() {
      window.asked += 1;
      localStorage.setItem("desktop", "granted");
      return "granted";
    }
    constructor(title, options) { this.title = title; window.shown.push([title, options.body]); window.last = this; }
    close() {}
  };
"""
FRONT_IS_HELD = "navigator.locks.query().then(({held}) => held.some(({name}) => name === 'newel-front'))"


def desktop(bench: Workbench) -> BrowserContext:
    context = bench.context()
    context.add_init_script(DESKTOP)
    return context


def shown(*pages: Page) -> list[Any]:
    return [each for page in pages for each in page.evaluate("window.shown")]


def leave(*pages: Page) -> None:
    for page in pages:
        page.evaluate("setFront(false)")
    pages[0].wait_for_function(f"{FRONT_IS_HELD}.then((is) => !is)")


def test_one_notification_says_that_a_run_has_ended_and_leads_to_it(workbench: Make) -> None:
    bench = workbench(TALK)
    context = desktop(bench)
    page, window = bench.page(context), bench.page(context)
    assert page.evaluate("window.asked") == 0
    switch = page.get_by_role("button", name="Notifications", exact=True)
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(window.get_by_role("button", name="Notifications", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    open_chat(page)
    say(page, "wait for it")
    open_chat(page)
    leave(page, window)
    (bench.newel.project / "go").touch()
    for each in (page, window):
        expect(each.get_by_role("tab", name="wait for it")).not_to_contain_text("Running")
    page.wait_for_function(
        "navigator.locks.query().then(({held, pending}) => held.length + pending.length === 0)"
    )
    assert shown(page, window) == [["wait for it", "The run has ended."]]
    notifier = page if shown(page) else window
    notifier.evaluate("window.last.onclick()")
    expect(answers(notifier).last).to_contain_text("THE ANSWER")
    notifier.reload()
    expect(notifier.get_by_role("button", name="Notifications", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def test_a_question_is_notified_only_while_no_window_is_in_front(workbench: Make) -> None:
    bench = workbench(TALK, "--approve", "ask")
    context = desktop(bench)
    page, window = bench.page(context), bench.page(context)
    page.get_by_role("button", name="Notifications", exact=True).click()
    open_chat(page)
    page.evaluate("setFront(false)")  # the other window is in front
    say(page, "ask me")
    form = page.get_by_role("form", name="Allow “touch made”?")
    form.get_by_role("button", name="Run once").click()
    expect(answers(page).last).to_contain_text("Made.")
    for each in (page, window):
        expect(each.get_by_role("tab", name="ask me")).not_to_contain_text(re.compile("Running|Question"))
    assert shown(page, window) == []
    leave(page, window)
    message_box(page).fill("ask me")
    message_box(page).press("Enter")
    expect(form).to_be_visible()
    page.wait_for_function(
        "navigator.locks.query().then(({held, pending}) => held.length + pending.length === 0)"
    )
    assert shown(page, window) == [["ask me", "Waiting for your answer."]]


def test_a_refusal_of_the_browser_is_explained(workbench: Make) -> None:
    bench = workbench(TALK)
    context = desktop(bench)
    context.add_init_script("localStorage.setItem('desktop', 'denied')")
    page = bench.page(context)
    page.get_by_role("button", name="Notifications", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The browser blocks notifications")
    expect(page.get_by_role("button", name="Notifications", exact=True)).to_have_attribute(
        "aria-pressed", "false"
    )
