"""If these fail, a user who opens the page cannot simply write, or does not find the conversation of before."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.browser.bench import NARROW, Workbench, answers, find_flaws, message_box, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios

Make = Callable[..., Workbench]
TALK = scenarios(answering("hello", {"content": "Good day."}), answering("again", {"content": "Once more."}))


@pytest.mark.core
def test_the_first_message_opens_a_chat_in_the_chosen_modes(workbench: Make) -> None:
    bench = workbench(TALK, "--approve", "ask")
    page = bench.page(**NARROW)
    expect(message_box(page)).to_be_focused()
    assert find_flaws(page) == []
    message_box(page).fill("a draft")
    page.reload()
    expect(message_box(page)).to_have_value("a draft")
    for button, name in ((re.compile("^Approval mode: "), "plan"), (re.compile("^Thinking: "), "high")):
        page.get_by_role("button", name=button).click()
        page.get_by_role("option", name=name).click()
    expect(page.get_by_role("button", name="Approval mode: plan")).to_be_visible()
    say(page, "hello")
    expect(answers(page)).to_contain_text("Good day.")
    expect(page.get_by_role("tab")).to_have_count(1)
    expect(message_box(page)).to_be_focused()
    expect(page.get_by_role("button", name="Approval mode: plan")).to_be_visible()
    expect(page.get_by_role("button", name="Thinking: high")).to_be_visible()
    assert bench.newel.server.requests[-1]["body"]["reasoning_effort"] == "high"
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    page.keyboard.press("Alt+w")
    expect(message_box(page)).to_have_value("")
    recent = page.get_by_role("region", name="Recent conversations").get_by_role("button")
    expect(recent).to_have_count(1)
    assert find_flaws(page) == []
    recent.click()
    expect(answers(page)).to_contain_text("Good day.")


def test_a_message_stays_in_the_box_while_its_chat_cannot_be_opened(workbench: Make) -> None:
    bench = workbench(TALK)
    page = bench.page()
    expect(message_box(page)).to_be_focused()
    bench.kill()
    expect(page.get_by_text("Connection to Newel lost")).to_be_visible()
    say(page, "hello")
    message_box(page).press("Enter")
    expect(message_box(page)).to_have_value("hello")
    bench.start()
    expect(answers(page)).to_contain_text("Good day.")
    expect(page.get_by_role("tab")).to_have_count(1)
    expect(message_box(page)).to_have_value("")


def test_empty_chats_do_not_pile_up(workbench: Make) -> None:
    page = workbench(TALK).page()
    open_chat(page)
    open_chat(page)
    expect(page.get_by_role("tab")).to_have_count(1)
    message_box(page).fill("a draft")
    open_chat(page)
    expect(page.get_by_role("tab")).to_have_count(2)
    expect(message_box(page)).to_have_value("")
    say(page, "hello")
    expect(answers(page)).to_contain_text("Good day.")
    open_chat(page)
    expect(page.get_by_role("tab")).to_have_count(3)
    open_chat(page)
    expect(page.get_by_role("tab")).to_have_count(3)


def test_a_project_in_the_users_home_is_named_from_there(workbench: Make) -> None:
    bench = workbench(TALK, environ={"HOME": "/nowhere"})
    page = bench.page()
    project = str(bench.newel.project)
    expect(page.locator("header .project")).to_have_text(project)
    expect(page.get_by_text(f"Describe a task in {project}.")).to_be_visible()
    bench.kill()
    bench.newel.environ["HOME"] = str(bench.newel.project.parent)
    bench.start()
    page.reload()
    expect(page.locator("header .project")).to_have_text("~/project")
    expect(page.locator("header .project")).to_have_attribute("title", project)
    expect(page.get_by_text("Describe a task in ~/project.")).to_be_visible()
    open_chat(page)
    expect(page.get_by_role("tabpanel").get_by_text("Describe a task in ~/project.")).to_be_visible()
