"""If these fail, a command of the workbench reaches a server without consent, or its user is not asked about one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, answers, find_flaws, open_agent, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, call, scenarios
from tests.integration.mcp.rogues import ROGUE
from tests.requirements import require_program
from tests.served import wait_until
from tests.support import bash

require_program("bwrap", "bubblewrap")

Make = Callable[..., Workbench]

REFUSED = "Not allowed by the sandbox"
IN_SANDBOX = {"environ": {"NEWEL_SANDBOX": "workspace"}}


def fetch(*servers: str) -> str:
    """A command that asks for servers one after the other, and prints a line for each: why it was not reached."""
    words = " ".join(servers)
    return (
        f"python3 - {words} <<'END'\n"
        "import sys, urllib.request as u\n"
        "for server in sys.argv[1:]:\n"
        "    try:\n        u.urlopen('http://' + server, timeout=20)\n"
        "    except Exception as error:\n        print(server, error)\n"
        "END"
    )


def printed(bench: Workbench) -> list[str]:
    """The lines about servers that the last command printed, as the model got them."""
    last = bench.newel.requests[-1]["messages"][-1]["content"]
    return [line for line in last.splitlines() if ".invalid" in line.partition(" ")[0]]


def question(page: Page, server: str) -> Locator:
    return page.get_by_role("form", name=f"Allow a connection to “{server}”?", exact=True)


def kept(bench: Workbench) -> list[str]:
    path = bench.newel.home / ".newel" / "sandbox_servers.json"
    return json.loads(path.read_text()).get(str(bench.newel.project), []) if path.exists() else []


def test_a_server_is_reached_only_after_the_user_allowed_it(workbench: Make) -> None:
    """`auto` runs the command unasked: the limits of the sandbox are another question."""
    command = fetch("refused.invalid", "once.invalid:8443", "kept.invalid", "refused.invalid")
    bench = workbench(
        scenarios(
            answering("go", bash(command), {"content": "Done."}),
            answering("again", bash(fetch("kept.invalid")), {"content": "Fine."}),
        ),
        **IN_SANDBOX,
    )
    page = bench.page()
    open_chat(page)
    say(page, "go")
    asked = question(page, "refused.invalid")
    expect(asked.get_by_role("button", name="Refuse", exact=True)).to_be_focused()
    expect(page).to_have_title("1 question · go · newel")
    page.keyboard.press("Enter")
    asked = question(page, "once.invalid:8443")
    expect(asked.get_by_label("Server", exact=True)).to_have_text("once.invalid:8443")
    asked.get_by_role("button", name="Allow in this conversation", exact=True).click()
    question(page, "kept.invalid").get_by_role(
        "button", name="Always allow in this project", exact=True
    ).click()
    expect(answers(page).last).to_contain_text("Done.")
    first, once, always, again = printed(bench)
    assert REFUSED in first
    assert "502" in once
    assert "502" in always
    assert REFUSED in again
    assert kept(bench) == ["kept.invalid"]


def test_a_command_outside_of_the_sandbox_is_asked_about_by_its_words_and_with_a_warning(
    workbench: Make,
) -> None:
    push = {"command": "touch ~/pushed", "unsandboxed": True}
    step = {"tool_calls": [{"function": {"name": "bash", "arguments": push}}]}
    bench = workbench(scenarios(answering("go", step, {"content": "Done."})), **IN_SANDBOX)
    page = bench.page()
    open_chat(page)
    say(page, "go")
    asked = page.get_by_role("form", name="Allow “touch ~/pushed” outside of the sandbox?", exact=True)
    expect(asked.get_by_label("Requested action")).to_contain_text("(outside of the sandbox: it can do")
    expect(asked.get_by_role("button", name="No", exact=True)).to_be_focused()
    assert not (bench.newel.home / "pushed").exists()
    asked.get_by_role("button", name="Run once", exact=True).click()
    expect(answers(page).last).to_contain_text("Done.")
    assert (bench.newel.home / "pushed").exists()


def test_the_question_is_in_its_tab_in_each_window_and_after_a_reload_and_an_abort_withdraws_it(
    workbench: Make,
) -> None:
    bench = workbench(
        scenarios(
            answering("first", bash(fetch("first.invalid")), {"content": "One."}),
            answering("second", bash(fetch("second.invalid")), {"content": "Two."}),
        ),
        **IN_SANDBOX,
    )
    page = bench.page()
    for text in ("first", "second"):
        open_chat(page)
        say(page, text)
        expect(question(page, f"{text}.invalid")).to_be_visible()
        expect(page.get_by_role("form", name="Allow a connection")).to_have_count(1)
    page.reload()
    window = bench.page()
    for each in (page, window):
        each.get_by_role("tab", name="second").click()
        expect(question(each, "second.invalid")).to_be_visible()
        expect(each).to_have_title("2 questions · second · newel")
    page.keyboard.press("Alt+1")
    expect(question(page, "first.invalid")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop now", exact=True).click()
    expect(question(page, "first.invalid")).to_have_count(0)
    expect(page).to_have_title("1 question · first · newel")
    question(window, "second.invalid").get_by_role("button", name="Refuse", exact=True).click()
    expect(answers(window).last).to_contain_text("Two.")


def test_no_question_outlives_the_server_that_asked_it(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("first", bash(fetch("asked.invalid")), {"content": "Interrupted."}),
            answering("again", bash(fetch("asked.invalid")), {"content": "Answered."}),
        ),
        **IN_SANDBOX,
    )
    page = bench.page()
    open_chat(page)
    say(page, "first")
    expect(question(page, "asked.invalid")).to_be_visible()
    bench.kill()
    bench.start()
    expect(answers(page).last).to_contain_text("Interrupted.")
    expect(question(page, "asked.invalid")).to_have_count(0)
    say(page, "again")
    question(page, "asked.invalid").get_by_role("button", name="Refuse", exact=True).click()
    expect(answers(page).last).to_contain_text("Answered.")
    assert REFUSED in printed(bench)[0]


def test_an_agent_asks_in_its_tab_while_it_works_on_its_contract(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("Fetch it", bash(fetch("agent.invalid")), {"content": "Done."})), **IN_SANDBOX
    )
    page = bench.page()
    open_chat(page)
    open_agent(page, "Fetch it")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(question(page, "agent.invalid")).to_be_visible()
    page.keyboard.press("Alt+1")
    page.get_by_role("button", name="Agent-1 is waiting for your answer").click()
    question(page, "agent.invalid").get_by_role(
        "button", name="Allow in this conversation", exact=True
    ).click()
    expect(answers(page).filter(has_text="Done.")).to_be_visible()  # a verdict follows


def test_a_name_that_looks_like_another_one_and_a_very_long_one_are_shown_as_they_are(
    workbench: Make,
) -> None:
    long = ".".join(["a" * 60] * 4) + ".invalid"
    bench = workbench(
        scenarios(answering("go", bash(fetch("xn--pple-43d.invalid", f"{long}:81")), {"content": "Done."})),
        **IN_SANDBOX,
    )
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "go")
    asked = question(page, "xn--pple-43d.invalid")
    expect(asked).to_contain_text("letters of other scripts")
    asked.get_by_role("button", name="Refuse", exact=True).click()
    asked = page.get_by_role("form", name="Allow a connection to “aaa")
    expect(asked.get_by_label("Server", exact=True)).to_have_text(f"{long}:81")
    assert find_flaws(page) == []


def test_an_answer_that_cannot_be_saved_is_said_and_holds(workbench: Make) -> None:
    bench = workbench(
        scenarios(answering("go", bash(fetch("kept.invalid", "kept.invalid")), {"content": "Done."})),
        **IN_SANDBOX,
    )
    damaged = bench.newel.home / ".newel" / "sandbox_servers.json"
    damaged.write_text('{"damaged')
    page = bench.page()
    open_chat(page)
    say(page, "go")
    question(page, "kept.invalid").get_by_role(
        "button", name="Always allow in this project", exact=True
    ).click()
    expect(
        page.get_by_text(f"Not saved for this project: the server kept.invalid. {damaged} is damaged")
    ).to_be_visible()
    expect(answers(page).last).to_contain_text("Done.")
    assert [REFUSED in line for line in printed(bench)] == [False, False]
    page.reload()
    expect(page.get_by_text("Not saved for this project: the server kept.invalid.")).to_be_visible()
    assert damaged.read_text() == '{"damaged'


WEATHER = {"command": sys.executable, "args": ["-IS", "-c", ROGUE.read_text(), "fetch"], "sandbox": True}
TOOL_SERVERS = {"own": {"weather": WEATHER}, **IN_SANDBOX}


def test_a_tool_server_in_a_sandbox_asks_in_the_tab_that_called_it(workbench: Make) -> None:
    """Its keys are not those of commands, so it is another question."""
    bench = workbench(
        scenarios(
            answering("command", bash(fetch("forecast.invalid")), {"content": "One."}),
            answering("ask", call("weather__act", server="forecast.invalid"), {"content": "Two."}),
            answering("other", call("weather__act", server="forecast.invalid"), {"content": "Three."}),
        ),
        **TOOL_SERVERS,
    )
    page = bench.page()
    expect(page.get_by_role("button", name="Tools")).to_contain_text("1✓")
    open_chat(page)
    say(page, "command")
    question(page, "forecast.invalid").get_by_role(
        "button", name="Allow in this conversation", exact=True
    ).click()
    expect(answers(page).last).to_contain_text("One.")
    say(page, "ask")
    asked = question(page, "forecast.invalid")
    expect(asked).to_contain_text("The MCP server weather, in a sandbox, wants to reach this server")
    open_chat(page)
    expect(question(page, "forecast.invalid")).to_have_count(0)
    page.keyboard.press("Alt+1")
    asked.get_by_role("button", name="Allow in this conversation", exact=True).click()
    expect(answers(page).last).to_contain_text("Two.")
    assert "502" in printed(bench)[-1]
    page.keyboard.press("Alt+2")
    expect(answers(page)).to_have_count(0)  # the other tab is shown now
    say(page, "other")
    question(page, "forecast.invalid").get_by_role("button", name="Refuse", exact=True).click()
    expect(answers(page).last).to_contain_text("Three.")
    assert REFUSED in printed(bench)[-1]


def test_a_tool_server_that_works_for_nobody_or_for_several_tabs_is_refused(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering(
                "later", call("weather__act", server="later.invalid", later=True), {"content": "Zero."}
            ),
            answering("first", call("weather__act", server="first.invalid"), {"content": "One."}),
            answering("second", call("weather__act", server="second.invalid"), {"content": "Two."}),
        ),
        **TOOL_SERVERS,
    )
    page = bench.page()
    expect(page.get_by_role("button", name="Tools")).to_contain_text("1✓")
    open_chat(page)
    say(page, "later")
    expect(answers(page).last).to_contain_text("Zero.")
    (bench.newel.project / "go").touch()
    wait_until((bench.newel.project / "reason").exists, "the refusal")
    wait_until((bench.newel.project / "reason").read_text, "the refusal")
    assert REFUSED in (bench.newel.project / "reason").read_text()
    say(page, "first")
    asked = question(page, "first.invalid")
    expect(asked).to_be_visible()
    open_chat(page)
    say(page, "second")
    expect(answers(page).last).to_contain_text("Two.")
    assert REFUSED in printed(bench)[-1]
    page.keyboard.press("Alt+1")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop now", exact=True).click()
    expect(asked).to_have_count(0)
