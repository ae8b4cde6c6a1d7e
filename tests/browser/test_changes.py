"""If these fail, a double click undoes itself, or the page shows a change of a file late or mislabelled."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, find_flaws, open_chat, say
from tests.browser.expecting import expect
from tests.browser.proposals import NOTES, ask, proposal_scenarios, propose, replace_line
from tests.browser.review_scenarios import file, hunks, sidebar
from tests.browser.scenarios import answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]
SHELL = (
    "git mv -q 2>/dev/null; mv plan.md schedule.md; rm old.md; printf 'new\\n' > new.md; chmod 755 run.sh; "
    "printf '\\000\\377' > made.bin; : > empty.md"
)


def rows(page: Page, words: str) -> object:
    return (
        page.get_by_role("region", name="All pending changes").get_by_role("listitem").filter(has_text=words)
    )


def test_a_double_click_on_accept_accepts_in_every_view(workbench: Make) -> None:
    edits = [replace_line("notes.md", line, f"CHANGED {line}\n") for line in (1, 3, 5, 7)]
    bench = workbench(proposal_scenarios(("edit", edits)))
    (bench.newel.project / "notes.md").write_text(NOTES)
    page = bench.page()
    propose(page, "edit")

    def states() -> list[str]:
        return [hunk["state"] for hunk in ask(page, "GET", "file?file_path=notes.md")["hunks"]]

    page.evaluate("location.hash = '#/file/notes.md'")
    page.locator(".inline-hunk").nth(0).get_by_role("button", name="Accept").dblclick()
    expect(page.locator(".inline-hunk").nth(0)).to_contain_text("accepted, unsaved")
    hunks(page, "notes.md").nth(1).get_by_role("button", name="Accept", exact=True).dblclick()
    expect(hunks(page, "notes.md").nth(1)).to_contain_text("accepted")
    page.evaluate("location.hash = '#/pending'")
    third = page.get_by_role("listitem", name="Hunk 3 of 4")
    with page.expect_response("**/api/agent/decide"):  # shown before the server has it
        third.get_by_role("button", name="Accept").dblclick()
    expect(third).to_contain_text("Accepted, unsaved")
    page.wait_for_timeout(600)
    assert states() == ["accepted", "accepted", "accepted", "pending"]
    third.get_by_role("button", name="Undo accept").click()
    expect(third).not_to_contain_text("Accepted, unsaved")


def test_accepting_a_hunk_moves_no_button_under_the_pointer(workbench: Make) -> None:
    """Otherwise a click on the next hunk is lost, or hits another button."""
    edits = [replace_line("notes.md", line, f"CHANGED {line}\n") for line in (1, 3, 5, 7)]
    bench = workbench(proposal_scenarios(("edit", edits)))
    (bench.newel.project / "notes.md").write_text(NOTES)
    page = bench.page()
    propose(page, "edit")
    second = hunks(page, "notes.md").nth(1).get_by_role("button", name="Accept", exact=True)
    before = second.bounding_box()
    hunks(page, "notes.md").nth(0).get_by_role("button", name="Accept", exact=True).click()
    expect(hunks(page, "notes.md").nth(0)).to_contain_text("accepted")
    expect(page.get_by_role("button", name="Save accepted changes in 1 file")).to_be_enabled()
    assert second.bounding_box() == before


def resting_place(button: Locator) -> tuple[float, float]:
    """Where a button ends once the column above it, which still loads, has stopped to move."""
    places: list[tuple[float, float]] = []
    while len(places) < 5 or len(set(places[-5:])) > 1:
        box = button.bounding_box()
        assert box is not None
        places.append((box["x"] + box["width"], box["y"]))
        button.page.wait_for_timeout(100)
    return places[-1]


def test_a_second_click_after_accept_undoes_it_and_does_not_reject(workbench: Make) -> None:
    """Otherwise a user who clicks again, because nothing seemed to happen, throws the change away."""
    bench = workbench(proposal_scenarios(("edit", [replace_line("notes.md", 1, "CHANGED\n")])))
    (bench.newel.project / "notes.md").write_text(NOTES)
    page = bench.page()
    propose(page, "edit")
    hunk = hunks(page, "notes.md").nth(0)
    accept = resting_place(hunk.get_by_role("button", name="Accept", exact=True))
    hunk.get_by_role("button", name="Accept", exact=True).click()
    expect(hunk).to_contain_text("accepted")
    assert resting_place(hunk.get_by_role("button", name="Undo accept")) == accept


def test_an_open_file_shows_changes_on_the_disk(workbench: Make) -> None:
    bench = workbench(scenarios())
    path = bench.newel.project / "notes.md"
    path.write_text("before\n")
    page = bench.page()
    page.evaluate("location.hash = '#/file/notes.md'")
    expect(page.locator(".cm-content")).to_contain_text("before")
    path.write_text("after\n")
    expect(page.locator(".cm-content")).to_contain_text("after")
    path.unlink()
    expect(page.locator(".file-summary")).to_contain_text("No such file")


def test_a_file_with_a_proposal_opens_at_its_first_hunk(workbench: Make) -> None:
    bench = workbench(proposal_scenarios(("edit", [replace_line("long.md", 400, "CHANGED\n")])))
    (bench.newel.project / "long.md").write_text("".join(f"line {n}\n" for n in range(1, 501)))
    page = bench.page()
    propose(page, "edit")
    page.evaluate("location.hash = '#/file/long.md'")
    expect(page.locator(".inline-hunk")).to_be_in_viewport()
    page.locator(".file-about").click()
    page.keyboard.press("a")
    expect(page.locator(".inline-hunk")).to_contain_text("accepted")


def test_created_deleted_moved_and_binary_files_and_modes_are_labelled(workbench: Make) -> None:
    bench = workbench(scenarios(answering("go", bash(SHELL), {"content": "Done."})), "--approve", "review")
    project = bench.newel.project
    (project / "plan.md").write_text("measure\ncut\n")
    (project / "old.md").write_text("old\n")
    (project / "run.sh").write_text("echo\n")
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "go")
    expect(page.get_by_text("Done.")).to_be_visible()
    page.evaluate("location.hash = '#/pending'")
    region = page.get_by_role("region", name="All pending changes")
    for words in (
        "new file",
        "deleted file",
        "new binary file",
        "permissions 644 → 755",
        "New binary file.",
        "New empty file.",
    ):
        expect(region.get_by_text(words).first).to_be_attached()
    move = page.get_by_role("listitem", name="plan.md moved to schedule.md, unchanged")
    expect(move).to_contain_text("plan.md → schedule.md")
    expect(region.get_by_role("listitem").filter(has_text="plan.md")).to_have_count(1)
    assert find_flaws(page) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(file(page, "plan.md → schedule.md")).to_contain_text("moved, unchanged")
    sidebar(page).get_by_role("button", name="Close review").click()
    move.focus()
    page.keyboard.press("a")
    expect(move).to_contain_text("Accepted, unsaved")
    assert (project / "plan.md").exists()
    region.get_by_role("button", name="Save accepted").click()
    expect(move).to_have_count(0)
    assert (project / "schedule.md").read_text() == "measure\ncut\n"
    assert not (project / "plan.md").exists()
    assert (project / "old.md").exists()
    page.evaluate("location.hash = '#/file/empty.md'")
    expect(page.locator(".inline-hunk .hunk-state")).to_have_text("New empty file.")


def test_a_rejected_file_of_an_undone_run_does_not_count_as_one_that_could_not_be_undone(
    workbench: Make,
) -> None:
    change = "mv plan.md schedule.md; for name in 1 2 3 4 5 6; do echo $name > $name.txt; done"
    bench = workbench(scenarios(answering("go", bash(change), {"content": "Done."})), "--approve", "review")
    (bench.newel.project / "plan.md").write_text("measure\ncut\n")
    page = bench.page()
    open_chat(page)
    say(page, "go")
    card = page.get_by_role("group", name="Changes of this run")
    expect(card.locator(".changes-head")).to_contain_text("in 8 files")
    expect(card.get_by_role("listitem").last).to_have_text("and 2 more files")
    sidebar(page)
    file(page, "1.txt").hover()
    file(page, "1.txt").get_by_role("button", name="Reject file").click()
    sidebar(page).get_by_role("button", name="Accept all").click()
    page.get_by_role("button", name="All reviewed: Save 7 files").click()
    expect(card).to_contain_text("7 kept · 1 rejected")
    card.get_by_role("button", name="Undo").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo", exact=True).click()
    expect(card.get_by_role("button", name="Redo")).to_be_visible()
    expect(card.locator(".changes-head")).to_contain_text("8 files undone")
    expect(card).not_to_contain_text("not undone")


def test_a_press_on_review_counts_while_the_card_is_updated(workbench: Make) -> None:
    change = "for name in 1 2 3; do echo $name > $name.txt; done"
    bench = workbench(scenarios(answering("go", bash(change), {"content": "Done."})), "--approve", "review")
    page, other = bench.page(), bench.page()
    open_chat(page)
    say(page, "go")
    card = page.get_by_role("group", name="Changes of this run")
    expect(card).to_contain_text("3 hunks to review")
    sidebar(page).get_by_role("button", name="Close review").click()
    card.get_by_role("button", name="Review").hover()
    page.mouse.down()
    file(other, "1.txt").hover()
    file(other, "1.txt").get_by_role("button", name="Reject file").click()
    expect(card).to_contain_text("2 hunks to review")
    page.mouse.up()
    expect(page.get_by_role("group", name="Review of 2.txt")).to_be_visible()


def test_links_are_labelled_with_their_targets(workbench: Make) -> None:
    """Otherwise a user accepts a link out of the project as a new text file."""
    link = "ln -s /etc/hostname link; ln -sf link turned"
    bench = workbench(scenarios(answering("go", bash(link), {"content": "Done."})), "--approve", "review")
    (bench.newel.project / "turned").write_text("a file\n")
    page = bench.page()
    open_chat(page)
    say(page, "go")
    expect(file(page, "turned")).to_contain_text("file became a symbolic link → link")
    expect(file(page, "link")).to_contain_text("new symbolic link → /etc/hostname")
    about = file(page, "link").get_by_text("new symbolic link → /etc/hostname")
    file(page, "link").hover()
    accept = file(page, "link").get_by_role("button", name="Accept file")
    expect(accept).to_have_css("opacity", "1")
    above, below = about.bounding_box(), accept.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]
    page.evaluate("location.hash = '#/pending'")
    hunk = page.get_by_role("listitem", name="Hunk 1 of 1 in link, new symbolic link → /etc/hostname")
    expect(hunk).to_be_visible()
    page.evaluate("location.hash = '#/file/link'")
    expect(page.locator(".file-summary")).to_contain_text("new symbolic link → /etc/hostname")


def test_the_sides_of_a_conflict_have_the_right_labels(workbench: Make) -> None:
    """Otherwise a user is asked to keep a proposal that does not exist, and loses lines of their own."""
    bench = workbench(scenarios())
    path = bench.newel.project / "notes.md"
    path.write_text("one\ntwo\n")
    page = bench.page()
    page.evaluate("location.hash = '#/file/notes.md'")
    page.locator(".cm-line").first.click()
    page.keyboard.press("End")
    page.keyboard.type(" of mine")
    expect(page.locator(".file-summary")).to_contain_text("1 of yours, unsaved")
    path.write_text("ONE\ntwo\n")
    trouble = page.locator(".file-trouble")
    expect(trouble.get_by_role("button", name="Keep my lines")).to_be_visible()
    expect(trouble.get_by_role("button", name="Keep proposal")).to_have_count(0)
    trouble.get_by_role("button", name="Keep my lines").click()
    expect(page.locator(".file-summary")).to_contain_text("1 accepted, unsaved")
    page.keyboard.press("Control+s")
    page.get_by_role("dialog").get_by_role("button", name="Overwrite").click()
    expect(page.locator(".file-summary")).to_have_text("No changes")
    assert path.read_text() == "one of mine\ntwo\n"
    checkpoint = ask(page, "GET", "checkpoints")["checkpoints"][0]
    assert checkpoint["title"] == "Saved over changes on disk: notes.md"
    plan = ask(page, "POST", f"checkpoints/{checkpoint['checkpoint_id']}/undo", {"dry_run": True})
    seen = [{"file_path": file["file_path"], "rev": file["rev"]} for file in plan["files"]]
    ask(page, "POST", f"checkpoints/{checkpoint['checkpoint_id']}/undo", {"files": seen})
    assert path.read_text() == "ONE\ntwo\n"
    bench.complaints[:] = [each for each in bench.complaints if "409 (Conflict)" not in each]
