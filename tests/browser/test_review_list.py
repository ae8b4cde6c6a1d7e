"""If these fail, users miss changes that wait for them, or decide on changes without knowing their origin."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Gate, Workbench, find_flaws, open_agent, open_chat, say
from tests.browser.expecting import expect
from tests.browser.proposals import ask, proposal_scenarios, propose, replace_line
from tests.browser.review_scenarios import file, hunks, sidebar
from tests.browser.scenarios import answering, call, scenarios, verdict
from tests.integration.review.served_review import hunk_ids
from tests.support import bash

Make = Callable[..., Workbench]

WAY = "a/rather/long/way/through/many/folders/to/a/file/that/was"
LINES = [f"line {number}" for number in range(30)]
CHAT = answering(
    "shout",
    call("edit", file_path="notes.md", old_string="line 3\n", new_string="LINE 3\n"),
    bash(f"mkdir -p {WAY} && printf 'new\\n' > {WAY}/made.md"),
    {"content": "Shouted."},
)
AGENT = answering("whisper", bash("sed -i 's/line 20/psst/' notes.md"), {"content": "Whispered."})
JUDGE = {
    "name": "judge",
    "trigger_regex": r"After \d+ tool call",
    "steps": [{"response": verdict("It was whispered.", satisfied=True)}],
}


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=name)


def changes(page: Page) -> Locator:
    return page.get_by_role("group", name="Changes of this run")


def count(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_role("button", name=re.compile("^Review")).locator(".count")


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DRAW = answering(
    "draw",
    bash("cp new.png logo.png; printf '<svg onload=alert(1)>\\0' > evil.png; chmod +x run.sh; rm gone.bin"),
    {"content": "Drawn."},
)


def test_binary_changes_are_shown_and_decided_in_their_tab(workbench: Make) -> None:
    bench = workbench(scenarios(DRAW), "--approve", "review")
    project = bench.newel.project
    (project / "new.png").write_bytes(PICTURE)
    (project / "logo.png").write_bytes(PICTURE + b"old")
    (project / "gone.bin").write_bytes(b"\0\1")
    (project / "run.sh").write_text("true\n")
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "draw")
    expect(changes(page)).to_contain_text("4 hunks to review in 4 files")
    for name, words in (("gone.bin", "Deletes the file."), ("run.sh", "File mode changes: 644 → 755.")):
        expect(hunks(page, name)).to_contain_text(words)
    file(page, "evil.png").get_by_role("button", name="Open").click()
    whole = page.locator(".whole-file")
    expect(whole).to_contain_text("A new file · 22 bytes")
    gate = Gate(page, "**/api/agent/content?*")
    file(page, "logo.png").get_by_role("button", name="Open").click()
    expect(whole).to_contain_text(f"{len(PICTURE) + 3} bytes → {len(PICTURE)} bytes")
    with page.expect_response("**/api/agent/file?*logo.png*"):  # the file is read again while its images load
        page.evaluate("dispatchEvent(new Event('focus'))")
    gate.open()
    for side in ("Before", "After"):
        picture = whole.get_by_role("img", name=f"{side} of logo.png")
        expect(picture).to_have_js_property("naturalWidth", 1)
        expect(picture).to_have_attribute("src", re.compile("^blob:"))
    assert find_flaws(page) == []
    page.locator(".file-editor").press("r")
    expect(whole).to_contain_text("Rejected")
    expect(whole.get_by_role("img")).to_have_count(1)
    whole.get_by_role("button", name="Restore").click()
    whole.get_by_role("button", name="Accept").click()
    expect(whole).to_contain_text("Accepted, unsaved")
    assert (project / "logo.png").read_bytes() == PICTURE + b"old"
    page.keyboard.press("Control+s")
    expect(whole.get_by_role("button")).to_have_count(0)
    assert (project / "logo.png").read_bytes() == PICTURE
    tab(page, "evil.png").click()
    expect(whole.get_by_role("button", name="Accept")).to_be_visible()
    expect(whole.get_by_role("img")).to_have_count(0)


def test_proposals_of_a_terminal_run_are_listed_with_a_link_to_the_conversation(
    workbench: Make,
) -> None:
    bench = workbench(scenarios(answering("hum", bash("echo hm > tune.md"), {"content": "Hummed."})))
    assert bench.newel("--approve", "review", "hum a tune").returncode == 0
    page = bench.page(**NARROW)
    expect(count(page)).to_have_text("1 to decide")
    sidebar(page)
    file(page, "tune.md").locator(".origins").get_by_role("button", name="hum a tune").click()
    expect(page.get_by_role("article", name="Assistant").last).to_contain_text("Hummed.")
    expect(changes(page)).to_contain_text("1 hunk to review in 1 file")
    expect(tab(page, "hum a tune")).to_contain_text("1 to review")
    assert find_flaws(page) == []
    page.evaluate("location.hash = '#/checkpoints'")
    page.locator(".timeline-head").click()
    page.locator(".timeline-body").get_by_role("button", name="hum a tune").click()
    changes(page).get_by_role("button", name="Review").click()
    page.locator(".inline-hunk[aria-current]").get_by_role("button", name="Accept").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(count(page)).to_be_hidden()
    assert (bench.newel.project / "tune.md").read_text() == "hm\n"


def test_an_earlier_job_shows_its_rejected_hunks_and_can_be_rerun(workbench: Make) -> None:
    words = "order the notes"
    edits = [replace_line("notes.md", 1, "LINE 0\n"), replace_line("notes.md", 9, "LINE 8\n")]
    bench = workbench(proposal_scenarios((words, edits)))
    (bench.newel.project / "notes.md").write_text("\n".join(LINES) + "\n")
    page = bench.page(**NARROW)
    job = propose(page, words)
    first = hunk_ids(job)[0]
    applied = {"session_id": job["session_id"], "job_id": job["id"], "accepted_hunk_ids": [first]}
    ask(page, "POST", "apply", applied)
    sidebar(page).get_by_role("button", name="Earlier requests").click()
    page.get_by_role("region", name="Requests").get_by_role("button", name=words).click()
    request = page.get_by_role("region", name="Request", exact=True)
    kept, rejected = request.locator(".request-hunk").nth(0), request.locator(".request-hunk").nth(1)
    for _ in range(2):
        expect(request.locator(".request-body")).to_contain_text("Reviewed")
        expect(kept).to_contain_text("Kept")
        expect(kept.locator("ins")).to_contain_text("LINE 0")
        expect(rejected).to_contain_text("Rejected")
        expect(rejected.locator("ins")).to_contain_text("LINE 8")
        expect(request).to_contain_text("Done.")
        page.reload()
    assert find_flaws(page) == []
    request.get_by_role("button", name="Run again").click()
    expect(sidebar(page).locator(".job-state")).to_have_text("To review: 1 file")


def test_proposals_of_chats_and_agents_are_one_list_and_decisions_show_everywhere(
    workbench: Make,
) -> None:
    bench = workbench(scenarios(JUDGE, CHAT, AGENT), "--approve", "review")
    (bench.newel.project / "notes.md").write_text("\n".join(LINES) + "\n")
    page = bench.page()
    open_chat(page)
    say(page, "shout")
    expect(changes(page)).to_contain_text("2 hunks to review in 2 files")
    open_agent(page, "whisper")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(changes(page)).to_contain_text("1 hunk to review in 1 file")
    expect(tab(page, "shout")).to_contain_text("2 to review")
    expect(tab(page, "Agent-1")).to_contain_text("1 to review")
    expect(count(page)).to_have_text("3 to decide")
    # The list names the origin of each hunk, with a link.
    expect(file(page, "notes.md").locator(".origins")).to_have_text("from shout · Agent-1")
    expect(hunks(page, "notes.md").nth(0)).to_contain_text("from shout")
    expect(hunks(page, "notes.md").nth(1)).to_contain_text("from Agent-1")
    column = page.get_by_role("complementary", name="Review", exact=True)
    assert column.evaluate("(element) => element.scrollWidth - element.clientWidth") == 0
    file(page, f"{WAY}/made.md").get_by_role("button", name="shout").click()
    expect(tab(page, "shout")).to_have_attribute("aria-selected", "true")
    # From the agent's tab to its first hunk, which is accepted in the editor.
    tab(page, "Agent-1").click()
    page.locator(".agent-bar").get_by_role("button", name="Review 1 hunk").click()
    current = page.locator(".inline-hunk[aria-current]")
    expect(current).to_contain_text("line 20")
    current.get_by_role("button", name="Accept").click()
    expect(tab(page, "Agent-1")).not_to_contain_text("to review")
    expect(count(page)).to_have_text("2 to decide")
    expect(hunks(page, "notes.md").nth(1)).to_contain_text("accepted, unsaved")
    tab(page, "Agent-1").click()
    expect(changes(page)).to_contain_text("1 accepted, unsaved")
    # The chat's transcript shows the decisions of the list, also after a reload.
    hunks(page, "notes.md").nth(0).get_by_role("button", name="Reject").click()
    file(page, f"{WAY}/made.md").get_by_role("button", name="Accept file").click()
    sidebar(page).get_by_role("button", name="All reviewed: Save 2 files").click()
    expect(count(page)).to_be_hidden()
    tab(page, "shout").click()
    for _ in range(2):
        expect(changes(page)).to_contain_text("1 kept · 1 rejected")
        page.reload()
    lines = (bench.newel.project / "notes.md").read_text().splitlines()
    assert (lines[3], lines[20]) == ("line 3", "psst")
    assert (bench.newel.project / f"{WAY}/made.md").read_text() == "new\n"


MOVES = 60
MOVE = answering(
    "move",
    bash(f"for i in $(seq {MOVES}); do mv old$i.md new$i.md; done; seq 2000 > long.md"),
    {"content": "Moved."},
)


def test_more_is_offered_only_if_something_is_left(workbench: Make) -> None:
    """Sixty moves are a hundred and twenty files, but only sixty rows; and a list that is all there has no button at all."""
    bench = workbench(scenarios(MOVE), "--approve", "review")
    for number in range(1, MOVES + 1):
        (bench.newel.project / f"old{number}.md").write_text(f"{number}\n")
    page = bench.page()
    open_chat(page)
    say(page, "move")
    expect(sidebar(page).locator(".listed-file")).to_have_count(MOVES + 1)
    expect(sidebar(page).get_by_role("button", name="Show more")).to_have_count(0)
    page.evaluate("location.hash = '#/checkpoints'")
    page.locator(".timeline-head").first.click()
    page.get_by_role("button", name="Roll back…").first.click()
    dialog = page.get_by_role("dialog", name="Roll back")
    rest = dialog.get_by_role("button", name="Show more (1,801 lines left)")
    rest.focus()
    page.keyboard.press("Enter")
    expect(dialog.get_by_text("2000", exact=True)).to_be_attached()
    expect(rest).to_have_count(0)
    expect(dialog.locator(":focus")).to_contain_text("200")
    assert "(0 " not in str(page.locator("body").text_content())
