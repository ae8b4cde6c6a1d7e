"""If these fail, a user cannot follow a review job in the sidebar, or decides on the wrong hunks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route

from tests.browser.bench import NARROW, Workbench, find_flaws
from tests.browser.expecting import expect
from tests.browser.proposals import ask
from tests.browser.review_scenarios import (
    NOTES,
    PLAN,
    answer,
    file,
    files,
    hunks,
    instruct,
    propose,
    send,
    sidebar,
    story,
    write_files,
)
from tests.browser.scenarios import answering, call, scenarios

Make = Callable[..., Workbench]


def begun(workbench: Make, **options: Any) -> tuple[Workbench, Page]:
    bench = workbench(story())
    write_files(bench)
    return bench, bench.page(**options)


def test_from_an_instruction_to_saved_files_by_keyboard_with_reloads(workbench: Make) -> None:
    bench, page = begun(workbench)
    project, keys = bench.newel.project, page.keyboard
    box = sidebar(page).get_by_role("textbox", name="Instruction")
    box.fill("Put the notes in ord")
    page.reload()
    expect(box).to_have_value("Put the notes in ord")
    box.focus()
    keys.press("End")
    keys.type("er")
    send(page)
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_contain_text("In capitals?")
    expect(box).to_have_value("")
    sidebar(page).get_by_role("textbox", name="Your answer").fill("Ye")
    page.reload()
    expect(sidebar(page).get_by_role("textbox", name="Your answer")).to_have_value("Ye")
    answer(page, "s")
    expect(files(page)).to_have_count(3)
    page.reload()
    expect(sidebar(page).locator(".job-state")).to_have_text("To review: 3 files")
    expect(hunks(page, "notes.md")).to_have_count(2)
    # The first hunk is that of the guide; then come those of the notes, then that of the plan.
    sidebar(page).locator("[data-item]").first.focus()
    keys.press("j")
    keys.press("a")
    expect(file(page, "guide/index.md").locator(".hunk-where")).to_contain_text("accepted")
    expect(hunks(page, "notes.md").nth(0).locator(".hunk-main")).to_be_focused()
    keys.press("r")
    expect(hunks(page, "notes.md").nth(0).locator(".hunk-where")).to_contain_text("rejected")
    keys.press("a")
    expect(hunks(page, "notes.md").nth(1).locator(".hunk-where")).to_contain_text("accepted")
    page.reload()  # perhaps before the server has the last decision; a file of which it has all is folded
    expect(file(page, "notes.md").locator(".file-head")).to_contain_text("1 to save · 1 rejected")
    assert (project / "notes.md").read_text() == NOTES
    file(page, "plan.md").locator(".hunk-main").focus()
    keys.press("r")
    expect(files(page)).to_have_count(2)
    keys.press("Control+s")
    expect(files(page)).to_have_count(0)
    assert (project / "notes.md").read_text() == NOTES.replace("second", "SECOND")
    assert (project / "plan.md").read_bytes() == PLAN.encode()
    assert (project / "guide" / "index.md").read_text() == "# Guide\n"
    expect(sidebar(page).locator(".job-state")).to_have_text("Reviewed")


def test_two_windows_show_the_same_job_and_the_same_decisions(workbench: Make) -> None:
    bench, first = begun(workbench)
    second = bench.page()
    sidebar(second)
    instruct(first)
    expect(sidebar(second).get_by_role("form", name="The agent asks")).to_be_visible()
    answer(second)
    expect(second.locator(".job-state")).to_be_focused()
    expect(files(first)).to_have_count(3)
    expect(first.locator("p[role=status]")).to_have_text("Job finished: 4 hunks in 3 files to review.")
    expect(files(second)).to_have_count(3)
    hunk = hunks(first, "plan.md")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    first.route("**/api/agent/decide", hold)
    hunk.get_by_role("button", name="Accept", exact=True).click()
    expect(hunk.locator(".hunk-where")).to_contain_text("accepted")  # before the server has answered
    while not held:  # the browser has yet to send it
        first.wait_for_timeout(10)
    held[0].fulfill(status=409, json={"error": {"code": "contested", "message": "It cannot be."}})
    expect(hunk).to_contain_text("It cannot be.")
    expect(hunk.locator(".hunk-where")).not_to_contain_text("accepted")
    bench.complaints.clear()  # the browser logs the response
    hunk.get_by_role("button", name="Accept", exact=True).click()
    expect(file(second, "plan.md")).to_contain_text("1 to save")
    file(second, "notes.md").get_by_role("button", name="Accept file notes.md").click()
    expect(file(first, "notes.md").locator(".file-head")).to_have_attribute("aria-expanded", "false")
    expect(hunks(first, "notes.md").locator(".hunk-where").last).to_contain_text("accepted")


def test_a_job_that_ends_between_two_reads_of_a_slow_window_is_announced(workbench: Make) -> None:
    bench, first = begun(workbench)
    second = bench.page()
    sidebar(second)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    later_pages = re.compile(r"/api/agent/jobs/.*/events\?.*cursor=[1-9]")
    first.route(later_pages, hold)
    instruct(first)
    answer(second)
    expect(second.locator(".job-state")).to_have_text("To review: 3 files")
    assert held
    first.unroute(later_pages)  # what is held goes on
    expect(files(first)).to_have_count(3)
    expect(first.locator("p[role=status]")).to_have_text("Job finished: 4 hunks in 3 files to review.")


def test_a_file_changed_outside_is_a_conflict_and_the_job_can_be_rerun_on_it(workbench: Make) -> None:
    bench, page = begun(workbench)
    propose(page)
    outside = PLAN.replace("measure", "measure well")
    (bench.newel.project / "plan.md").write_bytes(outside.encode())
    sidebar(page).get_by_role("button", name="Accept all", exact=True).click()
    expect(file(page, "plan.md")).to_contain_text("1 conflict")
    expect(hunks(page, "plan.md")).to_contain_text("The file changed here")
    expect(sidebar(page).locator(".job")).to_contain_text("plan.md changed since this was proposed")
    sidebar(page).get_by_role("button", name="Re-run").click()
    expect(hunks(page, "plan.md").locator(".add")).to_have_text("+1. MEASURE TWICE")
    hunks(page, "plan.md").get_by_role("button", name="Accept", exact=True).click()
    expect(hunks(page, "plan.md").locator(".hunk-where")).to_contain_text("accepted")
    sidebar(page).get_by_role("button", name="All reviewed: Save 3 files").click()
    expect(files(page)).to_have_count(0)
    assert (bench.newel.project / "plan.md").read_bytes() == PLAN.replace("measure", "MEASURE TWICE").encode()


def test_all_can_be_accepted_beside_a_conflict_that_is_decided(workbench: Make) -> None:
    bench, page = begun(workbench)
    propose(page)
    (bench.newel.project / "notes.md").write_text(NOTES.replace("second", "zwei"))
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(file(page, "notes.md")).to_contain_text("2 to decide · 1 conflict")
    hunks(page, "notes.md").nth(1).get_by_role("button", name="Keep proposal").click()
    expect(file(page, "notes.md")).to_contain_text("1 to decide · 1 to save")
    for path in ("guide/index.md", "plan.md"):
        file(page, path).get_by_role("button", name="Reject file").click()
        expect(file(page, path)).to_have_count(0)
    expect(file(page, "notes.md").get_by_role("button", name="Accept file")).to_be_enabled()
    page.evaluate("location.hash = '#/pending'")
    expect(page.get_by_role("button", name="Accept all in notes.md")).to_be_attached()
    sidebar(page).get_by_role("button", name="Accept all", exact=True).click()
    expect(sidebar(page)).to_contain_text("Accepted 1 hunk in 1 file")
    expect(sidebar(page).get_by_role("button", name="All reviewed: Save 1 file")).to_be_enabled()
    announced = page.locator("p[role=status]").first.text_content()
    assert "left" not in str(announced)


def test_a_decision_by_mouse_leaves_the_focus_where_it_was_made(workbench: Make) -> None:
    """Otherwise the list jumps to its first file after each click, and J begins there again."""
    bench, page = begun(workbench)
    propose(page)
    second = hunks(page, "notes.md").nth(1)
    second.get_by_role("button", name="Accept", exact=True).click()
    expect(second.locator(".hunk-where")).to_contain_text("accepted")
    expect(second.locator(".hunk-main")).to_be_focused()
    second.get_by_role("button", name="Undo accept").click()
    expect(second.locator(".hunk-where")).not_to_contain_text("accepted")
    expect(second.locator(".hunk-main")).to_be_focused()
    page.keyboard.press("j")
    expect(file(page, "plan.md").locator(".file-head")).to_be_focused()
    file(page, "plan.md").get_by_role("button", name="Accept file").click()
    expect(file(page, "plan.md")).to_contain_text("1 to save")
    expect(file(page, "plan.md").locator(".file-head")).to_be_focused()
    file(page, "notes.md").get_by_role("button", name="Reject file").click()
    expect(file(page, "notes.md")).to_have_count(0)
    expect(file(page, "plan.md").locator(".file-head")).to_be_focused()
    bench.kill()
    expect(page.get_by_text("Not connected to Newel. Your draft is saved.")).to_be_visible()
    first = hunks(page, "guide/index.md").first
    first.get_by_role("button", name="Accept", exact=True).click()
    expect(first.locator(".hunk-where")).to_contain_text("pending connection")
    expect(first.locator(".hunk-main")).to_be_focused()


def test_the_head_of_the_review_covers_what_scrolls_below_it(workbench: Make) -> None:
    _, page = begun(workbench, height=400)
    propose(page)
    file(page, "guide/index.md").locator(".file-head").focus()
    on_top = """(side) => {
        const actions = side.querySelector(".listed-file > .row-actions");
        const head = side.querySelector(".side-head");
        side.scrollTop += actions.getBoundingClientRect().top - head.getBoundingClientRect().top - 4;
        const { left, top, width } = actions.getBoundingClientRect();
        return document.elementFromPoint(left + width / 2, top + 12).className;
    }"""
    assert page.locator(".side", has=page.locator(".review-sidebar")).evaluate(on_top) == "side-head"


def test_selected_lines_are_attached_as_context_also_after_a_reload(workbench: Make) -> None:
    bench, page = begun(workbench)
    sidebar(page).get_by_role("button", name="Add selection").click()
    expect(sidebar(page)).to_contain_text("Select lines in a file first.")
    page.evaluate("location.hash = '#/file/notes.md'")
    page.get_by_text("second", exact=True).first.click()
    page.keyboard.press("Shift+Home")
    sidebar(page).get_by_role("button", name="Add selection").click()
    sidebar(page).get_by_role("button", name="Add file").click()
    rows = sidebar(page).get_by_role("list", name="Context").get_by_role("listitem")
    expect(rows).to_have_count(2)
    page.reload()
    expect(rows.nth(0)).to_contain_text("notes.md:5")
    instruct(page)
    answer(page)
    expect(files(page)).to_have_count(3)
    told = str(bench.newel.requests[0]["messages"][-1])
    assert "selection: notes.md, lines 5 to 5" in told
    assert "file: notes.md" in told
    expect(rows).to_have_count(2)
    rows.nth(1).get_by_role("button", name="Pin").click()
    rows.nth(0).get_by_role("button", name="Remove notes.md:5").click()
    expect(rows).to_have_count(1)
    sidebar(page).get_by_role("button", name="New session").click()
    expect(sidebar(page).locator(".job")).to_be_hidden()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Pinned")


def test_nothing_is_lost_while_the_server_is_down_and_work_continues_afterwards(workbench: Make) -> None:
    bench, page = begun(workbench)
    instruct(page)
    asks = sidebar(page).get_by_role("form", name="The agent asks")
    expect(asks).to_be_visible()
    bench.kill()
    expect(sidebar(page)).to_contain_text("Not connected to Newel. Your draft is saved.")
    expect(asks.get_by_role("button", name="Skip")).to_be_disabled()
    box = sidebar(page).get_by_role("textbox", name="Instruction")
    box.fill("And then the rest")
    box.press("Enter")
    bench.start()
    expect(asks.get_by_role("button", name="Skip")).to_be_enabled()
    expect(box).to_have_value("And then the rest")
    answer(page)
    expect(files(page)).to_have_count(3)
    expect(sidebar(page).locator(".job-state")).to_have_text("To review: 3 files")


def test_the_users_lines_in_a_hunk_are_rejected_only_by_choice(workbench: Make) -> None:
    _, page = begun(workbench)
    propose(page)
    hunks(page, "notes.md").nth(1).locator(".hunk-main").click()
    page.get_by_text("SECOND", exact=True).first.click()
    page.keyboard.press("End")
    page.keyboard.type(", mine")
    second = hunks(page, "notes.md").nth(1)
    expect(second.locator(".hunk-where")).to_contain_text("edited by you")
    second.get_by_role("button", name="Reject").click()
    expect(second).to_contain_text("It contains your lines")
    second.get_by_role("button", name="Discard only my lines").click()
    expect(second.locator(".hunk-where")).not_to_contain_text("edited by you")
    expect(second.locator(".add")).to_have_text("+SECOND")
    second.get_by_role("button", name="Reject").click()
    expect(second.locator(".hunk-where")).to_contain_text("rejected")
    second.get_by_role("button", name="Restore").click()
    expect(second.get_by_role("button", name="Accept", exact=True)).to_be_visible()


def test_a_skipped_question_continues_the_job_and_a_cancelled_job_says_so(workbench: Make) -> None:
    _, page = begun(workbench)
    instruct(page)
    sidebar(page).get_by_role("button", name="Skip").click()
    expect(files(page)).to_have_count(3)
    sidebar(page).get_by_role("button", name="New session").click()
    expect(sidebar(page).locator(".job")).to_be_hidden()
    instruct(page)
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_be_visible()
    sidebar(page).get_by_role("button", name="Cancel").click()
    expect(sidebar(page).locator(".job")).to_contain_text("Cancelled by the user.")
    sidebar(page).get_by_role("button", name="Run again").click()
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_be_visible()


def test_text_of_models_and_files_is_escaped(workbench: Make) -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
    edit = {
        "edit_id": "e",
        "file_path": "a.md",
        "operation": "insert",
        "start_line": 1,
        "new_text": evil + "\n",
    }
    bench = workbench(
        scenarios(
            answering(
                "attack",
                call("clarify_user", question=f"Really? {evil}"),
                call("propose_edits", edits=[edit]),
                {"content": evil},
            )
        )
    )
    page = bench.page()
    instruct(page, "attack")
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_contain_text("<img src=x")
    sidebar(page).get_by_role("button", name="Skip").click()
    expect(hunks(page, "a.md").locator(".add")).to_contain_text("+<img src=x onerror=alert(1)><U+001B>")
    assert sidebar(page).locator("img").count() == 0
    assert "\u202e" not in sidebar(page).inner_text()


def test_every_state_is_accessible_and_fits(workbench: Make) -> None:
    bench, page = begun(workbench, **NARROW)
    for step in (lambda: sidebar(page), lambda: instruct(page), lambda: answer(page)):
        step()
        page.wait_for_timeout(300)
        assert find_flaws(page) == []
    first, second = hunks(page, "notes.md").nth(0), hunks(page, "notes.md").nth(1)
    with page.expect_response("**/api/agent/decide"):  # the page shows a decision before the server has it
        first.get_by_role("button", name="Accept", exact=True).click()
    expect(first.locator(".hunk-where")).to_contain_text("accepted")
    # One hunk contains the user's lines and asks which to drop, another is in conflict.
    rev = ask(page, "GET", "file?file_path=notes.md")["rev"]
    splice = {"start_line": 5, "delete_lines": 1, "new_text": "SECOND, by me\n"}
    ask(page, "POST", "edit", {"file_path": "notes.md", "rev": rev, "splices": [splice]})
    expect(second.locator(".hunk-where")).to_contain_text("edited by you")
    second.get_by_role("button", name="Reject").click()
    expect(second).to_contain_text("It contains your lines")
    (bench.newel.project / "plan.md").write_bytes(PLAN.replace("measure", "measure well").encode())
    ask(page, "GET", "file?file_path=plan.md")
    expect(hunks(page, "plan.md")).to_contain_text("conflict")
    assert find_flaws(page) == []
    sidebar(page).get_by_role("button", name="New session").click()
    expect(sidebar(page).locator(".job")).to_be_hidden()
    instruct(page)
    sidebar(page).locator(".job").get_by_role("button", name="Cancel").click()
    expect(sidebar(page).locator(".job")).to_contain_text("Cancelled by the user.")
    assert find_flaws(page) == []
