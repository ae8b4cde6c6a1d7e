"""If these fail, a review has no end in sight: its progress is wrong, keys miss hunks, or buttons are out of reach."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, find_flaws
from tests.browser.expecting import expect
from tests.browser.proposals import add_file, proposal_scenarios, propose, replace_line
from tests.browser.review_scenarios import file, hunks, sidebar

Make = Callable[..., Workbench]

WORDS = "count on"
LINES = [f"line {number}" for number in range(1, 41)]
TEXT = "\n".join(LINES) + "\n"
EDITS = [
    replace_line("a/__init__.py", 2, "two\n"),
    replace_line("a/__init__.py", 20, "twenty\n"),
    replace_line("b/__init__.py", 3, "three\n"),
    add_file("c.md", "new\n"),
]


def proposed(workbench: Make, **options: Any) -> tuple[Workbench, Page]:
    """A page with a proposal of four hunks in three files."""
    bench = workbench(proposal_scenarios((WORDS, EDITS)))
    for name in "ab":
        (bench.newel.project / name).mkdir()
        (bench.newel.project / name / "__init__.py").write_text(TEXT)
    page = bench.page(**options)
    propose(page, WORDS)
    return bench, page


def go(page: Page, place: str) -> None:
    page.evaluate("(place) => { location.hash = `#/${place}` }", place)


def progress(page: Page) -> Locator:
    return sidebar(page).locator(".review-progress")


def current(page: Page) -> Locator:
    """The hunk in the editor to which the keys apply."""
    return page.locator(".inline-hunk[aria-current]:visible")


def shown_tab(page: Page) -> Locator:
    return page.locator("[role=tab][aria-selected=true]")


@pytest.mark.core
def test_the_keys_lead_through_all_files_to_one_save(workbench: Make) -> None:
    bench, page = proposed(workbench)
    other = bench.page()
    expect(progress(page)).to_have_text("0 of 4 decided")
    go(page, "file/a/__init__.py")
    expect(current(page)).to_have_accessible_name("Hunk 1 of 2, line 2")
    page.locator(".file-editor").focus()
    page.keyboard.press("a")
    page.keyboard.press("a")
    for window in (page, other):
        expect(progress(window)).to_have_text("2 of 4 decided")
    page.keyboard.press("j")
    expect(shown_tab(page)).to_contain_text("__init__.py b")
    expect(current(page)).to_have_accessible_name("Hunk 1 of 1, line 3")
    page.locator(".file-editor:visible").focus()
    page.keyboard.press("k")
    expect(shown_tab(page)).to_contain_text("c.md")  # around the end: all of a is decided
    expect(current(page)).to_have_accessible_name("Hunk 1 of 1, line 1")
    page.locator(".file-editor:visible").focus()
    page.keyboard.press("r")
    expect(progress(page)).to_have_text("3 of 4 decided")
    bench.kill()
    bench.start()
    page.reload()
    expect(progress(page)).to_have_text("3 of 4 decided")
    go(page, "file/b/__init__.py")
    expect(current(page)).to_have_accessible_name("Hunk 1 of 1, line 3")
    page.locator(".file-editor:visible").focus()
    page.keyboard.press("a")
    expect(page.get_by_role("status").filter(has_text="All reviewed. 2 files to save.")).to_have_count(1)
    save = page.locator(".file-bar:visible").get_by_role("button", name="All reviewed: Save 2 files")
    expect(save).to_be_focused()
    page.keyboard.press("Enter")
    expect(sidebar(page)).to_contain_text("Nothing to review.")
    expect(progress(other)).to_be_hidden()
    for name, changed in (("a", {1: "two", 19: "twenty"}), ("b", {2: "three"})):
        lines = [changed.get(at, line) for at, line in enumerate(LINES)]
        assert (bench.newel.project / name / "__init__.py").read_text().splitlines() == lines
    assert not (bench.newel.project / "c.md").exists()


def test_the_lists_end_with_the_focus_on_save(workbench: Make) -> None:
    _, page = proposed(workbench)
    go(page, "pending")
    region = page.get_by_role("region", name="All pending changes")
    expect(region.locator("[aria-current]")).to_be_focused()
    region.get_by_role("button", name="Reject all in c.md").click()
    expect(region.locator(".review-progress")).to_have_text("1 of 4 decided")
    region.locator("[aria-current]").focus()
    for key, decided in (("r", 2), ("Control+z", 1)):  # a rejected hunk is not in this list any more
        page.keyboard.press(key)
        expect(region.locator(".review-progress")).to_have_text(f"{decided} of 4 decided")
        expect(region.locator("[aria-current]")).to_be_focused()
    for decided in (2, 3, 4):
        page.keyboard.press("a")
        expect(region.locator(".review-progress")).to_have_text(f"{decided} of 4 decided")
    expect(region.get_by_role("button", name="All reviewed: Save 2 files")).to_be_focused()
    expect(region.locator(".pending-hunk")).to_have_count(0)
    region.get_by_role("button", name="b/__init__.py").first.click()
    region.get_by_role("button", name="Undo accept").click()
    hunk = file(page, "b/__init__.py").locator(".listed-hunk")
    expect(hunk).to_be_visible()  # its file has unfolded
    hunk.locator(".hunk-main").focus()
    page.keyboard.press("a")
    expect(sidebar(page).get_by_role("button", name="All reviewed: Save 2 files")).to_be_focused()
    page.keyboard.press("Control+s")
    expect(sidebar(page)).to_contain_text("Nothing to review.")


def test_the_focus_stays_in_the_review_after_its_end(workbench: Make) -> None:
    """Otherwise the keyboard begins again at the top of the page, and a screen reader says nothing of where it is."""
    _, page = proposed(workbench)
    sidebar(page).get_by_role("button", name="Accept all", exact=True).press("Enter")
    sidebar(page).get_by_role("button", name="All reviewed: Save 3 files").press("Enter")
    expect(sidebar(page)).to_contain_text("Nothing to review.")
    expect(sidebar(page).get_by_text("To review", exact=True)).to_be_focused()
    propose(page, WORDS)
    go(page, "pending")
    region = page.get_by_role("region", name="All pending changes")
    sidebar(page).get_by_role("button", name="Accept all", exact=True).press("Enter")
    region.get_by_role("button", name=re.compile("^All reviewed: Save")).press("Enter")
    expect(sidebar(page)).to_contain_text("Nothing to review.")
    expect(region.get_by_role("heading", name="All pending changes")).to_be_focused()


def test_the_focus_stays_at_a_file_whose_hunks_are_decided_at_once(workbench: Make) -> None:
    """Otherwise each file that is decided by its buttons sends the keyboard back to the top of the page."""
    _, page = proposed(workbench)
    go(page, "pending")
    region = page.get_by_role("region", name="All pending changes")
    region.get_by_role("button", name="Accept all in a/__init__.py").press("Enter")
    expect(region.locator(".review-progress")).to_have_text("2 of 4 decided")
    expect(region.locator(".pending-fold").first).to_be_focused()


def test_a_reviewed_file_folds_but_not_under_the_pointer(workbench: Make) -> None:
    """Otherwise all below moves up, and a second click hits another hunk."""
    _, page = proposed(workbench)
    head = file(page, "b/__init__.py").locator(".file-head")
    hunks(page, "b/__init__.py").get_by_role("button", name="Accept", exact=True).click()
    expect(file(page, "b/__init__.py")).to_contain_text("1 to save")
    expect(head).to_have_attribute("aria-expanded", "true")
    page.mouse.move(0, 0)
    expect(head).to_have_attribute("aria-expanded", "false")


def test_buttons_appear_under_the_pointer_and_with_the_focus(workbench: Make) -> None:
    _, page = proposed(workbench)
    go(page, "file/a/__init__.py")
    expect(current(page).locator(".row-actions")).to_have_css("opacity", "1")
    second = page.get_by_role("group", name="Hunk 2 of 2").locator(".row-actions")
    expect(second).to_have_css("opacity", "0")
    page.locator(".cm-line", has_text="twenty").hover()
    expect(second).to_have_css("opacity", "1")
    listed = hunks(page, "b/__init__.py").locator(".row-actions")
    expect(listed).to_have_css("opacity", "0")
    hunks(page, "b/__init__.py").hover()
    expect(listed).to_have_css("opacity", "1")
    expect(second).to_have_css("opacity", "0")
    whole = file(page, "b/__init__.py").locator("> .row-actions")
    expect(whole).to_have_css("opacity", "0")
    page.mouse.move(0, 0)
    file(page, "b/__init__.py").locator(".file-head").focus()
    page.keyboard.press("Tab")  # its origin
    page.keyboard.press("Tab")
    expect(whole.get_by_role("button", name=re.compile("^Accept file"))).to_be_focused()
    expect(whole).to_have_css("opacity", "1")
    page.set_viewport_size({"width": 400, "height": 800})
    expect(second).to_have_css("opacity", "1")
    assert find_flaws(page) == []


def test_a_conflict_on_a_phone_leaves_room_for_the_file(workbench: Make) -> None:
    bench, page = proposed(workbench, **NARROW)
    (bench.newel.project / "b" / "__init__.py").write_text(
        TEXT.replace("line 3\n", "mine\n").replace("line 8\n", "x" * 400 + "\n")
    )
    go(page, "file/b/__init__.py")
    bar = page.locator(".file-bar:visible")
    expect(bar).to_contain_text("the same lines changed on disk")
    expect(page.locator(".inline-hunk:visible").get_by_role("button", name="Keep file")).to_be_visible()
    scroller = page.locator(".cm-scroller:visible")
    box = scroller.bounding_box()
    assert box is not None
    assert box["y"] <= 200
    buttons = page.locator(".hunk-bar:visible").bounding_box()
    assert buttons is not None
    assert buttons["x"] + buttons["width"] <= scroller.evaluate(
        "(it) => it.clientWidth"
    )  # without the scroll bar
    assert find_flaws(page) == []


def test_the_buttons_of_a_file_share_a_row_between_two_columns(workbench: Make) -> None:
    _, page = proposed(workbench, width=1024)
    sidebar(page)
    page.get_by_role("banner").get_by_role("button", name="Files").click()
    go(page, "file/a/__init__.py")
    row = page.locator(".file-row:visible")
    boxes = [row.get_by_role("button", name=name).bounding_box() for name in ("Reject all", "Save")]
    tops = {box["y"] for box in boxes if box is not None}
    assert len(tops) == 1


def test_an_oversized_hunk_is_split_in_the_list(workbench: Make) -> None:
    text = "".join(f"new {number}\n" for number in range(200))
    bench = workbench(proposal_scenarios((WORDS, [add_file("long.md", text)])))
    page = bench.page()
    propose(page, WORDS)
    expect(hunks(page, "long.md")).to_have_count(1)
    expect(hunks(page, "long.md")).to_contain_text("large")
    hunks(page, "long.md").get_by_role("button", name="Split").click()
    expect(hunks(page, "long.md").nth(1)).to_be_visible()
    expect(progress(page)).to_have_text(re.compile("^0 of [2-9]"))


def test_a_decision_on_all_files_is_taken_back_in_one_step(workbench: Make) -> None:
    _, page = proposed(workbench)
    expect(progress(page)).to_have_text("0 of 4 decided")
    head = sidebar(page).get_by_role("region", name="To review")
    head.get_by_role("button", name="Accept all", exact=True).click()
    expect(head).to_contain_text("Accepted 4 hunks in 3 files · Undo")
    expect(progress(page)).to_have_text("4 of 4 decided")
    head.get_by_role("button", name="Undo", exact=True).click()
    expect(progress(page)).to_have_text("0 of 4 decided")
    expect(head.get_by_role("button", name="Undo", exact=True)).to_be_hidden()
    file(page, "a/__init__.py").get_by_role("button", name="Accept file").click()
    expect(progress(page)).to_have_text("2 of 4 decided")
    head.get_by_role("button", name="Reject all", exact=True).click()
    dialog = page.get_by_role("dialog", name="Reject all?")
    expect(dialog).to_contain_text("2 hunks in 2 files will be rejected.")
    dialog.get_by_role("button", name="Reject all").click()
    expect(head).to_contain_text("Rejected 2 hunks in 2 files · Undo")
    head.get_by_role("button", name="Undo", exact=True).press("Control+z")
    expect(progress(page)).to_have_text("2 of 4 decided")
