"""If these fail, typing, decisions, undo and saving in a file's tab corrupt or lose bytes on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Locator, Page, Route

from tests.browser.bench import NARROW, Workbench, find_flaws
from tests.browser.expecting import PATIENCE_S, expect
from tests.browser.proposals import NOTES, add_file, ask, proposal_scenarios, propose, replace_line

Make = Callable[..., Workbench]
TITLE = replace_line("notes.md", 1, "# NOTES\n")
SECOND = replace_line("notes.md", 5, "SECOND\n")
WORDS = "Put the notes in order"


def put(bench: Workbench, content: str = NOTES, name: str = "notes.md") -> Path:
    """A file of the project."""
    path = bench.newel.project / name
    path.write_bytes(content.encode())
    return path


def open_file(bench: Workbench, page: Page, name: str = "notes.md") -> Locator:
    """Open a file's tab; returns its editor."""
    page.goto(f"{bench.url.partition('#')[0]}#/file/{name}")
    text = page.get_by_role("textbox", name=f"Text of {name}")
    expect(text).to_be_visible()
    return text


def proposed(make: Make) -> tuple[Workbench, Page, Path, Locator]:
    """A workbench with two hunks in the open file notes.md."""
    bench = make(proposal_scenarios((WORDS, [TITLE, SECOND])))
    path = put(bench)
    page = bench.page()
    propose(page, WORDS)
    return bench, page, path, open_file(bench, page)


def summary(page: Page) -> Locator:
    return page.locator(".file-summary")


def content(page: Page, name: str = "notes.md") -> str:
    """The server's buffer of the file."""
    return ask(page, "GET", f"file?file_path={name}")["content"]


def becomes(page: Page, wanted: str) -> None:
    """Wait until the server has this buffer: the page shows a decision before the server has it."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and content(page) != wanted:
        time.sleep(0.02)
    assert content(page) == wanted


def settled(page: Page) -> None:
    """Wait until all typed text is sent."""
    expect(summary(page)).not_to_contain_text("sending")


def were_refused(bench: Workbench) -> None:
    """Refused requests of a page, which the browser itself logs."""
    bench.complaints[:] = [each for each in bench.complaints if "409 (Conflict)" not in each]


def on_disk(path: Path, wanted: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and (not path.exists() or path.read_bytes() != wanted.encode()):
        time.sleep(0.02)
    assert path.read_bytes().decode() == wanted


def test_a_user_decides_edits_undoes_and_saves_hunks(workbench: Make) -> None:
    _, page, path, text = proposed(workbench)
    expect(summary(page)).to_have_text("2 hunks to decide")
    page.get_by_role("button", name="Accept hunk 1 of 2, line 1").click()
    expect(summary(page)).to_have_text("1 hunk to decide · 1 accepted, unsaved")
    page.get_by_role("button", name="Reject hunk 2 of 2, line 5").click()
    expect(summary(page)).to_contain_text("1 rejected")
    becomes(page, NOTES.replace("# Notes", "# NOTES"))
    page.get_by_role("button", name="of rejected hunk").click()
    expect(page.locator(".hunk-rejected")).to_contain_text("SECOND")
    page.get_by_role("button", name="Restore hunk 2").click()
    expect(text).to_contain_text("SECOND")
    page.get_by_role("button", name="Reject hunk 2 of 2, line 5").click()
    text.get_by_text("third").click()
    page.keyboard.press("End")
    page.keyboard.type(", by me")
    page.keyboard.press("Control+s")
    expect(summary(page)).to_have_text("1 rejected")
    on_disk(path, "# NOTES\n\nfirst\n\nsecond\n\nthird, by me\n")


def test_undo_reverts_typing_and_decisions_in_order(workbench: Make) -> None:
    _, page, _, text = proposed(workbench)
    text.get_by_text("third").click()
    page.keyboard.press("End")
    page.keyboard.type(" one")
    settled(page)
    page.get_by_role("button", name="Accept hunk 1").click()
    expect(summary(page)).to_contain_text("1 accepted")
    text.get_by_text("third one").click()
    page.keyboard.press("End")
    page.keyboard.type(" two")
    page.keyboard.press("Control+z")
    expect(text).not_to_contain_text("two")
    expect(summary(page)).to_contain_text("1 accepted")
    page.keyboard.press("Control+z")
    expect(summary(page)).not_to_contain_text("accepted")
    expect(text).to_contain_text("third one")
    page.keyboard.press("Control+z")
    expect(text).not_to_contain_text("third one")
    for _ in range(3):
        page.keyboard.press("Control+Shift+z")
    expect(text).to_contain_text("third one two")
    expect(summary(page)).to_contain_text("1 accepted")
    assert content(page).endswith("third one two\n")


def test_text_typed_in_two_windows_at_once_appears_in_both(workbench: Make) -> None:
    bench, page, _, text = proposed(workbench)
    other = bench.page()
    windows = ((page, text), (other, open_file(bench, other)))
    words = [f"<{number}>" for number in range(12)]
    chance = Random(5)  # noqa: S311 — the same on each day

    def write(window: Page, text: Locator, line: int, word: str) -> None:
        text.focus()
        window.keyboard.press("Control+Home")
        for _ in range(line):
            window.keyboard.press("ArrowDown")
        window.keyboard.press("End")
        window.keyboard.type(word)

    late: list[str] = []

    def too_late(route: Route) -> None:
        if not late:
            late.append(words[0])
            write(*windows[1], 6, words[0])
            settled(other)
        route.continue_()

    # The late text resembles the text typed meanwhile more than that resembles the text before it.
    page.route("**/api/agent/edit", too_late)
    write(page, text, 6, words[1])
    settled(page)
    for word in words[2:]:
        window, text = chance.choice(windows)
        does = chance.randrange(8)
        if does == 0:
            settled(window)
            window.reload()
        elif does == 1:
            text.press("Alt+j")
            text.press("Alt+a")
        write(window, text, chance.randrange(7), f"{word}\n" if does == 2 else word)
    for window, _ in windows:
        settled(window)
    wanted = content(page)
    assert [wanted.count(word) for word in words] == [1] * len(words)
    for window, text in windows:
        expect(text.locator(".cm-line")).to_have_text(wanted.split("\n"))
        expect(summary(window)).to_have_text(summary(page).inner_text())
    were_refused(bench)


def test_typing_keeps_the_ending_of_each_line(workbench: Make) -> None:
    bench = workbench(proposal_scenarios())
    path = put(bench, "one\r\ntwo\nthree \u2028 😀\r\nfour\r\nlast")
    page = bench.page()
    text = open_file(bench, page)
    text.get_by_text("one").click()
    page.keyboard.press("End")
    page.keyboard.type("!\nnew")
    text.get_by_text("last").click()
    page.keyboard.press("End")
    page.keyboard.type(" 😀")
    page.keyboard.press("Control+s")
    expect(summary(page)).to_have_text("No changes")
    on_disk(path, "one!\r\nnew\r\ntwo\nthree \u2028 😀\r\nfour\r\nlast 😀")


def test_a_change_on_the_disk_is_a_conflict_with_three_resolutions(workbench: Make) -> None:
    bench, page, path, _ = proposed(workbench)
    page.get_by_role("button", name="Accept all").click()
    expect(summary(page)).to_have_text("2 accepted, unsaved")
    outside = NOTES.replace("second", "second, from outside")
    page.route(
        "**/api/agent/stamps", lambda _: None
    )  # it is the save that finds the change: a look would let the other hunk be saved
    path.write_text(outside)
    page.get_by_role("button", name="Save", exact=True).click()
    trouble = page.locator(".file-trouble")
    expect(trouble).to_contain_text("the same lines changed on disk")
    expect(trouble.get_by_role("button", name="Re-run")).to_be_visible()
    assert path.read_text() == outside
    trouble.get_by_role("button", name="Keep proposal").click()
    expect(summary(page)).to_contain_text("2 accepted, unsaved")
    assert path.read_text() == outside
    page.keyboard.press("Control+z")
    expect(summary(page)).to_contain_text("1 hunk to decide")
    trouble.get_by_role("button", name="Keep proposal").click()
    expect(trouble).to_contain_text("Save overwrites the lines that changed on disk.")
    save, dialog = page.get_by_role("button", name="Save", exact=True), page.get_by_role("dialog")
    save.click()
    expect(dialog).to_contain_text("notes.md")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(summary(page)).to_contain_text("2 accepted, unsaved")
    assert path.read_text() == outside
    save.click()
    dialog.get_by_role("button", name="Overwrite").click()
    expect(trouble).to_be_hidden()
    on_disk(path, NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND"))
    checkpoint = ask(page, "GET", "checkpoints")["checkpoints"][0]["checkpoint_id"]
    plan = ask(page, "POST", f"checkpoints/{checkpoint}/undo", {"dry_run": True})
    seen = [{"file_path": file["file_path"], "rev": file["rev"]} for file in plan["files"]]
    ask(page, "POST", f"checkpoints/{checkpoint}/undo", {"files": seen})
    on_disk(path, outside)
    were_refused(bench)


def test_the_list_of_pending_changes_asks_before_it_saves_over_a_change_on_the_disk(
    workbench: Make,
) -> None:
    bench, page, path, _ = proposed(workbench)
    outside = NOTES.replace("second", "second, from outside")
    path.write_text(outside)
    page.reload()
    page.get_by_role("button", name="Accept all hunks of this file").click()
    page.locator(".file-trouble").get_by_role("button", name="Keep proposal").click()
    page.get_by_role("button", name="Review", exact=False).first.click()
    page.get_by_role("button", name="All reviewed: Save 1 file").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("notes.md")
    dialog.get_by_role("button", name="Cancel").click()
    assert path.read_text() == outside
    page.get_by_role("button", name="All reviewed: Save 1 file").first.click()
    dialog.get_by_role("button", name="Overwrite").click()
    on_disk(path, NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND"))
    were_refused(bench)


def test_an_open_link_shows_the_file_that_it_now_points_to(workbench: Make) -> None:
    """Each file counts its revisions for itself."""
    bench, page, path, _ = proposed(workbench)
    put(bench, "the other file\n", "other.md")
    (link := path.with_name("link.md")).symlink_to("notes.md")
    text = open_file(bench, page, "link.md")
    expect(text).to_contain_text("SECOND")
    link.unlink()
    link.symlink_to("other.md")
    expect(text).to_contain_text("the other file")
    expect(text).not_to_contain_text("SECOND")
    expect(summary(page)).to_have_text("No changes")


def test_theirs_can_be_chosen_after_a_change_on_the_disk(workbench: Make) -> None:
    _, page, path, text = proposed(workbench)
    outside = NOTES.replace("second", "second, from outside")
    path.write_text(outside)
    page.reload()
    page.locator(".file-trouble").get_by_role("button", name="Keep file").click()
    expect(page.locator(".file-trouble")).to_be_hidden()
    expect(text).to_contain_text("from outside")
    expect(summary(page)).to_have_text("1 hunk to decide · 1 rejected")
    assert path.read_text() == outside


def test_rejecting_a_hunk_with_the_users_lines_asks_which_to_drop(workbench: Make) -> None:
    _, page, _, text = proposed(workbench)
    text.get_by_text("SECOND", exact=True).click()
    page.keyboard.press("End")
    page.keyboard.type(", really")
    settled(page)
    expect(page.locator(".line-own")).to_have_text("SECOND, really")
    page.keyboard.press("Control+s")
    expect(page.locator(".file-trouble")).to_contain_text(
        "Nothing was saved: your edit in line 5 is part of a hunk"
    )
    page.get_by_role("button", name="Reject hunk 2").click()
    page.get_by_role("button", name="Discard only my lines").click()
    expect(page.locator(".line-own")).to_have_count(0)
    expect(text).not_to_contain_text("really")
    expect(text).to_contain_text("SECOND")
    becomes(page, NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND"))


def test_the_editor_works_by_keyboard_and_with_a_screen_reader(workbench: Make) -> None:
    _, page, path, text = proposed(workbench)
    expect(page.get_by_role("status").filter(has_text="Hunk 1 of 2, line 1")).to_have_count(1)
    page.locator(".file-editor").focus()
    page.keyboard.press("j")
    expect(page.get_by_role("status").filter(has_text="Hunk 2 of 2, line 5")).to_have_count(1)
    page.keyboard.press("k")
    page.keyboard.press("r")
    expect(summary(page)).to_contain_text("1 rejected")
    text.focus()
    page.keyboard.press("Alt+j")
    page.keyboard.press("Alt+a")
    expect(summary(page)).to_have_text("1 accepted, unsaved · 1 rejected")
    page.keyboard.press("Control+s")
    on_disk(path, NOTES.replace("second", "SECOND"))


def test_no_key_of_the_page_decides_a_hunk_in_a_file(workbench: Make) -> None:
    _, page, _, text = proposed(workbench)
    review = page.get_by_role("complementary", name="Review", exact=True)
    expect(review).to_be_hidden()
    text.focus()
    page.keyboard.press("Alt+v")
    expect(review).to_be_visible()
    page.keyboard.press("Alt+a")  # outside of the text
    page.keyboard.press("Alt+r")
    expect(review).to_be_visible()
    expect(summary(page)).to_have_text("2 hunks to decide")
    text.focus()
    page.keyboard.press("Alt+g")
    expect(page.get_by_role("textbox", name="Contract", exact=True)).to_be_focused()
    expect(page.get_by_role("tab", name="Agent-2")).to_have_count(0)


def test_the_editor_is_accessible_and_fits(workbench: Make) -> None:
    bench = workbench(proposal_scenarios((WORDS, [TITLE, SECOND])))
    put(bench)
    page = bench.page(**NARROW)
    propose(page, WORDS)
    open_file(bench, page)
    page.get_by_role("button", name="Reject hunk 1").click()
    page.get_by_role("button", name="of rejected hunk").click()
    page.get_by_role("button", name="Accept hunk 2").click()
    expect(summary(page)).to_have_text("1 accepted, unsaved · 1 rejected")
    assert find_flaws(page) == []
    middles = page.locator(".file-about > *").evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect()).map(({ top, bottom }) => (top + bottom) / 2)"
    )
    assert middles[1] - middles[0] == pytest.approx(0, abs=1)  # the name and the counts are one line


def test_a_binary_file_is_described_as_one(workbench: Make) -> None:
    bench = workbench(proposal_scenarios())
    (bench.newel.project / "data.bin").write_bytes(b"\0\1\2")
    with (bench.newel.project / "large.txt").open("wb") as file:
        file.truncate(50 << 20)
    (bench.newel.project / "folder").mkdir()
    page = bench.page()
    said = {
        "data.bin": "binary or not UTF-8",
        "large.txt": "larger than 2 MiB",
        "folder": "folder is a folder",
    }
    for name, words in said.items():
        page.goto(f"{bench.url.partition('#')[0]}#/file/{name}")
        expect(page.get_by_role("region", name=name)).to_contain_text(words)


def test_deleting_an_open_file_loses_no_typed_text(workbench: Make) -> None:
    bench = workbench(proposal_scenarios())
    untouched, path = put(bench, name="other.md"), put(bench)
    page = bench.page()
    open_file(bench, page, "other.md")
    text = open_file(bench, page)
    text.get_by_text("third").click()
    page.keyboard.press("End")
    page.keyboard.type(", sent")
    settled(page)
    path.unlink()
    untouched.rename(untouched.with_name("another.md"))
    page.keyboard.type(" and not sent")
    page.evaluate(
        "dispatchEvent(new Event('focus'))"
    )  # as if the user returned from where the file was deleted
    trouble = page.locator(".file-trouble:visible")
    expect(trouble).to_contain_text("The file no longer exists on disk.")
    with page.expect_event("dialog", lambda dialog: dialog.type == "beforeunload") as asked:
        page.close(run_before_unload=True)
    asked.value.dismiss()
    page.get_by_role("tab", name="other.md").click()
    expect(summary(page).filter(visible=True)).to_have_text("No such file")
    page.reload()
    tab = page.get_by_role("tab", name="notes.md")
    expect(tab).to_contain_text("not saved")
    tab.click()
    trouble.get_by_role("button", name="Keep my lines").click()
    expect(summary(page).filter(visible=True)).to_contain_text("1 accepted, unsaved")
    assert not path.exists()
    page.keyboard.press("Control+s")
    page.get_by_role("dialog").get_by_role("button", name="Overwrite").click()
    on_disk(path, NOTES.replace("third", "third, sent and not sent"))
    were_refused(bench)


def test_a_proposal_that_arrives_during_typing_loses_no_key(workbench: Make) -> None:
    bench = workbench(proposal_scenarios((WORDS, [TITLE, SECOND])))
    put(bench)
    page = bench.page()
    text = open_file(bench, page)
    text.get_by_text("third").click()
    page.keyboard.press("End")
    session = ask(page, "POST", "sessions", {})["session_id"]
    ask(page, "POST", "run", {"session_id": session, "instruction": WORDS})
    typed = ""
    for number in range(400):
        if page.locator(".line-added").count() == 2:
            break
        typed += f" {number}"
        page.keyboard.type(f" {number}")
    typed += " end"
    page.keyboard.type(" end")
    settled(page)
    expect(summary(page)).to_have_text("2 hunks to decide · 1 of yours, unsaved")
    assert content(page) == NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND").replace(
        "third", f"third{typed}"
    )
    were_refused(bench)


def test_an_edit_whose_response_was_lost_is_not_applied_twice(workbench: Make) -> None:
    bench, page, _, text = proposed(workbench)
    lost: list[str] = []

    def lose(route: Route) -> None:
        if lost:
            route.continue_()
            return
        lost.append(route.request.url)
        assert route.fetch().ok
        route.abort()

    page.route("**/api/agent/edit", lose)
    text.get_by_text("third").click()
    page.keyboard.press("End")
    page.keyboard.type(" once")
    expect(page.locator(".file-trouble")).to_contain_text("Not connected")
    page.keyboard.type(" more")
    expect(page.locator(".file-trouble")).to_be_hidden()
    settled(page)
    expect(text).to_contain_text("third once more")
    assert content(page).endswith("third once more\n")
    assert lost
    were_refused(bench)


def test_created_and_deleted_files_are_decided_in_their_tabs(workbench: Make) -> None:
    remove = {"file_path": "notes.md", "operation": "delete", "start_line": 1, "end_line": 7}
    bench = workbench(proposal_scenarios((WORDS, [add_file("guide/new.md", "# New\n"), remove])))
    path = put(bench)
    page = bench.page()
    propose(page, WORDS)
    open_file(bench, page, "guide/new.md")
    page.get_by_role("button", name="Accept hunk 1 of 1").click()
    page.get_by_role("button", name="Save", exact=True).click()
    on_disk(bench.newel.project / "guide" / "new.md", "# New\n")
    open_file(bench, page)
    fold = page.get_by_role("button", name="… 4 more lines removed by hunk 1 of 1")
    fold.click()
    expect(page.locator(".hunk-text:visible")).to_contain_text("third")
    with page.expect_response("**/api/agent/decide"):  # the page shows a decision before the server has it
        page.get_by_role("button", name="Reject all").click()
    expect(summary(page).filter(visible=True)).to_have_text("1 rejected")
    assert path.read_text() == NOTES
    path.unlink()
    page.reload()
    expect(summary(page)).to_contain_text("No such file")


def test_a_line_of_a_megabyte_is_shown_and_can_be_edited(workbench: Make) -> None:
    bench = workbench(proposal_scenarios())
    line = "<script>alert(1)</script>" + "0123456789" * 100_000
    path = put(bench, f"first\n{line}\nlast\n", "long.html")
    page = bench.page()
    text = open_file(bench, page, "long.html")
    text.get_by_text("last").click()
    page.keyboard.press("End")
    page.keyboard.type(" word")
    text.get_by_text("<script>").click(position={"x": 30, "y": 10})
    page.keyboard.press("Home")
    page.keyboard.type("!")
    page.keyboard.press("Control+s")
    expect(summary(page)).to_have_text("No changes", timeout=30_000)
    on_disk(path, f"first\n!{line}\nlast word\n")
