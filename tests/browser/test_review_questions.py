"""If these fail, the page loses a question of a review's agent, and its job waits forever."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, find_flaws
from tests.browser.expecting import expect
from tests.browser.proposals import ask, replace_line
from tests.browser.review_scenarios import sidebar
from tests.browser.scenarios import answering, call, scenarios

Make = Callable[..., Workbench]
FIRST, SECOND = "Sort the notes", "And number them"


def begun(workbench: Make, *, thinks: float = 0, **options: Any) -> tuple[Workbench, Page]:
    """A page whose agent asks a question after ``thinks`` seconds."""
    asks = {
        "fault": {"kind": "stall", "after_chunks": 0, "seconds": thinks},
        "response": call("clarify_user", question="In capitals?"),
    }
    bench = workbench(
        scenarios(
            answering(FIRST, asks, {"content": "Sorted."}),
            answering(
                SECOND,
                call("propose_edits", edits=[replace_line("notes.md", 1, "1\n")]),
                {"content": "Done."},
            ),
        )
    )
    (bench.newel.project / "notes.md").write_text("one\n")
    return bench, bench.page(**options)


def box(page: Page) -> Locator:
    return sidebar(page).get_by_role("textbox", name="Instruction")


def question(page: Page) -> Locator:
    return sidebar(page).get_by_role("form", name="The agent asks")


def instruct(page: Page, words: str) -> None:
    box(page).fill(words)
    expect(sidebar(page).get_by_role("button", name="Propose")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(box(page)).to_have_value("")


def jobs(page: Page) -> dict[str, str]:
    return {job["instruction"]: job["status"] for job in ask(page, "GET", "jobs")["jobs"]}


def test_enter_in_the_instruction_answers_the_open_question(workbench: Make) -> None:
    _, page = begun(workbench)
    instruct(page, FIRST)
    expect(question(page)).to_contain_text("In capitals?")
    expect(box(page)).to_be_focused()
    expect(sidebar(page)).to_contain_text("Enter to answer the question")
    page.keyboard.type("No, as they are")
    page.keyboard.press("Enter")
    expect(sidebar(page).locator(".job-state")).to_have_text("Done. No changes proposed")
    expect(box(page)).to_have_value("")
    (job,) = ask(page, "GET", "jobs")["jobs"]
    received = [
        each["data"]["answer"]
        for each in ask(page, "GET", f"jobs/{job['id']}/events")["events"]
        if each["type"] == "clarification.received"
    ]
    assert received == ["No, as they are"]


def test_text_typed_before_the_question_does_not_answer_it(workbench: Make) -> None:
    _, page = begun(workbench, thinks=1)
    instruct(page, FIRST)
    box(page).fill(SECOND)
    expect(question(page)).to_be_visible()
    page.reload()
    expect(question(page)).to_be_visible()
    expect(sidebar(page).get_by_role("button", name="Queue as instruction")).to_be_enabled()
    box(page).press("Enter")
    expect(sidebar(page)).to_contain_text("The agent asked a question while you were writing.")
    assert jobs(page) == {FIRST: "waiting_for_user"}
    sidebar(page).get_by_role("button", name="Queue as instruction").click()
    expect(box(page)).to_have_value("")
    expect(question(page)).to_be_visible()
    expect(page).to_have_title(re.compile("^1 question · "))
    assert jobs(page) == {FIRST: "waiting_for_user", SECOND: "queued"}


def test_an_answer_entered_while_the_connection_is_lost_is_sent_afterwards(workbench: Make) -> None:
    """Also in the moment between the page's two connections: the socket is back, the review is not."""
    _, page = begun(workbench)
    instruct(page, FIRST)
    expect(question(page)).to_be_visible()
    down = True
    page.route("**/api/agent/**", lambda route: route.abort() if down else route.continue_())
    expect(sidebar(page)).to_contain_text("Not connected to Newel.")
    question(page).get_by_role("textbox").fill("Yes")
    question(page).get_by_role("textbox").press("Enter")
    down = False
    expect(question(page)).to_be_hidden()
    expect(sidebar(page).locator(".job-state")).to_have_text("Done. No changes proposed")


def test_a_question_survives_a_restart_and_is_answered_once_for_all_pages(workbench: Make) -> None:
    bench, page = begun(workbench)
    instruct(page, FIRST)
    expect(question(page)).to_be_visible()
    box(page).fill(SECOND)
    sidebar(page).get_by_role("button", name="Queue as instruction").click()
    expect(box(page)).to_have_value("")
    second = bench.page()
    expect(question(second)).to_be_visible()
    bench.kill()
    bench.start()
    for each in (page, second):
        expect(each.get_by_role("status").filter(has_text="Reconnecting")).to_be_hidden()
    question(second).get_by_role("textbox").fill("Yes")
    question(second).get_by_role("textbox").press("Enter")
    expect(question(page)).to_be_hidden()
    expect(sidebar(page).locator(".listed-file")).to_have_count(1)
    expect(sidebar(page).locator(".job-state")).to_have_text("To review: 1 file")
    assert jobs(page) == {FIRST: "completed", SECOND: "awaiting_review"}


def test_a_draft_answer_survives_a_reload_and_belongs_to_its_question(
    workbench: Make,
) -> None:
    """Otherwise a long answer is lost, or is taken for something else."""
    asks = [
        answering(words, call("clarify_user", question=f"{words}?"), {"content": "Done."})
        for words in (FIRST, SECOND)
    ]
    page = workbench(scenarios(*asks)).page()
    for words in (FIRST, SECOND):
        session = ask(page, "POST", "sessions", {})["session_id"]
        ask(page, "POST", "run", {"session_id": session, "instruction": words})
    expect(question(page)).to_contain_text(f"{FIRST}?")
    question(page).get_by_role("textbox").fill("one answer")
    page.evaluate("location.hash = '#/requests'")
    page.get_by_role("region", name="Requests").get_by_role("button", name=SECOND).click()
    request = page.get_by_role("region", name="Request", exact=True)
    expect(request).to_contain_text("Waiting for your answer.")
    request.get_by_role("textbox", name="Your answer").fill("another answer")
    page.reload()
    expect(question(page).get_by_role("textbox")).to_have_value("one answer")
    expect(request.get_by_role("textbox", name="Your answer")).to_have_value("another answer")
    box(page).fill("a third")
    page.reload()
    expect(question(page)).to_be_visible()
    expect(sidebar(page).get_by_role("button", name="Queue as instruction")).to_be_enabled()
    box(page).press("Enter")  # it was started as an answer
    expect(question(page)).to_contain_text(f"{SECOND}?")
    assert jobs(page)[FIRST] in {"running", "completed"}
    assert jobs(page)[SECOND] == "waiting_for_user"


def test_a_question_can_be_answered_in_the_list_of_jobs_also_by_keyboard(workbench: Make) -> None:
    _, page = begun(workbench)
    instruct(page, FIRST)
    expect(question(page)).to_be_visible()
    ask(page, "POST", "sessions", {})  # another program starts a newer session
    page.reload()
    expect(question(page)).to_be_visible()
    page.get_by_role("button", name="Close review").click()
    lead = page.get_by_role("alert").get_by_role("button", name="The review agent is waiting for your answer")
    expect(lead).to_be_visible()
    expect(page).to_have_title(re.compile("^1 question · "))
    lead.click()
    expect(question(page).get_by_role("textbox")).to_be_focused()
    sidebar(page).get_by_role("button", name="Earlier requests").focus()
    page.keyboard.press("Enter")
    row = page.get_by_role("region", name="Requests").get_by_role("button", name=FIRST)
    expect(row).to_contain_text("Waiting for your answer")
    row.focus()
    page.keyboard.press("Enter")
    request = page.get_by_role("region", name="Request", exact=True)
    expect(request.get_by_role("textbox", name="Your answer")).to_be_focused()
    page.keyboard.type("Yes")
    page.keyboard.press("Enter")
    expect(request).to_contain_text("You: Yes")
    expect(request).to_contain_text("No change")
    expect(question(page)).to_be_hidden()
    expect(page).not_to_have_title(re.compile("question"))


def test_the_views_with_questions_are_accessible_and_fit(workbench: Make) -> None:
    _, page = begun(workbench, **NARROW)
    instruct(page, FIRST)
    expect(question(page)).to_be_visible()
    box(page).fill("Something longer that was begun")
    assert find_flaws(page) == []
    page.evaluate("location.hash = '#/requests'")
    sidebar(page).get_by_role("button", name="Close review").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("banner").get_by_role("button", name=re.compile("^Review"))).to_be_focused()
    expect(page.get_by_role("alert")).to_be_visible()
    assert find_flaws(page) == []
    page.get_by_role("region", name="Requests").get_by_role("button", name=FIRST).click()
    expect(page.get_by_role("textbox", name="Your answer")).to_be_visible()
    assert find_flaws(page) == []
