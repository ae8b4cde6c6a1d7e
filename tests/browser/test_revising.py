"""If these fail, a sentence about a hunk changes other lines, is lost with the server, or its outcome is not shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, find_flaws
from tests.browser.expecting import expect
from tests.browser.proposals import NOTES, add_file, propose, replace_line
from tests.browser.review_scenarios import hunks, sidebar
from tests.browser.scenarios import answering, call, scenarios
from tests.browser.test_editor import SECOND, TITLE, WORDS, becomes, open_file, put, summary

Make = Callable[..., Workbench]

ANEW = replace_line("notes.md", 5, "zweitens\n")
REVISE = answering("In German", call("propose_edits", edits=[ANEW]), {"content": "It is German now."})
ASK = answering(
    "In which language",
    call("clarify_user", question="Which one?"),
    call("propose_edits", edits=[ANEW]),
    {"content": "It is German now."},
)
SPEAK = answering("Why so", {"content": "Capitals are easier to find."})
FIRST = answering(
    WORDS,
    call("read_file", file_path="notes.md"),
    call("propose_edits", edits=[TITLE, SECOND]),
    {"content": "Done."},
)


def proposed(make: Make, *revisions: dict[str, Any]) -> tuple[Workbench, Page, Page, Locator]:
    """Two windows with the open file notes.md: a hunk that is accepted, and one to revise."""
    bench = make(scenarios(*revisions, FIRST))
    put(bench)
    context = bench.context()
    page, other = bench.page(context), bench.page(context)
    propose(page, WORDS)
    text = open_file(bench, page)
    open_file(bench, other)
    page.get_by_role("button", name="Accept hunk 1 of 2").click()
    expect(summary(other)).to_have_text("1 hunk to decide · 1 accepted, unsaved")
    return bench, page, other, text


def sentence(page: Page) -> Locator:
    return page.get_by_role("dialog").get_by_role("textbox", name="What should be different?")


def second(page: Page) -> Locator:
    """The hunk of the fifth line in the editor."""
    return page.get_by_role("group", name="Hunk 2 of 2")


def test_a_hunk_is_proposed_anew_by_one_sentence_and_the_other_decision_stands(workbench: Make) -> None:
    _, page, other, text = proposed(workbench, REVISE)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(second(page)).to_have_attribute("aria-current", "true")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog", name="Revise hunk")).to_contain_text("SECOND")
    sentence(page).fill("In German")
    sentence(page).press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for window in (page, other):
        expect(window.get_by_role("textbox", name="Text of notes.md")).to_contain_text("zweitens")
        expect(summary(window)).to_have_text("1 hunk to decide · 1 accepted, unsaved")
        expect(second(window).locator(".hunk-revision")).to_have_count(0)
    second(page).get_by_role("button", name="Earlier version").click()
    expect(page.get_by_role("dialog", name="Earlier versions")).to_contain_text("SECOND")
    page.keyboard.press("Escape")
    text.get_by_text("third").click()
    page.keyboard.press("Control+z")
    becomes(page, NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND"))
    expect(summary(page)).to_have_text("1 hunk to decide · 1 accepted, unsaved")


def test_a_revision_survives_a_killed_server_and_is_shown_in_both_windows(workbench: Make) -> None:
    bench, page, other, _ = proposed(workbench, ASK)
    second(page).get_by_role("button", name="Revise").click()
    sentence(page).fill("In which language it should be")
    page.get_by_role("dialog").get_by_role("button", name="Propose").click()
    for window in (page, other):
        expect(second(window)).to_contain_text("the agent asks about it: In which language it should be")
    bench.kill()
    bench.start()
    for window in (page, other):
        expect(second(window)).to_contain_text("the agent asks about it")
    form = sidebar(other).get_by_role("form", name="The agent asks")
    form.get_by_role("textbox").fill("German")
    form.get_by_role("button", name="Answer").click()
    for window in (page, other):
        expect(window.get_by_role("textbox", name="Text of notes.md")).to_contain_text("zweitens")
        expect(second(window)).not_to_contain_text("asks")


def test_an_agent_that_proposes_nothing_new_says_why_at_the_hunk(workbench: Make) -> None:
    _, page, _, _ = proposed(workbench, SPEAK)
    item = hunks(page, "notes.md").nth(1)
    item.get_by_role("button", name="Revise").click()
    sentence(page).fill("Why so loud?")
    sentence(page).press("Enter")
    words = "No new version: Capitals are easier to find."
    expect(second(page)).to_contain_text(words)
    expect(item).to_contain_text(words)
    page.goto(page.url.partition("#")[0] + "#/pending")
    expect(page.get_by_role("list", name="Hunks to review")).to_contain_text(words)


def test_a_cancelled_revision_leaves_the_hunk_as_it_was(workbench: Make) -> None:
    _, page, _, _ = proposed(workbench, ASK)
    second(page).get_by_role("button", name="Revise").click()
    sentence(page).fill("a draft")
    page.keyboard.press("Escape")
    second(page).get_by_role("button", name="Revise").click()
    expect(sentence(page)).to_have_value("a draft")
    sentence(page).fill("In which language?")
    sentence(page).press("Enter")
    second(page).get_by_role("button", name="Cancel revision").click()
    expect(second(page).get_by_role("button", name="Revise")).to_be_visible()
    becomes(page, NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND"))


def test_the_dialog_holds_in_all_looks(workbench: Make) -> None:
    bench = workbench(scenarios(FIRST))
    put(bench)
    page = bench.page(**NARROW)
    propose(page, WORDS)
    open_file(bench, page)
    second(page).get_by_role("button", name="Revise").click()
    expect(sentence(page)).to_be_focused()
    assert find_flaws(page) == []


def test_a_hunk_is_split_into_parts_that_are_decided_one_by_one(workbench: Make) -> None:
    add = answering(
        "Write it", call("propose_edits", edits=[add_file("new.md", "one\n\ntwo\n")]), {"content": "Done."}
    )
    bench = workbench(scenarios(add))
    page = bench.page()
    propose(page, "Write it")
    open_file(bench, page, "new.md")
    page.get_by_role("button", name="Split hunk 1 of 1").click()
    expect(page.locator(".inline-hunk")).to_have_count(2)
    page.get_by_role("button", name="Reject hunk 2 of 2").click()
    becomes_one = "one\n\n"
    expect(summary(page)).to_contain_text("1 rejected")
    page.get_by_role("button", name="Accept hunk 1 of 2").click()
    page.keyboard.press("Control+s")
    expect(summary(page)).not_to_contain_text("unsaved")
    assert (bench.newel.project / "new.md").read_text() == becomes_one


def test_j_leads_from_a_reviewed_file_to_the_next_undecided_hunk(workbench: Make) -> None:
    other = add_file("new.md", "one\n")
    change = answering(
        WORDS,
        call("read_file", file_path="notes.md"),
        call("propose_edits", edits=[TITLE, SECOND, other]),
        {"content": "Done."},
    )
    bench = workbench(scenarios(change))
    put(bench)
    page = bench.page()
    propose(page, WORDS)
    open_file(bench, page, "new.md")
    page.get_by_role("button", name="Accept hunk 1 of 1").click()
    expect(summary(page)).to_have_text("new file · 1 accepted, unsaved")
    page.keyboard.press("j")
    expect(page.get_by_role("textbox", name="Text of notes.md")).to_be_visible()
    first = page.get_by_role("group", name="Hunk 1 of 2")
    expect(first).to_have_attribute("aria-current", "true")
    page.keyboard.press("a")
    page.keyboard.press("a")
    page.goto(page.url.partition("#")[0] + "#/pending")
    region = page.get_by_role("region", name="All pending changes")
    expect(region).to_contain_text("3 of 3 decided")
