"""If these fail, a call or a tool server runs without consent, or a pending question is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.bench import Workbench, answers, message_box, open_agent, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import ASKING, WAIT, answering, call, scenarios
from tests.support import BIN, bash

Make = Callable[..., Workbench]

COMMAND = "echo ran > ran\u200b; true"


@pytest.mark.core
def test_a_call_runs_only_after_exactly_it_was_approved(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("do it", bash(COMMAND), bash("echo again > again"), {"content": "So be it."})),
        "--approve",
        "ask",
    )
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    question = page.get_by_role("form", name="Allow")
    expect(question).to_contain_text("echo ran > ran<U+200B>; true")
    expect(question).to_contain_text(str(bench.newel.project))
    expect(page).to_have_title("1 question · do it · newel")
    expect(question.get_by_role("button", name="No")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_contain_text("echo again")
    assert not list(bench.newel.project.glob("ran*"))
    question.get_by_role("button", name="Run once").click()
    expect(answers(page).last).to_contain_text("So be it.")
    assert (bench.newel.project / "again").exists()
    expect(page).to_have_title("do it · newel")


def test_the_keyboards_focus_survives_an_answer(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("do it", bash("touch one"), {"content": "Done."})), "--approve", "ask"
    )
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    page.get_by_role("button", name="Run once").press("Enter")
    expect(message_box(page)).to_be_focused()
    expect(answers(page).last).to_contain_text("Done.")
    page.keyboard.type("thanks")
    expect(message_box(page)).to_have_value("thanks")


def test_the_focus_survives_an_answer_in_a_browser_that_is_too_busy_to_draw(workbench: Make) -> None:
    """Until it draws, a disabled button keeps the focus, and then nothing has it: the next words would be lost."""
    bench = workbench(
        scenarios(answering("do it", bash("touch one"), {"content": "Done."})), "--approve", "ask"
    )
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    page.get_by_role("button", name="Run once").evaluate(
        "(button) => { button.focus(); button.click(); const end = performance.now() + 300; while (performance.now() < end); }"
    )
    expect(answers(page).last).to_contain_text("Done.")
    expect(message_box(page)).to_be_focused()


def test_a_question_that_comes_while_the_user_types_is_not_answered_by_that(workbench: Make) -> None:
    """It would take the focus, and the next space would press its button."""
    bench = workbench(
        scenarios(answering("do it", bash(WAIT), bash("touch two"), {"content": "Done."})), "--approve", "ask"
    )
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    page.get_by_role("button", name="Run once").press("Enter")
    page.get_by_role("button", name=re.compile("bash until.*running")).wait_for()
    message_box(page).press("ArrowUp")
    page.keyboard.type(" now")
    (bench.newel.project / "go").touch()
    question = page.get_by_role("form", name="Allow “touch two”?")
    expect(question).to_be_visible()
    page.keyboard.type(" please")
    expect(page.get_by_role("textbox", name="Edit your message")).to_have_value("do it now please")
    expect(question.get_by_role("button", name="No")).to_be_enabled()


def test_a_rule_for_the_project_is_offered_and_kept(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("do it", bash("touch one"), bash("touch two"), {"content": "Done."})),
        "--approve",
        "ask",
    )
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    page.get_by_role("button", name="Always allow in this project: touch *").click()
    expect(answers(page).last).to_contain_text("Done.")
    assert (bench.newel.project / "two").exists()
    assert "bash(touch *)" in bench.newel("permissions").stdout


@pytest.mark.core
def test_a_questions_title_states_the_effect_and_no_line_is_hidden(workbench: Make) -> None:
    command = "touch hidden\n--- a\n+++ b\n@@ -1 +1 @@"
    edit = call("edit", file_path="cli.py", old_string="1", new_string="2")
    bench = workbench(
        scenarios(answering("do it", edit, bash(command), {"content": "No."})), "--approve", "ask"
    )
    (bench.newel.project / "cli.py").write_text("1\n")
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    question = page.get_by_role("form", name="Allow changes to “cli.py”?")
    expect(question.locator("pre")).to_have_text("--- cli.py\n+++ cli.py\n@@ -1 +1 @@\n-1\n+2\n")
    expect(question).to_contain_text("Edit in ")
    expect(question.get_by_role("button", name="Allow once")).to_be_visible()
    page.keyboard.press("Enter")
    question = page.get_by_role("form", name="Allow “touch hidden …”?")
    expect(question.locator("pre")).to_have_text(command)
    expect(question).to_contain_text("Run in ")


def test_a_change_outside_of_the_project_is_shown_as_one(workbench: Make, tmp_path: Path) -> None:
    """Otherwise a diff comes as plain text, below a title that is cut in the middle of a path."""
    outside = tmp_path / "outside.txt"
    outside.write_text("1\n")
    edit = call("edit", file_path=str(outside), old_string="1", new_string="2")
    bench = workbench(scenarios(answering("do it", edit, {"content": "No."})), "--approve", "ask")
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    question = page.get_by_role("form", name="Allow changes to")
    expect(question).to_contain_text(f"{outside}  (outside the project)")
    expect(question.locator("pre")).to_contain_text("@@ -1 +1 @@\n-1\n+2\n")
    expect(question.get_by_role("button", name="Allow once")).to_be_visible()


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("--- cli.py\n+++ cli.py\n@@ -1 +1 @@\n-1\n+2\n touch made", "Allow “--- cli.py …”?"),
        ("(touch made)\n(touch more)\necho harmless", "Allow “(touch made) …”?"),
    ],
)
def test_no_command_passes_for_something_else(workbench: Make, command: str, title: str) -> None:
    """Bash goes on after a line that it cannot run: a command may look like a change of a file, or like the reason of a question."""
    bench = workbench(scenarios(answering("do it", bash(command), {"content": "No."})), "--approve", "ask")
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    question = page.get_by_role("form", name=title, exact=True)
    expect(question.get_by_label("Requested action")).to_have_text(command)


def test_a_refusal_can_give_instructions_and_questions_survive_a_reload(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("do it", bash("rm -r x"), {"content": "As you wish."})), "--approve", "ask"
    )
    page = bench.page()
    open_chat(page)
    say(page, "do it")
    expect(page.get_by_role("form", name="Allow")).to_be_visible()
    page.reload()
    page.get_by_role("textbox", name="What to do instead").fill("list it first")
    page.keyboard.press("Enter")
    expect(answers(page).last).to_contain_text("As you wish.")
    assert "list it first" in bench.newel.requests[-1]["messages"][-1]["content"]


def test_an_agents_question_shows_in_other_tabs_other_windows_and_after_a_reload(
    workbench: Make,
) -> None:
    bench = workbench(
        scenarios(answering("Do it", bash("touch done"), {"content": "Done."})), "--approve", "ask"
    )
    page = bench.page()
    open_chat(page)
    open_agent(page, "Do it")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("form", name="Allow")).to_be_visible()
    page.reload()
    expect(page.get_by_role("form", name="Allow")).to_contain_text("touch done")
    expect(page.locator(".agent-bar .badge")).to_have_text("Question")
    page.keyboard.press("Alt+1")
    for window in (page, bench.page()):  # the second window has never shown the agent's tab
        expect(window.get_by_role("tab", name="Chat", exact=True)).to_have_attribute("aria-selected", "true")
        expect(window.get_by_role("tab", name="Agent-1")).to_contain_text("Question")
        expect(window).to_have_title("1 question · Chat · newel")
        window.get_by_role("button", name="Agent-1 is waiting for your answer").click()
        expect(window.get_by_role("form", name="Allow")).to_contain_text("touch done")
    page.get_by_role("button", name="Run once").click()
    expect(window.get_by_role("form", name="Allow")).to_have_count(0)
    for _ in range(100):  # the question disappears once it is answered, before the command has run
        if (bench.newel.project / "done").exists():
            break
        page.wait_for_timeout(50)
    assert (bench.newel.project / "done").exists()


def test_a_server_of_the_project_runs_only_after_its_command_is_trusted(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("what time", call("time__get_current_time", timezone="UTC"), {"content": "Late."})
        ),
        servers={
            "time": {"command": str(BIN / "mcp-server-time"), "env": {"LANG": "C"}},
            "broken": {"command": "sh", "args": ["-c", "echo no such module >&2; exit 3"]},
        },
    )
    page = bench.page()
    tools = page.get_by_role("button", name=re.compile("^Tools"))
    expect(tools).to_contain_text("2?")
    tools.click()
    server = page.get_by_role("region", name="time", exact=True)
    expect(server).to_contain_text("(untrusted)")
    expect(server.get_by_label("Command")).to_have_text(str(BIN / "mcp-server-time"))
    expect(server).to_contain_text(f"Folder: {bench.newel.project}")
    expect(server).to_contain_text("Environment variables: LANG")
    server.get_by_role("button", name="Trust this command").click()
    expect(server).to_contain_text("(active)")
    expect(server.get_by_label("time is on")).to_be_focused()
    broken = page.get_by_role("region", name="broken", exact=True)
    broken.get_by_role("button", name="Trust this command").click()
    expect(broken).to_contain_text("(broken)")
    expect(broken).to_contain_text("exit code 3")
    expect(broken.get_by_label("Last output of broken")).to_have_text("no such module\n")
    expect(tools).to_contain_text("1✓")
    expect(tools).to_contain_text("1✗")
    server.get_by_text("2 tools").click()
    server.get_by_label("convert_time").uncheck()
    expect(server.get_by_text("1 of 2 tools on")).to_be_visible()
    server.get_by_label("time is on").uncheck()
    expect(server).to_contain_text("(disabled)")
    server.get_by_label("time is on").check()
    expect(server).to_contain_text("(active)")
    page.keyboard.press("Escape")
    open_chat(page)
    say(page, "what time is it")
    page.get_by_role("button", name="time__get_current_time").click()
    expect(page.get_by_label("Output", exact=True)).to_contain_text("UTC")


def test_a_tool_asks_by_form_and_by_url_and_gets_the_answers(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("book", call("asking__book"), {"content": "Booked."}),
            answering("pay", call("asking__pay"), call("asking__pay"), {"content": "Paid."}),
        ),
        own={"asking": ASKING},
    )
    page = bench.page()
    expect(page.get_by_role("button", name=re.compile("^Tools"))).to_contain_text("1✓")
    open_chat(page)
    say(page, "book a table")
    form = page.get_by_role("form", name="Which table?")
    expect(form.get_by_role("button", name="Decline")).to_be_focused()
    form.get_by_label("name").fill("Ada")
    form.get_by_label("guests").fill("3")
    form.get_by_label("window").check()
    form.get_by_role("button", name="Send").click()
    expect(answers(page).last).to_contain_text("Booked.")
    page.get_by_role("button", name="asking__book").click()
    expect(page.get_by_label("Output", exact=True)).to_contain_text("Ada 3 True")
    say(page, "pay for it")
    form = page.get_by_role("form", name="Pay there")
    expect(form.get_by_label("Address")).to_have_text("https://pay.invalid/<U+200B>?bill=7")
    visit = form.get_by_role("link", name="Open pay.invalid")
    expect(visit).to_have_attribute("rel", "noopener noreferrer")
    expect(form.get_by_role("button", name="Decline")).to_be_focused()
    form.get_by_role("button", name="Done").click()
    expect(page.get_by_role("button", name=re.compile("asking__pay.*accept"))).to_be_visible()
    form.get_by_role("button", name="Decline").click()
    expect(page.get_by_role("button", name=re.compile("asking__pay.*decline"))).to_be_visible()
    expect(answers(page).last).to_contain_text("Paid.")
