"""Questions that wait for a person, and the tool servers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.bench import Workbench, answers, open_agent, open_chat, say, write_servers
from tests.browser.scenarios import answering, call, scenarios
from tests.support import BIN, bash

Make = Callable[..., Workbench]

COMMAND = "echo ran > ran\u200b; true"


def test_a_call_runs_only_when_somebody_allowed_exactly_this(workbench: Make) -> None:
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
    expect(page).to_have_title("(1) 1 question · do it · newel")
    expect(question.get_by_role("button", name="No")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_contain_text("echo again")
    assert not list(bench.newel.project.glob("ran*"))
    question.get_by_role("button", name="Run once").click()
    expect(answers(page).last).to_contain_text("So be it.")
    assert (bench.newel.project / "again").exists()
    expect(page).to_have_title("do it · newel")


def test_a_no_can_say_what_to_do_instead_and_questions_outlive_a_reload(workbench: Make) -> None:
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


def test_a_question_of_another_tab_is_seen_from_here(workbench: Make) -> None:
    page = workbench(
        scenarios(answering("Do it", bash("true"), {"content": "Done."})), "--approve", "ask"
    ).page()
    open_agent(page, "Do it")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("form", name="Allow")).to_be_visible()
    open_chat(page)
    page.get_by_role("button", name="Agent-1 waits for your answer").click()
    expect(page.get_by_role("form", name="Allow")).to_be_visible()


def test_a_server_of_the_project_runs_only_when_its_command_is_trusted(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("what time", call("time__get_current_time", timezone="UTC"), {"content": "Late."})
        )
    )
    write_servers(
        bench.newel.project,
        {"time": {"command": str(BIN / "mcp-server-time")}, "broken": {"command": "/nowhere"}},
    )
    bench.kill()
    bench.start()
    page = bench.page()
    tools = page.get_by_role("button", name=re.compile("^Tools"))
    expect(tools).to_contain_text("2?")
    tools.click()
    server = page.get_by_role("region", name="time", exact=True)
    expect(server).to_contain_text("(untrusted)")
    expect(server.get_by_label("Command")).to_have_text(str(BIN / "mcp-server-time"))
    server.get_by_role("button", name="Trust this command").click()
    expect(server).to_contain_text("(active)")
    broken = page.get_by_role("region", name="broken", exact=True)
    broken.get_by_role("button", name="Trust this command").click()
    expect(broken).to_contain_text("(broken)")
    expect(broken).to_contain_text("/nowhere")
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


SERVER = """
from typing import Annotated
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field
server = MCPServer("asking")
class Booking(BaseModel):
    name: str = Field(description="Who comes")
    guests: int = 2
    window: bool = False
def ask() -> Elicit[Booking]:
    return Elicit("Which table?", Booking)
@server.tool()
def book(booking: Annotated[Booking, Resolve(ask)]) -> str:
    return f"{booking.name} {booking.guests} {booking.window}"
server.run()
"""


def test_a_tool_asks_by_a_form_and_gets_what_was_filled_in(workbench: Make) -> None:
    bench = workbench(scenarios(answering("book", call("asking__book"), {"content": "Booked."})))
    script = bench.newel.project / "server.py"
    script.write_text(SERVER)
    write_servers(bench.newel.project, {"asking": {"command": sys.executable, "args": [str(script)]}})
    bench.kill()
    bench.start()
    page = bench.page()
    page.keyboard.press("Alt+t")
    page.get_by_role("button", name="Trust this command").click()
    expect(page.get_by_role("region", name="asking", exact=True)).to_contain_text("(active)")
    page.keyboard.press("Escape")
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
