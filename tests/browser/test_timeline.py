"""If these fail, users cannot see what a run changed, undo it, or find what is pending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Gate, Workbench, find_flaws
from tests.browser.expecting import expect
from tests.browser.proposals import NOTES, add_file, ask, proposal_scenarios, propose, replace_line
from tests.browser.test_editor import were_refused

Make = Callable[..., Workbench]

APP = "def f():\n    return 1\n" + "".join(f"line {number}\n" for number in range(3, 60))
ORDER: list[dict[str, Any]] = [
    replace_line("notes.md", 1, "# NOTES\n"),
    replace_line("notes.md", 5, "SECOND\n"),
    replace_line("app.py", 2, "    return '<b>2</b>'\n"),
    add_file("guide/index.md", "# Guide\n"),
]
WORDS = "order the notes"
PROPOSED = NOTES.replace("# Notes", "# NOTES").replace("second", "SECOND")


def begun(
    workbench: Make, *later: tuple[str, list[dict[str, Any]]], **options: Any
) -> tuple[Workbench, Page, dict[str, Any]]:
    """A page with a proposal for three files; the model can make the ones of ``later``, too."""
    bench = workbench(proposal_scenarios((WORDS, ORDER), *later))
    (bench.newel.project / "notes.md").write_text(NOTES)
    (bench.newel.project / "app.py").write_text(APP)
    page = bench.page(**options)
    job = propose(page, WORDS)
    expect(page.get_by_role("button", name="Review 4 to decide")).to_be_visible()  # the page has all of them
    return bench, page, job


def go(page: Page, place: str) -> None:
    page.evaluate("(place) => { location.hash = `#/${place}` }", place)


def waiting(page: Page) -> Locator:
    go(page, "pending")
    return page.get_by_role("region", name="All pending changes")


def unfolded(page: Page) -> Locator:
    """The checkpoints, with the latest expanded."""
    go(page, "checkpoints")
    region = page.get_by_role("region", name="Checkpoints")
    region.locator(".timeline-head").first.click()
    return region


def saved(bench: Workbench) -> dict[str, str | None]:
    paths = {name: bench.newel.project / name for name in ("notes.md", "app.py", "guide/index.md")}
    return {name: path.read_text() if path.exists() else None for name, path in paths.items()}


BEFORE = {"notes.md": NOTES, "app.py": APP, "guide/index.md": None}


def test_each_hunk_is_decided_with_the_keyboard_and_saved(workbench: Make) -> None:
    bench, page, _ = begun(workbench)
    region = waiting(page)
    expect(region).to_contain_text("4 hunks to decide in 3 files")
    expect(region.locator("[aria-current]")).to_have_count(1)
    expect(region.locator("[aria-current]")).to_contain_text("<b>2</b>")
    page.keyboard.press("r")
    expect(region.locator("[aria-current]")).to_contain_text("# Guide")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("a")
    expect(region.locator("[aria-current]")).to_contain_text("# NOTES")
    page.keyboard.press("a")
    expect(region).to_contain_text("1 hunk to decide in 2 files")
    assert saved(bench) == BEFORE
    region.get_by_role("button", name="Save accepted").click()
    expect(region).to_contain_text("1 hunk to decide in 1 file")
    assert saved(bench) == {
        **BEFORE,
        "notes.md": NOTES.replace("Notes", "NOTES"),
        "guide/index.md": "# Guide\n",
    }
    region.get_by_role("button", name="Reject", exact=True).click()
    expect(region).to_contain_text("No pending changes.")
    were_refused(bench)  # if it was made before the window knew of the save, it was made again


def test_the_keys_wait_for_a_file_that_is_still_loading(workbench: Make) -> None:
    _, page, _ = begun(workbench, ("extend the guide", [add_file("guide/more.md", "# More\n")]))
    region = waiting(page)
    focused = region.locator("[aria-current]")
    expect(focused).to_contain_text("<b>2</b>")
    page.keyboard.press("r")
    expect(focused).to_contain_text("# Guide")
    gate = Gate(page, "**/api/agent/file?*more*")
    propose(page, "extend the guide")
    expect(region).to_contain_text("4 hunks to decide in 3 files")
    page.keyboard.press("r")
    expect(focused).to_have_text("Loading…")  # not the file behind it
    page.keyboard.press("a")  # there is nothing to decide on yet
    gate.open()
    expect(focused).to_contain_text("# More")
    page.keyboard.press("a")
    expect(focused).to_contain_text("# NOTES")
    expect(region).to_contain_text("2 hunks to decide in 2 files")


def test_a_decision_on_a_changed_hunk_is_refused_and_can_be_repeated(workbench: Make) -> None:
    bench, page, _ = begun(workbench)
    region = waiting(page)
    expect(region.get_by_role("button", name="Accept", exact=True)).to_have_count(4)
    # Another client was faster, and this page does not know yet.
    gate = Gate(page, "**/api/agent/file?*")
    file = next(each for each in ask(page, "GET", "pending")["files"] if each["file_path"] == "app.py")
    splices = [
        {"start_line": 2, "delete_lines": 1, "new_text": "    return 'other'\n"},
        {"start_line": 20, "delete_lines": 1, "new_text": "mine\n"},
    ]
    ask(page, "POST", "edit", {"file_path": "app.py", "rev": file["rev"], "splices": splices})
    with page.expect_response("**/api/agent/decide"):
        region.get_by_role("button", name="Accept", exact=True).first.click()
    gate.open()
    expect(region).to_contain_text("A hunk at line 2 was not decided: it has changed.")
    own = region.locator(".pending-hunk", has_text="mine")
    expect(own.get_by_role("button")).to_have_text(["Discard"])
    own.get_by_role("button", name="Discard").click()
    expect(own).to_have_count(0)
    region.get_by_role("button", name="Accept", exact=True).first.click()
    expect(region).to_contain_text("1 accepted")
    assert ["409" in words for words in bench.complaints] == [True]  # the browser logs the response
    bench.complaints.clear()


def test_thousands_of_hunks_can_be_browsed(workbench: Make) -> None:
    each, files = 1_000, 3
    bench = workbench(proposal_scenarios())
    page = bench.page()
    splices = [
        {"start_line": 2 * number + 1, "delete_lines": 1, "new_text": f"changed {number}\n"}
        for number in range(each)
    ]
    for number in range(files):
        name = f"long{number}.txt"
        (bench.newel.project / name).write_text("".join(f"line {number}\n" for number in range(2 * each)))
        rev = ask(page, "GET", f"file?file_path={name}")["rev"]
        ask(page, "POST", "edit", {"file_path": name, "rev": rev, "splices": splices})
    region = waiting(page)
    expect(region).to_contain_text("long0.txt")
    expect(region.locator(".pending-hunk").first).to_contain_text("changed 0")
    assert region.locator(".windowed-row").count() < 60
    for _ in range(files):  # more files load and turn out taller than estimated
        region.locator(".windowed").evaluate("(element) => { element.scrollTop = element.scrollHeight }")
        page.wait_for_timeout(200)
    expect(region.locator(".pending-hunk").last).to_contain_text(f"changed {each - 1}")
    assert region.locator(".windowed-row").count() < 60


def test_a_run_lists_its_changes_and_can_be_undone_and_redone(workbench: Make) -> None:
    bench, page, job = begun(workbench)
    hunks = [hunk["hunk_id"] for file in job["diff_bundle"]["files"] for hunk in file["hunks"]]
    body = {"session_id": job["session_id"], "job_id": job["id"], "accepted_hunk_ids": hunks}
    ask(page, "POST", "apply", body)
    after = saved(bench)
    assert after != BEFORE
    region = unfolded(page)
    expect(region.locator(".timeline-head", has_text=WORDS)).to_contain_text("Review job · 3 files")
    for text in ("# NOTES", "SECOND", "<b>2</b>", "# Guide"):
        expect(region.locator("ins", has_text=text)).to_be_visible()
    for wanted in (BEFORE, after):
        region.get_by_role("button", name="Roll back…").first.click()
        dialog = page.get_by_role("dialog", name="Roll back")
        expect(dialog).to_contain_text("3 files would change.")
        held = saved(bench)
        dialog.get_by_role("button", name="Roll back", exact=True).click()
        expect(dialog).to_contain_text("3 files rolled back, not saved yet.")
        assert saved(bench) == held
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        assert saved(bench) == wanted
        head = region.locator(".timeline-head").first
        expect(head).to_contain_text("order the notes")
        head.click()
    expect(region.locator(".timeline-head")).to_have_count(3)


def test_some_hunks_of_a_run_can_be_undone_and_newer_changes_stay(workbench: Make) -> None:
    bench, page, job = begun(workbench)
    hunks = [hunk["hunk_id"] for file in job["diff_bundle"]["files"] for hunk in file["hunks"]]
    body = {"session_id": job["session_id"], "job_id": job["id"], "accepted_hunk_ids": hunks}
    ask(page, "POST", "apply", body)
    newer = PROPOSED.replace("SECOND", "SECOND, by me")
    (bench.newel.project / "notes.md").write_text(newer)
    unfolded(page).get_by_role("button", name="Roll back…").first.click()
    dialog = page.get_by_role("dialog", name="Roll back")
    dialog.get_by_label("Selected hunks only").check()
    expect(dialog).to_contain_text("Select the hunks to roll back.")
    expect(dialog.get_by_role("button", name="Roll back", exact=True)).to_be_disabled()
    boxes = dialog.get_by_role("checkbox", name="notes.md")
    expect(boxes).to_have_count(2)
    for box in boxes.all():
        box.check()
    expect(dialog).to_contain_text("1 file would change.")
    expect(dialog).to_contain_text("1 place would not change:")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    assert saved(bench)["notes.md"] == newer.replace("# NOTES", "# Notes")


def test_hunks_can_be_chosen_before_the_run_is_loaded(workbench: Make) -> None:
    """Otherwise a quick click on a slow connection leaves the dialog without its list."""
    _, page, job = begun(workbench)
    region = unfolded(page)
    gate = Gate(page, f"**/api/agent/checkpoints/{job['checkpoint_id']}*")
    region.get_by_role("button", name="Roll back…").first.click()
    dialog = page.get_by_role("dialog", name="Roll back")
    dialog.get_by_label("Selected hunks only").check()
    gate.open()
    expect(dialog.get_by_role("checkbox", name="app.py")).to_be_visible()


def test_a_file_is_compared_before_proposed_and_now(workbench: Make) -> None:
    bench, page, _ = begun(workbench)
    region = unfolded(page)
    region.get_by_role("button", name="Compare app.py").click()
    view = page.get_by_role("region", name="Compare app.py")
    expect(view).to_contain_text("1 line added, 1 removed.")
    expect(view.locator("del")).to_have_text("    return 1")
    expect(view.locator("ins")).to_have_text("    return '<b>2</b>'")
    view.get_by_role("button", name="unchanged lines").click()
    expect(view).to_contain_text("line 59")
    (bench.newel.project / "app.py").write_text(APP.replace("line 59", "the end"))
    go(page, "checkpoints")
    region.get_by_role("button", name="Compare guide/index.md").click()
    view = page.get_by_role("region", name="Compare guide/index.md")
    expect(view).to_contain_text("The file did not exist before the run. 1 line added, 0 removed.")


@pytest.mark.timeout(90)
def test_every_screen_of_review_is_accessible_and_fits(workbench: Make) -> None:
    _, page, job = begun(workbench, **NARROW)

    def check(screen: str) -> None:
        assert (screen, find_flaws(page)) == (screen, [])

    region = waiting(page)
    expect(region.get_by_role("button", name="Accept", exact=True)).to_have_count(4)
    check("pending")
    region = unfolded(page)
    expect(region.locator("ins", has_text="# NOTES")).to_be_visible()
    check("checkpoints")
    region.get_by_role("button", name="Roll back…").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 files would change.")
    check("a rollback")
    page.get_by_label("Selected hunks only").check()
    expect(page.get_by_role("dialog").get_by_role("checkbox")).to_have_count(4)
    check("a rollback of hunks")
    page.keyboard.press("Escape")
    go(page, f"compare/{job['checkpoint_id']}/app.py")
    expect(page.get_by_role("region", name="Compare app.py")).to_contain_text("1 line added")
    check("a comparison")
