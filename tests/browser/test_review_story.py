"""The whole story of a review on the page, as docs/review_story.py tells it over HTTP, up to the bytes on the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.bench import Workbench
from tests.browser.review_scenarios import (
    INSTRUCTION,
    NOTES,
    PLAN,
    answer,
    file,
    files,
    hunks,
    sidebar,
    story,
    write_files,
)
from tests.browser.test_editor import were_refused

Make = Callable[..., Workbench]
Between = Callable[[Page], None]


def on_the_disk(bench: Workbench, expected: Mapping[str, str | None]) -> None:
    for name, text in expected.items():
        path = bench.newel.project / name
        assert (path.read_bytes().decode() if path.exists() else None) == text, name


def text_of(page: Page, name: str) -> Locator:
    return page.get_by_role("textbox", name=f"Text of {name}")


def summary(page: Page) -> Locator:
    return page.locator(".file-summary")


def told(page: Page) -> None:
    expect(summary(page)).not_to_contain_text("sending")


def tell(bench: Workbench, page: Page, between: Between) -> None:
    """``between`` is called after each step."""
    # Lines are selected, added to what the model is shown, and an instruction is given.
    page.get_by_role("banner").get_by_role("button", name="Files").click()
    page.get_by_role("treeitem", name="notes.md").click()
    expect(text_of(page, "notes.md")).to_be_visible()
    text_of(page, "notes.md").get_by_text("second").click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    sidebar(page).get_by_role("button", name="Add selection").click()
    expect(sidebar(page).get_by_role("list", name="Context")).to_contain_text("notes.md")
    between(page)
    box = sidebar(page).get_by_role("textbox", name="Instruction")
    box.fill(INSTRUCTION)
    box.press("Enter")
    # It asks, and is answered by keys.
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_be_visible()
    between(page)
    answer(page, "Yes")
    expect(files(page)).to_have_count(3)
    on_the_disk(bench, {"notes.md": NOTES, "plan.md": PLAN, "guide/index.md": None})
    between(page)
    # The user types while hunks wait.
    text = text_of(page, "notes.md")
    expect(text).to_contain_text("SECOND")
    text.get_by_text("third").click()
    page.keyboard.press("End")
    page.keyboard.type(", by me")
    told(page)
    between(page)
    # One hunk is rejected, others are accepted; the last decision is taken back, made again, and taken back.
    page.get_by_role("button", name="Reject hunk 1").click()
    expect(summary(page)).to_contain_text("1 rejected")
    page.get_by_role("button", name="Accept hunk 2").click()
    expect(summary(page)).to_contain_text("1 accepted")
    between(page)
    text.get_by_text("first").click()
    page.keyboard.press("Control+z")
    expect(summary(page)).not_to_contain_text("accepted")
    page.keyboard.press("Control+Shift+z")
    expect(summary(page)).to_contain_text("1 accepted")
    hunks(page, "guide/index.md").get_by_role("button", name="Accept", exact=True).click()
    expect(hunks(page, "guide/index.md").locator(".hunk-where")).to_contain_text("accepted")
    between(page)
    # Saved, and only what was accepted and what the user wrote.
    text.get_by_text("first").click()
    page.keyboard.press("Control+s")
    expect(summary(page)).not_to_contain_text("not saved")
    file(page, "guide/index.md").get_by_role("button", name="Open").click()
    expect(text_of(page, "guide/index.md")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(summary(page)).not_to_contain_text("not saved")
    kept = {
        "notes.md": "# Notes\n\nfirst\n\nSECOND\n\nthird, by me\n",
        "plan.md": PLAN,
        "guide/index.md": "# Guide\n",
    }
    on_the_disk(bench, kept)
    between(page)
    kept = change_outside(bench, page, kept, between)
    go_back(bench, page, kept, between)


def change_outside(bench: Workbench, page: Page, kept: dict[str, str], between: Between) -> dict[str, str]:
    """A file changes on the disk under a hunk that was accepted: a conflict, and the job run again."""
    file(page, "plan.md").get_by_role("button", name="Open").click()
    page.get_by_role("button", name="Accept hunk 1").click()
    expect(summary(page)).to_contain_text("1 accepted")
    outside = PLAN.replace("measure", "measure well")
    (bench.newel.project / "plan.md").write_bytes(outside.encode())
    text_of(page, "plan.md").get_by_text("plan", exact=True).click()
    page.keyboard.press("Control+s")  # unless the change was seen by then
    trouble = page.locator(".file-trouble")
    expect(trouble).to_contain_text("plan.md changed on disk")
    on_the_disk(bench, {**kept, "plan.md": outside})
    trouble.get_by_role("button", name="Re-run").click()
    expect(text_of(page, "plan.md")).to_contain_text("MEASURE TWICE")
    between(page)
    page.get_by_role("button", name="Accept hunk 1").click()
    expect(summary(page)).to_contain_text("1 accepted")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(summary(page)).not_to_contain_text("not saved")
    kept = {**kept, "plan.md": PLAN.replace("measure", "MEASURE TWICE")}
    on_the_disk(bench, kept)
    return kept


def go_back(bench: Workbench, page: Page, kept: dict[str, str], between: Between) -> None:
    """Everything since the first job is rolled back with its list, and that is taken back."""
    page.get_by_role("button", name="Checkpoints").first.click()
    region = page.get_by_role("region", name="Checkpoints")
    head = region.locator(".timeline-head").last
    for start in (True, False):
        head.click()
        region.get_by_role("button", name="Roll back…").first.click()
        dialog = page.get_by_role("dialog", name="Roll back")
        for name in kept:
            expect(dialog).to_contain_text(name)
        dialog.get_by_role("button", name="Roll back", exact=True).click()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_be_hidden()
        on_the_disk(bench, {"notes.md": NOTES, "plan.md": PLAN, "guide/index.md": None} if start else kept)
        head = region.locator(".timeline-head").first
        between(page)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_review_from_the_first_word_to_the_undo_of_its_rollback(workbench: Make) -> None:
    bench = workbench(story())
    write_files(bench)
    tell(bench, bench.page(), lambda _: None)
    were_refused(bench)
