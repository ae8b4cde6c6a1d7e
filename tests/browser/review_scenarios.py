"""The story of docs/review_story.py for the browser tests: its files, its model, and its steps on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Locator, Page

from tests.browser.bench import Workbench
from tests.browser.expecting import expect

STORY: Final = Path(__file__).resolve().parents[2] / "docs" / "review_story.json"
INSTRUCTION: Final = "Put the notes in order"
QUESTION: Final = "In capitals?"
NOTES: Final = "# Notes\n\nfirst\n\nsecond\n\nthird\n"
PLAN: Final = "plan\r\n1. measure\r\n2. cut\r\n"


def story() -> dict[str, Any]:
    """The model's scenarios."""
    return json.loads(STORY.read_text())


def write_files(bench: Workbench) -> None:
    """Write the files as they are before the story."""
    (bench.newel.project / "notes.md").write_bytes(NOTES.encode())
    (bench.newel.project / "plan.md").write_bytes(PLAN.encode())


def sidebar(page: Page) -> Locator:
    """The review's sidebar; opens it if it is closed."""
    button = page.get_by_role("banner").get_by_role("button", name=re.compile("^Review"))
    # a page that was just loaded may open it itself
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    return page.get_by_role("complementary", name="Review", exact=True)


def instruct(page: Page, instruction: str = INSTRUCTION) -> None:
    sidebar(page).get_by_role("textbox", name="Instruction").fill(instruction)
    send(page)


def send(page: Page) -> None:
    """Send the written instruction with Enter, once the page accepts one."""
    expect(sidebar(page).get_by_role("button", name="Propose")).to_be_enabled()
    sidebar(page).get_by_role("textbox", name="Instruction").press("Enter")


def answer(page: Page, words: str = "Yes") -> None:
    """Answer the agent's question by keyboard."""
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_contain_text(QUESTION)
    box = sidebar(page).get_by_role("textbox", name="Your answer")
    box.focus()
    page.keyboard.type(words)
    page.keyboard.press("Enter")


def propose(page: Page) -> None:
    """From the instruction to the proposal in three files."""
    instruct(page)
    answer(page)
    expect(files(page)).to_have_count(3)


def files(page: Page) -> Locator:
    return sidebar(page).locator(".listed-file")


def file(page: Page, path: str) -> Locator:
    return sidebar(page).locator(".listed-file", has=page.locator(f'.file-name[title="{path}"]'))


def hunks(page: Page, path: str) -> Locator:
    """The hunks of a file, unfolded."""
    head = file(page, path).locator(".file-head")
    if head.get_attribute("aria-expanded") == "false":
        head.click()
    return file(page, path).locator(".listed-hunk")
