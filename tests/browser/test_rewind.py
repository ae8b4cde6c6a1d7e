"""If these fail, a user cannot take back what a run did, or a conversation's way, from where they read it; or it is lost with a reload."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import (
    NARROW,
    Workbench,
    answers,
    expect_end_of_run,
    find_flaws,
    message_box,
    open_chat,
    say,
)
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, call, scenarios
from tests.support import bash

Make = Callable[..., Workbench]

EDIT = call("edit", file_path="cli.py", old_string="run(source)", new_string="run(source, dry_run=True)")
TALK = scenarios(
    answering("add a flag", EDIT, bash("echo new > made.txt"), {"content": "The flag is there."}),
    answering("and a test", bash("echo test > test_cli.py"), {"content": "Tested."}),
    answering("in another way", {"content": "Differently."}),
)
BEFORE = "run(source)\n"
AFTER = "run(source, dry_run=True)\n"


def changes(page: Page) -> Locator:
    return page.get_by_role("group", name="Changes of this run")


def messages(page: Page) -> Locator:
    return page.get_by_role("article", name="You")


def go_back(page: Page, number: int) -> Locator:
    """Open the dialog at a message."""
    messages(page).nth(number).hover()
    messages(page).nth(number).get_by_role("button", name="Go back to before this message").click()
    return page.get_by_role("dialog", name="Go back to before this message")


@pytest.fixture
def talked(workbench: Make) -> tuple[Workbench, Page, Path]:
    """A chat in the default mode, whose two runs have changed files."""
    bench = workbench(TALK)
    path = bench.newel.project / "cli.py"
    path.write_text(BEFORE)
    page = bench.page(**NARROW)
    open_chat(page)
    for number, (text, answer) in enumerate((("add a flag", "is there."), ("and a test", "Tested.")), 1):
        say(page, text)
        expect(answers(page).last).to_contain_text(answer)
        expect_end_of_run(page)
        expect(changes(page)).to_have_count(number)
    return bench, page, path


def test_a_run_is_undone_and_redone_below_it_in_the_default_mode(
    talked: tuple[Workbench, Page, Path],
) -> None:
    bench, page, path = talked
    window = bench.page()
    first = changes(page).nth(0)
    expect(first).to_contain_text("2 files")
    expect(first.locator(".changes-head")).to_contain_text("+2 \u22121")
    first.get_by_role("button", name="Review").click()
    shown = page.get_by_role("dialog", name="Changes of this run")
    expect(shown).to_contain_text("dry_run=True")
    assert find_flaws(page) == []
    shown.get_by_role("button", name="Undo…").click()
    dialog = page.get_by_role("dialog", name="Undo this run")
    expect(dialog).to_contain_text("2 files would change.")
    assert find_flaws(page) == []
    assert path.read_text() == AFTER
    dialog.get_by_role("button", name="Undo", exact=True).click()
    for each in (page, window):
        expect(changes(each).nth(0)).to_contain_text("undone")
    expect(dialog).to_be_hidden()  # all is written
    assert path.read_text() == BEFORE
    assert not (path.parent / "made.txt").exists()
    assert (path.parent / "test_cli.py").exists()
    page.reload()
    first.get_by_role("button", name="Redo").click()
    page.get_by_role("dialog", name="Redo this run").get_by_role("button", name="Redo", exact=True).click()
    expect(first).to_contain_text("+2 \u22121")
    assert path.read_text() == AFTER


def test_large_numbers_of_a_run_are_readable(workbench: Make) -> None:
    bench = workbench(scenarios(answering("go", bash("seq 1234 > lines.txt"), {"content": "Done."})))
    page = bench.page()
    open_chat(page)
    say(page, "go")
    expect(changes(page).locator(".changes-head")).to_contain_text("+1,234")
    expect(changes(page).locator(".line-counts").last).to_have_text("+1,234")


def test_the_files_of_a_run_are_in_natural_order(workbench: Make) -> None:
    make = "for n in 10 2 1; do echo > f$n; done"
    bench = workbench(scenarios(answering("go", bash(make), {"content": "Done."})), "--approve", "review")
    page = bench.page()
    open_chat(page)
    say(page, "go")
    expect(changes(page).locator("li .mono")).to_have_text(["f1", "f2", "f10"])
    page.evaluate("location.hash = '#/pending'")
    expect(page.locator(".pending-path")).to_have_text(["f1", "f2", "f10"])


@pytest.mark.parametrize("mode", ["auto", "review"])
def test_a_moved_file_is_one_row_of_its_run(workbench: Make, mode: str) -> None:
    move = answering("go", bash("mv plan.md schedule.md"), {"content": "Done."})
    bench = workbench(scenarios(move), "--approve", mode)
    (bench.newel.project / "plan.md").write_text("measure\ncut\n")
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "go")
    row = changes(page).get_by_role("listitem")
    expect(row).to_contain_text("plan.md → schedule.md moved")
    assert find_flaws(page) == []
    if mode == "review":
        expect(row).to_contain_text("1 to decide")
        return
    changes(page).get_by_role("button", name="Review").click()
    shown = page.get_by_role("dialog", name="Changes of this run")
    expect(shown.locator(".rollback-body")).to_have_text("plan.md → schedule.md moved, unchanged")
    assert find_flaws(page) == []
    shown.get_by_role("button", name="Close").last.click()
    changes(page).get_by_role("button", name="Undo").click()
    page.get_by_role("dialog", name="Undo this run").get_by_role("button", name="Undo", exact=True).click()
    expect(row).to_have_text("plan.md → schedule.md ")


def test_a_long_undo_shows_its_progress_and_is_stopped_and_completed(workbench: Make) -> None:
    make = answering("go", bash("for n in $(seq 400); do echo $n > $n.txt; done"), {"content": "Done."})
    bench = workbench(scenarios(make))
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "go")

    def left() -> int:
        return len(list(bench.newel.project.glob("*.txt")))

    changes(page).get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this run")
    expect(dialog).to_contain_text("400 files would change.")
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text(re.compile(r"Undoing [1-9]\d* of 400 files …"))
    stop = dialog.get_by_role("button", name="Stop")
    expect(stop).to_be_focused()
    stop.click()
    expect(dialog.get_by_role("status")).to_contain_text("Undo again to complete it.")
    assert 0 < left() < 400
    expect(dialog.get_by_role("status")).to_contain_text(f"Stopped after {400 - left()} of 400 files.")
    expect(dialog.get_by_role("status")).to_contain_text(f"{left()} files would change.")
    expect(stop).to_be_hidden()
    assert find_flaws(page) == []
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog).to_have_count(0, timeout=30_000)
    assert left() == 0
    expect(changes(page).locator(".changes-head")).to_contain_text("400 files undone")
    bench.complaints[:] = [each for each in bench.complaints if "409" not in each]  # the browser logs it


def test_an_undo_of_what_is_not_saved_yet_says_that_only_the_review_changes(workbench: Make) -> None:
    bench = workbench(TALK, "--approve", "review")
    path = bench.newel.project / "cli.py"
    path.write_text(BEFORE)
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "add a flag")
    expect(answers(page).last).to_contain_text("is there.")
    expect_end_of_run(page)
    changes(page).get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this run")
    expect(dialog).to_contain_text("Your files stay as they are: what this run changed is still in review.")
    expect(dialog).to_contain_text("2 files would change in the review.")
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(changes(page)).to_contain_text("undone")
    assert path.read_text() == BEFORE
    assert not path.with_name("made.txt").exists()


def test_a_partial_undo_says_what_was_not_undone_and_why(talked: tuple[Workbench, Page, Path]) -> None:
    _, page, path = talked
    changed = AFTER.replace("dry_run=True", "dry_run=None")
    path.write_text(changed)
    first = changes(page).nth(0)
    first.get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this run")
    expect(dialog).to_contain_text("1 file would change.")
    expect(dialog).not_to_contain_text("h_")
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog).to_contain_text("1 file undone: made.txt.")
    expect(dialog).to_contain_text("cli.py")
    expect(dialog).to_contain_text("its lines were changed since")
    expect(dialog).not_to_contain_text("h_")
    dialog.get_by_role("button", name="Close").last.click()
    expect(first).to_contain_text("1 undone, 1 not")
    expect(first.get_by_role("listitem").filter(has_text="cli.py")).to_contain_text(
        "not undone: changed since"
    )
    assert path.read_text() == changed


def test_a_file_that_changed_since_the_preview_is_shown_again(talked: tuple[Workbench, Page, Path]) -> None:
    bench, page, path = talked
    changes(page).nth(0).get_by_role("button", name="Undo").click()
    dialog = page.get_by_role("dialog", name="Undo this run")
    expect(dialog).to_contain_text("2 files would change.")
    path.write_text(f"# mine\n{AFTER}")
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog).to_contain_text("The files have changed since the preview.")
    assert path.read_text() == f"# mine\n{AFTER}"
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog).to_have_count(0)
    assert path.read_text() == f"# mine\n{BEFORE}"
    bench.complaints[:] = [each for each in bench.complaints if "409" not in each]  # the browser logs it


def test_a_chat_goes_back_with_its_files_and_brings_all_of_it_back(
    talked: tuple[Workbench, Page, Path],
) -> None:
    bench, page, path = talked
    window = bench.page()
    dialog = go_back(page, 0)
    expect(dialog).to_contain_text("3 files would change.")
    assert find_flaws(page) == []
    dialog.get_by_role("button", name="Go back", exact=True).click()
    expect(message_box(page)).to_have_value("add a flag")
    for each in (page, window):
        expect(messages(each)).to_have_count(0)
        expect(each.get_by_role("group", name="Later messages")).to_be_visible()
    assert path.read_text() == BEFORE
    assert not (path.parent / "test_cli.py").exists()
    assert find_flaws(page) == []
    bench.kill()
    bench.start()
    page.reload()
    page.get_by_role("group", name="Later messages").get_by_role("button", name="Bring back").click()
    for each in (page, window):
        expect(messages(each)).to_have_count(2)
        expect(each.get_by_role("group", name="Later messages")).to_have_count(0)
    changes(page).nth(0).get_by_role("button", name="Redo").click()
    page.get_by_role("dialog", name="Redo this run").get_by_role("button", name="Redo", exact=True).click()
    expect(changes(page).nth(0)).to_contain_text("+2 \u22121")
    assert path.read_text() == AFTER


def test_a_window_that_was_away_shows_where_the_chat_went(talked: tuple[Workbench, Page, Path]) -> None:
    bench, page, path = talked
    context = bench.context()
    window = bench.page(context)
    expect(messages(window)).to_have_count(2)
    context.set_offline(True)
    dialog = go_back(page, 1)
    dialog.get_by_role("radio", name="The conversation only").check()
    dialog.get_by_role("button", name="Go back", exact=True).click()
    expect(messages(page)).to_have_count(1)
    assert (path.parent / "test_cli.py").exists()
    bench.kill()
    bench.start()
    context.set_offline(False)
    # An attempt to connect that began while the server started may last ten seconds.
    expect(messages(window)).to_have_count(1, timeout=30_000)


def test_the_versions_of_an_edited_message_are_reached_by_their_arrows(
    talked: tuple[Workbench, Page, Path],
) -> None:
    bench, page, _ = talked
    window = bench.page()
    messages(page).nth(1).hover()
    messages(page).nth(1).get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit your message").fill("in another way")
    page.get_by_role("textbox", name="Edit your message").press("Enter")
    expect(answers(page).last).to_contain_text("Differently.")
    for each in (page, window):
        expect(messages(each).nth(1)).to_contain_text("2/2")
    assert find_flaws(page) == []
    messages(page).nth(1).get_by_role("button", name="Earlier version").click()
    for each in (page, window):
        expect(messages(each).nth(1)).to_contain_text("1/2")
        expect(answers(each).last).to_contain_text("Tested.")
    page.reload()
    messages(page).nth(1).get_by_role("button", name="Later version").click()
    expect(answers(page).last).to_contain_text("Differently.")


def test_an_edit_after_an_undone_run_keeps_the_arrows_to_the_earlier_version(
    talked: tuple[Workbench, Page, Path],
) -> None:
    """The model hears of the undone run first, which gives the edited message another parent than its earlier version."""
    _, page, _ = talked
    changes(page).nth(0).get_by_role("button", name="Undo").click()
    page.get_by_role("dialog", name="Undo this run").get_by_role("button", name="Undo", exact=True).click()
    expect(changes(page).nth(0)).to_contain_text("undone")
    messages(page).nth(1).hover()
    messages(page).nth(1).get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit your message").fill("in another way")
    page.get_by_role("textbox", name="Edit your message").press("Enter")
    expect(answers(page).last).to_contain_text("Differently.")
    expect(page.get_by_role("article").filter(has_text="Newel")).to_have_count(1)
    expect(messages(page).nth(1)).to_contain_text("2/2")
    expect_end_of_run(page)
    messages(page).nth(1).get_by_role("button", name="Earlier version").click()
    expect(answers(page).last).to_contain_text("Tested.")
    expect(messages(page).nth(1)).to_contain_text("1/2")


def test_the_focus_is_in_the_message_box_after_going_back(talked: tuple[Workbench, Page, Path]) -> None:
    _, page, path = talked
    path.write_text(AFTER.replace("dry_run=True", "dry_run=None"))
    dialog = go_back(page, 0)
    dialog.get_by_role("button", name="Go back", exact=True).click()
    expect(dialog).to_contain_text("cli.py")
    expect(messages(page)).to_have_count(0)
    dialog.get_by_role("button", name="Close").last.click()
    expect(dialog).to_have_count(0)
    expect(message_box(page)).to_be_focused()
    page.keyboard.type(" again")
    expect(message_box(page)).to_have_value("add a flag again")
