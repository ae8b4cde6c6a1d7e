"""If these fail, users cannot browse the project's files beside the page, or see which have pending
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, axe_violations, find_flaws
from tests.browser.expecting import expect
from tests.browser.proposals import add_file, ask, proposal_scenarios, propose, replace_line
from tests.browser.review_scenarios import file, hunks

Make = Callable[..., Workbench]

EDITS: list[dict[str, Any]] = [
    replace_line("src/deep/app.py", 1, "ONE\n"),
    replace_line("src/deep/app.py", 5, "FIVE\n"),
    add_file("guide/index.md", "# Guide\n"),
]
WORDS = "put it in order"


def begun(workbench: Make, **options: Any) -> tuple[Workbench, Page]:
    """A page with the open tree."""
    bench = workbench(proposal_scenarios((WORDS, EDITS)))
    project = bench.newel.project
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / "deep" / "app.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    (project / "src" / "main.py").write_text("main\n")
    (project / "a10.txt").write_text("ten\n")
    (project / "a9 <b>.txt").write_text("nine\n")
    page = bench.page(**options)
    page.get_by_role("button", name="Files", exact=True).click()
    expect(item(page, "a10.txt")).to_be_visible()
    return bench, page


def tree(page: Page) -> Locator:
    return page.get_by_role("tree", name="Project files")


def item(page: Page, name: str) -> Locator:
    return tree(page).locator(".tree-row", has=page.get_by_text(name, exact=True))


def names(page: Page) -> list[str]:
    return tree(page).locator(".tree-name").all_inner_texts()


def test_the_tree_is_navigable_with_the_keyboard(workbench: Make) -> None:
    _, page = begun(workbench)
    keys = page.keyboard
    expect(item(page, "src")).to_be_focused()
    assert names(page) == ["src", "a9 <b>.txt", "a10.txt"]
    keys.press("ArrowRight")
    expect(item(page, "deep")).to_be_visible()
    keys.press("ArrowRight")
    expect(item(page, "deep")).to_be_focused()
    keys.press("Enter")
    expect(item(page, "app.py")).to_be_visible()
    assert names(page) == ["src", "deep", "app.py", "main.py", "a9 <b>.txt", "a10.txt"]
    assert item(page, "app.py").get_attribute("aria-level") == "3"
    keys.press("End")
    expect(item(page, "a10.txt")).to_be_focused()
    keys.type("ma")
    expect(item(page, "main.py")).to_be_focused()
    keys.press("ArrowLeft")
    expect(item(page, "src")).to_be_focused()
    page.wait_for_timeout(800)  # a pause, after which typed letters start a new search
    keys.type("m")
    keys.press("Enter")
    expect(page.get_by_role("tab", name="main.py")).to_be_visible()


def test_pending_files_are_marked_including_proposed_ones(workbench: Make) -> None:
    bench, page = begun(workbench)
    propose(page, WORDS)
    expect(item(page, "src")).to_contain_text("1 file below to review")
    item(page, "guide").click()
    expect(item(page, "index.md")).to_contain_text("1±")
    expect(item(page, "index.md").locator(".tree-new")).to_have_text("new")
    item(page, "src").click()
    item(page, "deep").click()
    expect(item(page, "app.py")).to_contain_text("2 hunks to review")
    pending = next(
        each for each in ask(page, "GET", "pending")["files"] if each["file_path"] == "guide/index.md"
    )
    body = {
        "file_path": "guide/index.md",
        "rev": pending["rev"],
        "action": "accept",
        "hunk_id": pending["hunk_ids"][0],
    }
    ask(page, "POST", "decide", body)
    expect(item(page, "index.md")).to_contain_text("1 hunk to save")
    ask(page, "POST", "save", {"files": [{"file_path": "guide/index.md"}]})
    expect(item(page, "index.md").locator(".tree-new")).to_have_count(0)
    assert (bench.newel.project / "guide" / "index.md").read_text() == "# Guide\n"


def test_expanded_folders_survive_a_reload_and_new_files_appear_without_losing_focus(workbench: Make) -> None:
    bench, page = begun(workbench)
    item(page, "src").click()
    expect(item(page, "main.py")).to_be_visible()
    page.reload()
    expect(item(page, "main.py")).to_be_visible()
    (bench.newel.project / "src" / "new.py").write_text("new\n")
    (bench.newel.project / "src" / "main.py").unlink()
    page.wait_for_timeout(1_000)  # it does not poll more often
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(item(page, "new.py")).to_be_visible()
    expect(item(page, "main.py")).to_have_count(0)


def test_changes_on_the_disk_appear_while_the_page_is_visible_and_cost_nothing_while_it_is_hidden(
    workbench: Make,
) -> None:
    bench, page = begun(workbench)
    project = bench.newel.project
    propose(page, WORDS)
    item(page, "src").click()
    expect(hunks(page, "src/deep/app.py").first).to_be_visible()
    (project / "src" / "new.py").write_text("new\n")
    expect(item(page, "new.py")).to_be_visible()
    (project / "src" / "deep" / "app.py").write_text("mine\n")
    expect(file(page, "src/deep/app.py")).to_contain_text("conflict")
    asked: list[str] = []
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    page.wait_for_timeout(1_000)  # the last answer
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    (project / "src" / "later.py").write_text("later\n")
    page.wait_for_timeout(4_000)
    assert not {"stamps", "tree"} & {url.partition("?")[0] for url in asked}
    page.evaluate("delete document.hidden")
    expect(item(page, "later.py")).to_be_visible()


def test_a_folder_of_thousands_of_files_renders_few_rows(workbench: Make) -> None:
    bench, page = begun(workbench)
    many = bench.newel.project / "src" / "many"
    many.mkdir()
    for number in range(3_000):
        (many / f"file{number:04}").touch()
    item(page, "src").click()
    item(page, "many").click()
    expect(item(page, "file0000")).to_be_visible()
    assert tree(page).locator(".tree-row").count() < 120
    page.keyboard.press("End")
    expect(item(page, "a10.txt")).to_be_focused()
    expect(tree(page)).to_contain_text("More files exist. Find a file by name.")


def test_a_file_is_found_by_a_part_of_its_name(workbench: Make) -> None:
    _, page = begun(workbench)
    page.keyboard.press("Alt+p")
    dialog = page.get_by_role("dialog", name="Find a file")
    page.keyboard.type("nothing like it")
    expect(dialog).to_contain_text("No matching files.")
    page.keyboard.press("Control+a")
    page.keyboard.type("app")
    expect(dialog.get_by_role("option")).to_have_text("app.pysrc/deep/")
    assert axe_violations(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="app.py")).to_be_visible()


@pytest.mark.core
def test_the_tree_is_accessible_and_fits(workbench: Make) -> None:
    _, page = begun(workbench, **NARROW)
    propose(page, WORDS)
    item(page, "src").click()
    item(page, "deep").click()
    expect(item(page, "app.py")).to_contain_text("2±")
    assert find_flaws(page) == []
