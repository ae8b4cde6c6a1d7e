"""If these fail, a user cannot hold, stop, edit or resume a chat in the page."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from newel.agent.messages import UserMessage
from newel.session.manager import SessionManager
from tests.browser.bench import (
    NARROW,
    HeldSocket,
    Workbench,
    answers,
    expect_end_of_run,
    message_box,
    open_chat,
    overflow_px,
    say,
)
from tests.browser.expecting import expect
from tests.browser.scenarios import SLOW, WAIT, WORK, answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]

MINUS = "\N{MINUS SIGN}"


@pytest.mark.core
def test_an_answer_shows_reasoning_calls_and_text_also_after_a_reload(workbench: Make) -> None:
    bench = workbench(scenarios(WORK))
    (bench.newel.project / "cli.py").write_text("def main():\n    run(source)\n")
    page = bench.page()
    open_chat(page)
    say(page, "add a flag")
    expect(page.get_by_role("cell", name="cli.py")).to_be_visible()
    expect(page.get_by_role("region", name="Reasoning", exact=True)).to_have_text(
        "The file first, then the edit."
    )
    asides = page.locator(".call .aside")
    expect(asides.nth(1)).to_have_text(re.compile(rf"^\+1 {MINUS}1 · \d+ ms$"))
    said = asides.all_inner_texts()
    assert [words.split(" · ")[0] for words in said[:3]] == ["2 lines", f"+1 {MINUS}1", "two"]
    for _ in range(2):
        expect(page.get_by_role("button", name="Reasoning")).to_be_visible()
        assert asides.all_inner_texts() == said
        expect(page.get_by_role("article", name="You")).to_contain_text("add a flag")
        lines = page.locator(".call-words")
        expect(lines).to_have_count(4)
        assert lines.nth(0).inner_text() == "read cli.py"
        cut = lines.nth(3).inner_text()
        assert len(cut) == 80
        assert cut.endswith("…")
        expect(page.locator("pre code .hljs-keyword").first).to_be_visible()
        expect(page.locator(".meter")).to_contain_text("in ·")
        page.reload()
        expect(page.get_by_role("cell", name="cli.py")).to_be_visible()
    expect(page).to_have_title("add a flag · newel")


def test_a_call_expands_to_its_input_output_and_changes(workbench: Make) -> None:
    bench = workbench(scenarios(WORK))
    (bench.newel.project / "cli.py").write_text("def main():\n    run(source)\n")
    page = bench.page()
    open_chat(page)
    say(page, "add a flag")
    expect(page.get_by_role("cell", name="cli.py")).to_be_visible()
    page.get_by_role("button", name="edit cli.py").click()
    expect(page.locator("ins")).to_have_text("+    run(source, dry_run=True)\n")
    expect(page.locator("del")).to_have_text("-    run(source)\n")
    selected = "(line) => { getSelection().selectAllChildren(line); return String(getSelection()); }"
    assert (
        page.locator("ins").evaluate(selected) == "    run(source, dry_run=True)"
    )  # copied as it is in the file
    page.get_by_role("button", name="bash echo a very long").click()
    expect(page.get_by_label("Command", exact=True)).to_contain_text("a very long command " * 9)
    page.reload()  # expanded calls stay expanded
    expect(page.locator("ins")).to_be_visible()


def test_a_call_expanded_while_it_is_written_stays_expanded(workbench: Make) -> None:
    slowly = {"token_delay_ms": 40, "response": bash("echo " + "word " * 20)}
    page = workbench(scenarios(answering("run it", slowly, {"content": "It ran."}))).page()
    open_chat(page)
    say(page, "run it")
    page.locator(".call[data-phase=writing] .call-head").click()
    for _ in range(2):
        expect(answers(page).last).to_have_text("It ran.")
        expect(page.get_by_label("Command", exact=True)).to_contain_text("word word")
        page.reload()


AN_HOUR_AHEAD = """
    const Clock = Date, ahead = 3_600_000;
    Date = class extends Clock {
        constructor(...time) { time.length ? super(...time) : super(Date.now()); }
        static now() { return Clock.now() + ahead; }
    };
"""


def test_a_command_runs_for_seconds_in_a_browser_whose_clock_is_an_hour_ahead(workbench: Make) -> None:
    bench = workbench(scenarios(answering("run it", bash(WAIT), {"content": "It ran."})))
    context = bench.context()
    context.add_init_script(AN_HOUR_AHEAD)
    page = bench.page(context)
    open_chat(page)
    say(page, "run it")
    for elapsed in (page.locator(".call .elapsed"), page.locator(".foot[role=status] .elapsed")):
        expect(elapsed).to_have_text(re.compile(r"^\d+ s$"))
    (bench.newel.project / "go").touch()
    expect(answers(page).last).to_contain_text("It ran.")


@pytest.mark.core
def test_a_stop_shows_at_once_and_the_chat_continues(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("run it", {"content": "Now.", **bash(WAIT)}, {"content": "It ran."}), SLOW)
    )
    page = bench.page()
    open_chat(page)
    say(page, "run it")
    page.get_by_role("button", name=re.compile("bash until.*running")).wait_for()
    status = page.locator(".foot[role=status]")
    expect(status.locator(".elapsed")).to_contain_text("s")
    assert not re.search(r"\d+ s", status.aria_snapshot())  # a screen reader would say each second
    message_box(page).press("Escape")
    expect(page.get_by_role("button", name="Stop now")).to_be_visible()
    (bench.newel.project / "go").touch()
    expect(page.get_by_text("Stopped before the next request.")).to_be_visible()
    page.get_by_role("button", name="Continue").click()
    expect(answers(page).last).to_contain_text("It ran.")
    say(page, "tell me slowly")
    expect(answers(page).last).to_contain_text("begin")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop now").click()
    expect(page.get_by_text("Stopped.", exact=True)).to_have_count(1)
    expect(message_box(page)).to_be_editable()


def test_a_message_sent_after_a_stop_is_answered_by_a_run_that_can_be_stopped(workbench: Make) -> None:
    again = answering("run it again", bash(WAIT.replace("go", "go2")), {"content": "It ran again."})
    bench = workbench(scenarios(again, answering("run it", bash(WAIT), {"content": "It ran."})))
    page = bench.page()
    open_chat(page)
    say(page, "run it")
    page.get_by_role("button", name=re.compile("bash until.*running")).wait_for()
    message_box(page).press("Escape")
    expect(page.get_by_role("button", name="Stop now")).to_be_visible()
    say(page, "run it again")
    expect(page.get_by_role("region", name="Queued messages")).to_contain_text("run it again")
    (bench.newel.project / "go").touch()
    page.get_by_role("button", name=re.compile("bash until.*go2.*running")).wait_for()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_enabled()
    message_box(page).press("Escape")
    message_box(page).press("Escape")
    expect(page.get_by_text("Stopped.", exact=True)).to_be_visible()


def test_an_edit_that_is_refused_takes_nothing_from_the_conversation(workbench: Make) -> None:
    """Another window has started a run, and this one does not know that yet."""
    bench = workbench(scenarios(answering("run it", bash(WAIT), {"content": "It ran."})))
    other = bench.page()
    open_chat(other)
    for words in ("first", "second"):
        say(other, words)
        expect_end_of_run(other)
    context = bench.context()
    socket = HeldSocket(context)
    page = bench.page(context)
    expect(answers(page)).to_have_count(2)
    socket.is_held = True
    say(other, "run it")
    other.get_by_role("button", name=re.compile("bash until.*running")).wait_for()
    message_box(page).press("ArrowUp")
    page.keyboard.type(", edited")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("second, edited")).to_be_visible()
    expect(answers(page)).to_have_count(1)
    socket.open()
    expect(page.get_by_text("Stop the run first")).to_be_visible()
    expect(page.get_by_role("article", name="You")).to_contain_text(
        ["first", "second", "run it", "second, edited"]
    )
    expect(answers(page)).to_have_count(3)


@pytest.mark.core
def test_a_failure_shows_a_message_and_can_be_retried(workbench: Make) -> None:
    fault = {"fault": {"kind": "status", "status": 400, "times": 1}, "response": {"content": "Now it works."}}
    page = workbench(scenarios(answering("try it", fault))).page()
    open_chat(page)
    say(page, "try it")
    expect(page.get_by_text("scripted fault")).to_have_count(1)
    page.get_by_role("button", name="Retry").press("Enter")
    expect(message_box(page)).to_be_focused()  # not lost with the button
    expect(answers(page).last).to_contain_text("Now it works.")


@pytest.mark.core
def test_a_message_sent_during_a_run_is_queued_and_answered(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("run it", {"content": "Now.", **bash(WAIT)}, {"content": "It ran."}),
            answering("and then", {"content": "Then this."}),
        )
    )
    page = bench.page()
    open_chat(page)
    say(page, "run it")
    expect(answers(page).last).to_contain_text("Now.")
    say(page, "and then")
    expect(page.get_by_role("region", name="Queued messages")).to_contain_text("queued")
    (bench.newel.project / "go").touch()
    expect(page.get_by_text("Then this.")).to_be_visible()
    expect(page.get_by_text("queued")).to_have_count(0)
    expect(page.get_by_role("article", name="You")).to_have_count(2)


def test_an_edited_message_replaces_what_followed(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("blue", {"content": "It is blue."}),
            answering("red", bash(WAIT), {"content": "It is red."}),
        )
    )
    page = bench.page()
    open_chat(page)
    say(page, "say red")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    page.get_by_role("article", name="You").hover()
    page.get_by_role("button", name="Edit message").click()
    edited = page.get_by_role("textbox", name="Edit your message")
    edited.fill("say blue")
    page.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("Stop the run before you edit a message")).to_be_visible()
    (bench.newel.project / "go").touch()
    expect(page.get_by_text("It is red.")).to_be_visible()
    expect_end_of_run(page)
    expect(edited).to_have_value("say blue")
    page.get_by_role("button", name="Resend").click()
    expect(page.get_by_text("It is blue.")).to_be_visible()
    expect(page.get_by_text("It is red.")).to_have_count(0)
    page.reload()
    expect(page.get_by_text("It is blue.")).to_be_visible()
    expect(page.get_by_role("article", name="You")).to_have_count(1)


def test_drafts_scroll_positions_and_tabs_survive(workbench: Make) -> None:
    long = {"content": "\n\n".join(f"Paragraph {number}." for number in range(80))}
    page = workbench(scenarios(answering("much", long))).page()
    open_chat(page)
    say(page, "much text")
    expect(page.get_by_text("Paragraph 79.")).to_be_in_viewport()
    message_box(page).fill("a draft")
    page.get_by_text("Paragraph 10.").scroll_into_view_if_needed()
    open_chat(page)
    message_box(page).fill("another draft")
    page.keyboard.press("Alt+1")
    expect(page.get_by_text("Paragraph 10.")).to_be_in_viewport()
    expect(message_box(page)).to_have_value("a draft")
    page.reload()
    expect(page.get_by_text("Paragraph 10.")).to_be_in_viewport()
    expect(page.get_by_text("Paragraph 79.")).not_to_be_in_viewport()
    expect(message_box(page)).to_have_value("a draft")
    page.keyboard.press("Alt+2")
    expect(message_box(page)).to_have_value("another draft")


def test_an_earlier_conversation_can_be_reopened(workbench: Make) -> None:
    page = workbench(scenarios(answering("remember", {"content": "I remember."}))).page()
    open_chat(page)
    say(page, "remember the newel")
    expect(page.get_by_text("I remember.")).to_be_visible()
    expect(page.get_by_role("tab")).not_to_contain_text("Running")
    page.get_by_role("tab").press("Delete")
    expect(page.get_by_role("heading", name="New chat")).to_be_visible()
    page.keyboard.press("Alt+o")
    page.get_by_role("option", name="remember the newel").click()
    expect(page.get_by_text("I remember.")).to_be_visible()


def test_every_conversation_of_the_folder_is_found_by_its_first_message(workbench: Make) -> None:
    bench = workbench(scenarios())
    sessions = bench.newel.home / ".newel" / "sessions"
    for number in range(206):
        session = SessionManager(directory=sessions, cwd=str(bench.newel.project))
        session.append_message(UserMessage(f"Straighten the newel post {number}"))
        if number == 3:
            session.set_name("Stairs")
        path = session.get_file_path()
        assert path is not None
        session.close()
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    page = bench.page()
    page.keyboard.press("Alt+o")
    options, box = page.get_by_role("option"), page.get_by_role("combobox", name="Conversations")
    expect(options).to_have_count(200)
    box.press_sequentially("POST 3 stairs")
    expect(options).to_have_count(1)
    expect(options).to_contain_text("Straighten the newel post 3")
    box.fill("zzzz")
    expect(page.get_by_text("No conversation matches “zzzz”.")).to_be_visible()
    box.fill("post 204 straighten")
    box.press("Enter")  # it waits for the result
    expect(page.get_by_role("tab")).to_have_count(1)
    expect(page.get_by_role("article", name="You")).to_contain_text("newel post 204")


@pytest.mark.core
def test_text_files_are_attached_and_others_are_refused(workbench: Make) -> None:
    bench = workbench(scenarios())
    notes = bench.newel.home / "notes.txt"
    notes.write_text("The secret is 4711.")
    noise = bench.newel.home / "noise.bin"
    noise.write_bytes(bytes(range(256)))
    page = bench.page()
    open_chat(page)
    page.locator("input[type=file]").set_input_files([noise, notes])
    expect(page.get_by_role("button", name="Remove notes.txt")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("only text and images are supported")
    say(page, "read this")
    expect(answers(page)).to_contain_text("Yes.")
    expect(page.get_by_role("article", name="You")).to_contain_text("notes.txt")
    assert "4711" in str(bench.newel.requests[-1]["messages"][-1])


def test_a_broken_image_is_refused_before_a_server_refuses_the_conversation(workbench: Make) -> None:
    bench = workbench(scenarios())
    page = bench.page()
    open_chat(page)
    page.locator("input[type=file]").set_input_files(
        {"name": "cut.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n"}
    )
    expect(page.get_by_role("alert")).to_contain_text(
        "cut.png was not attached: it cannot be read as an image."
    )
    expect(page.get_by_role("button", name="Remove cut.png")).to_have_count(0)


GIVEN = """(text) => {
    const given = new DataTransfer();
    given.items.add(new File([text], "given.txt", { type: "text/plain" }));
    return given;
}"""


PASTE = """(box, text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
}"""
PASTE_CELLS = """(box) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "1\\t2");
    clipboardData.setData("text/html", "<table><tr><td>1<td>2</table>");
    clipboardData.items.add(new File(["picture"], "image.png", { type: "image/png" }));
    return box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""
"""Cells of a spreadsheet, which come with a picture of them; returns whether the browser is left to insert the text."""
LONG_TEXT = "8" * 50_001
"""A text that is attached when it is pasted: in the box, each key would take a while."""


@pytest.mark.parametrize("way", ["paste", "drop"])
def test_files_and_long_texts_can_be_pasted_or_dropped_onto_the_message(workbench: Make, way: str) -> None:
    bench = workbench(scenarios())
    page = bench.page()
    open_chat(page)
    given = page.evaluate_handle(GIVEN, "It is 4711.")
    if way == "drop":
        message_box(page).dispatch_event("drop", {"dataTransfer": given})
    else:
        message_box(page).evaluate(
            "(box, given) => box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: given, bubbles: true }))",
            given,
        )
    page.get_by_role("button", name="Remove given.txt").wait_for()
    assert message_box(page).evaluate(PASTE_CELLS)
    message_box(page).evaluate(PASTE, LONG_TEXT)
    page.get_by_role("button", name="Remove pasted.txt").wait_for()
    page.get_by_role("button", name="Send").click()
    expect(answers(page)).to_contain_text("Yes.")
    sent = str(bench.newel.requests[-1]["messages"][-1])
    assert "4711" in sent
    assert LONG_TEXT in sent


def test_a_chat_uses_the_chosen_model(workbench: Make) -> None:
    bench = workbench({**scenarios(), "models": ["big-model", "small-model"]})
    page = bench.page()
    open_chat(page)
    page.get_by_role("button", name="Model: mock-model").click()
    page.get_by_role("option", name="small-model").click()
    expect(page.get_by_role("button", name="Model: small-model")).to_be_visible()
    say(page, "hello")
    expect(answers(page)).to_contain_text("Yes.")
    asked: list[dict[str, Any]] = bench.newel.requests
    assert asked[-1]["model"] == "small-model"


def test_the_start_of_a_long_conversation_loads_on_demand(workbench: Make) -> None:
    many = answering(
        "go",
        *[{"content": f"Step {number}.", **bash(f"true {number}")} for number in range(70)],
        {"content": "Done."},
    )
    page = workbench(scenarios(many)).page()
    open_chat(page)
    say(page, "go")
    expect(page.get_by_text("Done.")).to_be_visible(timeout=20_000)
    page.reload()
    expect(page.get_by_text("Done.")).to_be_in_viewport()
    expect(page.get_by_text("Step 3.", exact=True)).to_have_count(0)
    page.locator(".log").evaluate("(log) => { log.scrollTop = 0; }")
    expect(page.get_by_text("Step 3.", exact=True)).to_be_attached()
    expect(page.get_by_text("Step 69.", exact=True)).to_have_count(1)


def test_a_wide_table_wraps_at_words_and_scrolls(workbench: Make) -> None:
    rows = (["word"] * 40, ["---"] * 40, ["another"] * 40)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    page = workbench(scenarios(answering("a table", {"content": table}))).page(**NARROW)
    open_chat(page)
    say(page, "a table")
    cells = answers(page).get_by_role("cell", name="another")
    expect(cells).to_have_count(40)
    expect(page.locator(".assistant .actions:not([hidden])")).to_have_count(1)  # the block is complete
    assert cells.first.evaluate("(cell) => cell.clientHeight") < 40  # a line, not a column of letters
    assert page.locator(".table").evaluate("(box) => box.scrollWidth > box.clientWidth")
    assert overflow_px(page) == 0


def test_an_answer_that_is_cut_off_or_empty_is_not_taken_for_a_finished_one(workbench: Make) -> None:
    cut = {"content": "The first half of", "finish_reason": "length"}
    bench = workbench(scenarios(answering("long work", cut), answering("short work", {"content": ""})))
    page = bench.page()
    open_chat(page)
    say(page, "long work")
    expect(
        page.get_by_text("The answer was cut off at the longest output that the model may write.")
    ).to_be_visible()
    say(page, "short work")
    expect(page.get_by_text("The model returned an empty answer.")).to_be_visible()


def test_a_dismissed_notice_gives_the_focus_back(workbench: Make) -> None:
    """Otherwise the keyboard begins again at the top of the page after each failure."""
    page = workbench(scenarios()).page()
    open_chat(page)
    for name in ("first", "second"):
        say(page, f"/no-{name} ")
        expect(page.get_by_text(f"There is no command /no-{name}.")).to_be_visible()
    page.get_by_role("button", name="Dismiss").last.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Dismiss")).to_be_focused()
    page.keyboard.press("Enter")
    expect(message_box(page)).to_be_focused()
