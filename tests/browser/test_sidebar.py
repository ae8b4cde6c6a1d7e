"""The agent's side of a review, on the real server: what a user sees of a job, and decides in the list."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.bench import Workbench, spills, violations
from tests.browser.review_scenarios import (
    NOTES,
    PLAN,
    answer,
    file,
    files,
    hunks,
    instruct,
    propose,
    sidebar,
    story,
    write_files,
)
from tests.browser.scenarios import answering, call, scenarios

Make = Callable[..., Workbench]


def begun(workbench: Make, **options: object) -> tuple[Workbench, Page]:
    bench = workbench(story())
    write_files(bench)
    return bench, bench.page(**options)


def state(page: Page) -> object:
    return expect(sidebar(page).locator(".job-state"))


def test_from_an_instruction_to_saved_files_by_keys_with_a_reload_at_every_step(workbench: Make) -> None:
    bench, page = begun(workbench)
    project, keys = bench.newel.project, page.keyboard
    box = sidebar(page).get_by_role("textbox", name="Instruction")
    box.fill("Put the notes in ord")
    page.reload()
    expect(box).to_have_value("Put the notes in ord")
    box.focus()
    keys.press("End")
    keys.type("er")
    keys.press("Enter")
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
    # The first hunk of all files is that of the guide; then those of the notes, then that of the plan.
    sidebar(page).locator("[data-item]").first.focus()
    keys.press("j")
    keys.press("a")
    expect(file(page, "guide/index.md").locator(".hunk-where")).to_contain_text("accepted")
    expect(hunks(page, "notes.md").nth(0).locator(".hunk-main")).to_be_focused()
    keys.press("r")
    expect(hunks(page, "notes.md").nth(0).locator(".hunk-where")).to_contain_text("rejected")
    keys.press("a")
    expect(hunks(page, "notes.md").nth(1).locator(".hunk-where")).to_contain_text("accepted")
    page.reload()
    expect(hunks(page, "notes.md").nth(1).locator(".hunk-where")).to_contain_text("accepted")
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
    expect(files(first)).to_have_count(3)
    expect(files(second)).to_have_count(3)
    hunks(first, "plan.md").get_by_role("button", name="Accept", exact=True).click()
    expect(hunks(second, "plan.md").locator(".hunk-where")).to_contain_text("accepted")
    file(second, "notes.md").get_by_role("button", name="Accept file notes.md").click()
    expect(hunks(first, "notes.md").locator(".hunk-where").last).to_contain_text("accepted")


def test_a_file_that_changed_outside_is_a_conflict_and_the_job_is_run_again_on_it(workbench: Make) -> None:
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
    sidebar(page).get_by_role("button", name="Save what is accepted").click()
    expect(files(page)).to_have_count(0)
    assert (bench.newel.project / "plan.md").read_bytes() == PLAN.replace("measure", "MEASURE TWICE").encode()


def test_a_skipped_question_lets_the_job_go_on_and_a_cancelled_job_says_so(workbench: Make) -> None:
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


def test_what_a_model_and_a_file_say_is_text_on_the_page(workbench: Make) -> None:
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


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400)])
def test_every_state_is_accessible_and_fits(workbench: Make, scheme: str, width: int) -> None:
    _, page = begun(workbench, scheme=scheme, width=width)
    for step in (lambda: sidebar(page), lambda: instruct(page), lambda: answer(page)):
        step()
        page.wait_for_timeout(300)
        assert (violations(page), spills(page)) == ([], 0)
    expect(hunks(page, "notes.md")).to_have_count(2)
    hunks(page, "notes.md").nth(0).get_by_role("button", name="Accept", exact=True).click()
    expect(hunks(page, "notes.md").nth(0).locator(".hunk-where")).to_contain_text("accepted")
    assert (violations(page), spills(page)) == ([], 0)
