"""Take the screenshots of a review for docs/workbench-review.md: real runs of a scripted model, in a real browser.

    python -m scripts.review_pictures

Writes docs/review-*.png. The project and the model's answers are in review_shop.py.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page
from scripts.pictures import as_users_have_it, save
from scripts.review_shop import AGENT, CHAT, CLI, FILES, INSTRUCTION, JUDGE, PROPOSAL

from tests.browser.bench import Workbench, launch_browser, open_agent, open_chat, open_workbench, say
from tests.browser.expecting import expect
from tests.browser.review_scenarios import file, files, hunks, sidebar
from tests.browser.scenarios import scenarios


def text_of(page: Page, name: str) -> Locator:
    return page.get_by_role("textbox", name=f"Text of {name}")


def open_columns(page: Page) -> None:
    page.get_by_role("banner").get_by_role("button", name="Files").click()
    page.get_by_role("treeitem", name="importer").click()
    sidebar(page)


def ask(page: Page) -> None:
    """Select lines, add them to the instruction, and let the agent ask a question."""
    page.get_by_role("treeitem", name="cli.py").click()
    text_of(page, CLI).get_by_text("for order in", exact=False).click()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowDown")
    sidebar(page).get_by_role("button", name="Add selection").click()
    box = sidebar(page).get_by_role("textbox", name="Instruction")
    box.fill(INSTRUCTION)
    box.press("Enter")
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_be_visible()


def propose(page: Page) -> None:
    answer = sidebar(page).get_by_role("textbox", name="Your answer")
    answer.fill("Only how many there are.")
    answer.press("Enter")
    expect(files(page)).to_have_count(3)
    expect(text_of(page, CLI)).to_contain_text("if not options.dry_run")


def decide(page: Page) -> None:
    """Accept a hunk, reject and inspect another, and type a line into the third."""
    page.get_by_role("button", name="Accept hunk 1").click()
    text = text_of(page, CLI)
    text.locator(".cm-line", has_text="orders {what}").click()
    page.keyboard.press("End")
    page.keyboard.type("  # as the mail says it")
    expect(page.locator(".line-own")).to_have_count(1)
    page.get_by_role("button", name="Reject hunk 2").click()
    page.get_by_role("button", name="of rejected hunk").click()
    expect(page.locator(".file-summary")).to_contain_text("1 rejected")


def conflict(bench: Workbench, page: Page) -> None:
    """Another program changes a hunk's line."""
    path = bench.newel.project / CLI
    path.write_text(path.read_text().replace("orders imported", "orders are in the shop"))
    page.keyboard.press("Control+s")
    expect(page.locator(".file-trouble")).to_be_visible()


def go_back(page: Page) -> None:
    page.get_by_role("button", name="Checkpoints").first.click()
    region = page.get_by_role("region", name="Checkpoints")
    region.locator(".timeline-head").first.click()
    region.get_by_role("button", name="Roll back…").click()
    expect(page.get_by_role("dialog", name="Roll back")).to_contain_text("would change")


def show(page: Page, name: str) -> None:
    """Take a screenshot of the file, scrolled to the start of its lines."""
    page.locator(".cm-scroller").evaluate("(element) => { element.scrollLeft = 0 }")
    save(page, name)


def take_review(bench: Workbench) -> None:
    page = bench.page()
    open_columns(page)
    ask(page)
    save(page, "review-question")
    propose(page)
    show(page, "review-proposal")
    narrow = bench.page(width=400)
    expect(hunks(narrow, CLI).first).to_be_visible()
    hunks(narrow, CLI).first.scroll_into_view_if_needed()
    save(narrow, "review-narrow")
    page.emulate_media(color_scheme="dark")
    decide(page)
    show(page, "review-decided")
    page.emulate_media(color_scheme="light")
    conflict(bench, page)
    show(page, "review-conflict")
    go_back(page)
    save(page, "review-rollback")


def take_landing(bench: Workbench) -> None:
    """Show a chat and an agent that run with ``--approve review``."""
    page = bench.page(scheme="dark")
    open_agent(page, "Give each public function a docstring.")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Completed")
    open_chat(page)
    say(page, "Rename --shop to --database.")
    expect(page.get_by_text("in the README as well.")).to_be_visible()
    expect(files(page)).to_have_count(3)
    expect(file(page, CLI)).to_be_visible()
    head = file(page, "README.md").locator(".file-head")
    head.click()  # folded, so the picture shows both
    head.blur()  # its buttons would cover lines
    save(page, "review-landing")


def take(browser: Browser, shot: Callable[[Workbench], None], *words: str) -> None:
    with tempfile.TemporaryDirectory(prefix="newel-") as folder:
        script = {**scenarios(JUDGE, PROPOSAL, CHAT, AGENT), "models": ["qwen3-coder"]}
        environ = as_users_have_it(Path(folder))
        with open_workbench(
            Path(folder), browser, script, "--model", "qwen3-coder", *words, environ=environ
        ) as bench:
            for name, text in FILES.items():
                path = bench.newel.project / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            shot(bench)


def main() -> int:
    with launch_browser() as browser:
        take(browser, take_review)
        take(browser, take_landing, "--approve", "review")
    return 0


if __name__ == "__main__":
    sys.exit(main())
