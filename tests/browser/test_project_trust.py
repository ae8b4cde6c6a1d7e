"""If these fail, a user of the page cannot read or decide what a project brings, or trusts something else than they have read."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, answers, find_flaws, message_box, open_chat, open_menu, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.hook_scripts import group, hook, of_project
from tests.served import wait_until

Make = Callable[..., Workbench]

TITLE = "Trust what this project brings?"
NOTE = "are used only if you trust them"


def make_bench(workbench: Make) -> Workbench:
    return workbench(scenarios(answering("go", {"content": "Done."})))


def bring_hook(bench: Workbench, command: str) -> None:
    of_project(bench.newel, Stop=[group(hook(command))])


def note(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text=NOTE)


def opened(page: Page) -> Locator:
    note(page).get_by_role("button", name="Show them", exact=True).click()
    dialog = page.get_by_role("dialog", name=TITLE, exact=True)
    expect(dialog.get_by_role("button", name="Trust these", exact=True)).to_be_visible()
    return dialog


def test_what_waits_is_shown_and_trusted_by_keyboard_and_runs_in_the_open_chat(workbench: Make) -> None:
    bench = make_bench(workbench)
    page = bench.page()
    open_chat(page)
    say(page, "go")
    expect(answers(page).last).to_contain_text("Done.")
    done = bench.newel.home / "stopped"
    script = bench.newel.project / "check.sh"
    script.write_text(f"touch {done}\n")
    bring_hook(bench, 'sh "$CLAUDE_PROJECT_DIR/check.sh" \u202e\u200b\x1b[8m # <b>')
    page.evaluate("dispatchEvent(new Event('focus'))")
    note(page).get_by_role("button", name="Show them", exact=True).press("Enter")
    dialog = page.get_by_role("dialog", name=TITLE, exact=True)
    expect(dialog.get_by_role("heading", name=TITLE, exact=True)).to_be_focused()
    expect(dialog).to_contain_text(".claude/settings.json runs, as you and outside of the sandbox:")
    expect(dialog).to_contain_text("at each Stop:")
    expect(dialog).to_contain_text('sh "$CLAUDE_PROJECT_DIR/check.sh" <U+202E><U+200B><U+001B>[8m # <b>')
    expect(dialog).to_contain_text(f"with {script}")
    for name in ("Close", "Not now", "Trust these"):
        page.keyboard.press("Tab")
        expect(dialog.get_by_role("button", name=name, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(note(page)).to_have_count(0)
    expect(message_box(page)).to_be_focused()
    assert not done.exists()
    say(page, "go")
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last).to_contain_text("Done.")
    wait_until(done.exists, "the hook")
    assert "untrusted" not in bench.newel("hooks").stdout


def test_what_changes_while_it_is_read_is_shown_again_and_not_trusted(workbench: Make) -> None:
    bench = make_bench(workbench)
    bring_hook(bench, "touch first")
    page = bench.page()
    dialog = opened(page)
    bring_hook(bench, "touch second")
    dialog.get_by_role("button", name="Trust these", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text(
        "has changed since it was shown, so nothing was decided"
    )
    expect(dialog).to_contain_text("touch second")
    expect(dialog).not_to_contain_text("touch first")
    assert "untrusted" in bench.newel("hooks").stdout
    dialog.get_by_role("button", name="Trust these", exact=True).click()
    expect(dialog).to_have_count(0)
    assert "untrusted" not in bench.newel("hooks").stdout
    bench.complaints[:] = [each for each in bench.complaints if "409" not in each]  # the browser logs it


def test_not_now_decides_nothing_and_something_else_is_asked_about_again(workbench: Make) -> None:
    bench = make_bench(workbench)
    bring_hook(bench, "touch first")
    page = bench.page()
    opened(page).get_by_role("button", name="Not now", exact=True).click()
    expect(note(page)).to_have_count(0)
    assert "untrusted" in bench.newel("hooks").stdout
    page.evaluate("dispatchEvent(new Event('focus'))")
    bring_hook(bench, "touch second")
    page.evaluate("dispatchEvent(new Event('focus'))")
    opened(page)
    page.keyboard.press("Escape")
    expect(note(page)).to_have_count(0)
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="Trust…").click()
    page.get_by_role("button", name="Never use these", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert bench.newel("hooks").stdout.count("declined") == 1
    page.reload()
    expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
    expect(note(page)).to_have_count(0)


def test_the_question_is_readable_in_each_look(workbench: Make) -> None:
    """A narrow window scrolls, and the answers come after all that they are about."""
    bench = make_bench(workbench)
    bring_hook(bench, "npx prettier --check " + "src/a-long-name/" * 12 + "; true" + " " * 300 + "rm -rf ~/x")
    entry = {"command": "npx", "args": ["-y", "@example/tracker"], "env": {"COLOUR": "blue"}}
    (bench.newel.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"tracker": entry}}))
    skill = bench.newel.project / ".claude" / "skills" / "deploy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: deploy\ndescription: Deploy.\n---\n")
    bench.kill()
    bench.start()
    page = bench.page(**NARROW)
    expect(note(page)).to_be_visible()
    assert find_flaws(page) == []
    dialog = opened(page)
    expect(dialog).to_contain_text("names the MCP server 'tracker'")
    expect(dialog).to_contain_text("COLOUR = blue")
    expect(dialog).to_contain_text("stays when they change, and covers new ones")
    assert find_flaws(page) == []
    last = dialog.get_by_text("covers new ones").bounding_box()
    answer = dialog.get_by_role("button", name="Trust these", exact=True).bounding_box()
    assert last is not None
    assert answer is not None
    assert last["y"] + last["height"] <= answer["y"]
    assert dialog.evaluate("(it) => it.scrollHeight - it.clientHeight") == 0, "two scroll bars"


def test_more_than_a_question_can_show_is_not_asked_about(workbench: Make) -> None:
    bench = make_bench(workbench)
    of_project(bench.newel, Stop=[group(*(hook(f"true {number}") for number in range(70)))])
    page = bench.page()
    expect(page.get_by_text("so nothing of them is used")).to_be_visible()
    expect(page.get_by_role("button", name="Show them", exact=True)).to_have_count(0)


def test_the_approval_mode_is_shown_once(workbench: Make) -> None:
    bench = workbench(scenarios(), "--approve", "ask")
    for width in (1280, 400):
        page = bench.page(width=width)
        open_chat(page)
        open_menu(page)
        expect(page.get_by_role("button", name="Approval mode: ask", exact=True)).to_be_visible()
        expect(page.get_by_text("ask", exact=True)).to_have_count(1)
        page.get_by_role("button", name="Permissions", exact=True).click()
        expect(page.get_by_role("dialog")).not_to_contain_text("Approval mode")
