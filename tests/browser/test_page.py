"""What must hold on every screen: nothing foreign runs, everybody can use it, it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.bench import (
    Workbench,
    answers,
    open_agent,
    open_chat,
    say,
    spills,
    violations,
    write_servers,
)
from tests.browser.scenarios import WORK, answering, call, scenarios
from tests.support import bash

Make = Callable[..., Workbench]

PROBES = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror='window.pwned=1'>",
    "<svg onload='window.pwned=1'></svg>",
    "<a href='javascript:window.pwned=1'>link</a>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<details open ontoggle='window.pwned=1'>x</details>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror='window.pwned=1'>",
    "\"'><body onload='window.pwned=1'>",
)
LINKS = (
    "[one](javascript:window.pwned=1) [two](data:text/html,<script>pwned=1</script>) "
    "![picture](https://remote.invalid/x.png) ![inline](data:image/svg+xml,<svg/onload=pwned=1>)"
)


def test_text_of_models_tools_and_servers_is_inert(workbench: Make) -> None:
    probes = "\n\n".join(PROBES)
    bench = workbench(
        scenarios(
            answering(
                "script",
                {
                    "reasoning_content": probes,
                    "content": f"{probes}\n\n{LINKS}",
                    **call(PROBES[1], **{PROBES[0]: PROBES[2]}),
                },
                bash("cat probes; exit 3"),
                {"content": f"```html\n{probes}\n```\n\n| {PROBES[1]} |\n|---|\n| {PROBES[0]} |"},
            )
        )
    )
    (bench.newel.project / "probes").write_text(probes)
    write_servers(bench.newel.project, {PROBES[1]: {"command": PROBES[2]}})
    bench.kill()
    bench.start()
    page = bench.page()
    open_chat(page)
    say(page, f"{PROBES[1]} script")
    expect(page.locator("td")).to_be_visible()
    for line in page.locator(".call-head").all():
        line.click()
    page.keyboard.press("Alt+t")
    page.wait_for_timeout(200)  # for what would run, if anything did
    assert page.evaluate("window.pwned") is None
    assert page.locator("#page :is(script, iframe, form form, img[src*='x'], svg[onload])").count() == 0
    assert all(link.get_attribute("href") is None for link in page.get_by_text("one", exact=True).all())
    remote = page.get_by_role("link", name="Image: picture")
    expect(remote).to_have_attribute("rel", "noopener noreferrer")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tab")).not_to_contain_text("Running")
    page.get_by_role("tab").press("Delete")
    page.keyboard.press("Alt+o")
    expect(page.get_by_role("option")).to_contain_text("<img src=x")
    assert page.evaluate("window.pwned") is None


def screens(bench: Workbench, page: Page) -> Iterator[str]:
    """Walks through all screens; the name of each where it stands."""
    yield "nothing open"
    open_chat(page)
    yield "an empty chat"
    say(page, "add a flag")
    page.get_by_role("form", name="Allow").wait_for()
    yield "a question"
    for _ in range(3):
        page.get_by_role("button", name="Run once").click()
        page.wait_for_timeout(150)
    expect(page.get_by_role("cell", name="cli.py")).to_be_visible()
    for name in ("edit cli.py", "bash echo one"):
        page.get_by_role("button", name=name).click()
    yield "an answer, calls unfolded"
    open_agent(page, "Review the files")
    yield "a contract"
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".agent-bar .badge")).to_have_text("Failed")
    yield "an agent that failed"
    page.keyboard.press("Alt+t")
    page.get_by_role("region", name="time", exact=True).wait_for()
    yield "the tools"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("option").first.wait_for()
    yield "the palette"
    page.keyboard.press("Escape")
    page.get_by_role("tab").last.focus()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    yield "the keys"
    page.keyboard.press("Escape")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400)])
def test_every_screen_is_accessible_and_fits(workbench: Make, scheme: str, width: int) -> None:
    fault = {"fault": {"kind": "status", "status": 400}, "response": {"content": ""}}
    bench = workbench(scenarios(WORK, answering("Review", fault)), "--approve", "ask")
    (bench.newel.project / "cli.py").write_text("def main():\n    run(source)\n")
    write_servers(bench.newel.project, {"time": {"command": "mcp-server-time"}})
    bench.kill()
    bench.start()
    page = bench.page(scheme=scheme, width=width)
    for screen in screens(bench, page):
        assert (screen, violations(page)) == (screen, [])
        assert (screen, spills(page)) == (screen, 0)


def test_everything_can_be_done_with_the_keyboard(workbench: Make) -> None:
    page = workbench(scenarios(answering("hello", {"content": "Good day."}))).page()
    keys = page.keyboard
    keys.press("Alt+n")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    keys.type("hello")
    keys.press("Enter")
    expect(answers(page)).to_contain_text("Good day.")
    keys.press("Control+k")
    keys.type("rename")
    keys.press("Enter")
    keys.press("Control+a")
    keys.type("Greetings")
    keys.press("Enter")
    expect(page.get_by_role("tab", name="Greetings")).to_be_visible()
    keys.press("Alt+a")
    expect(page.get_by_role("textbox", name="Contract", exact=True)).to_be_focused()
    page.get_by_role("tab", name="Agent-1").focus()
    keys.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Greetings")).to_be_focused()
    keys.press("Enter")
    expect(answers(page)).to_be_visible()
    keys.press("Alt+2")
    page.get_by_role("tab", name="Agent-1").focus()
    keys.press("Delete")
    expect(page.get_by_role("tab")).to_have_count(1)
    # By Tab alone from the top: every stop can be seen, and the message's box is among them.
    page.evaluate("document.activeElement.blur()")
    seen: set[str] = set()
    for _ in range(30):
        keys.press("Tab")
        stop = page.evaluate(
            "(() => { const box = document.activeElement.getBoundingClientRect(); const style ="
            " getComputedStyle(document.activeElement); return [document.activeElement.getAttribute('aria-label') ??"
            " document.activeElement.textContent.trim(), box.width * box.height > 0,"
            " style.outlineStyle !== 'none' || document.activeElement.matches('textarea, body')]; })()"
        )
        assert stop[1:] == [True, True], stop
        seen.add(stop[0])
    assert {"New chat", "New agent", "Message", "Copy message", "Commands (Ctrl+K)"} <= seen


def test_colours_are_as_the_system_has_them_until_they_are_switched(workbench: Make) -> None:
    page = workbench(scenarios()).page(scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(22, 24, 27)"
    page.get_by_role("button", name="Colours").click()
    assert page.evaluate(ground) == "rgb(251, 251, 249)"
    page.reload()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert page.evaluate(ground) == "rgb(251, 251, 249)"


def test_an_address_of_a_tab_leads_there(workbench: Make) -> None:
    page = workbench(scenarios()).page()
    open_chat(page)
    say(page, "the first")
    expect(answers(page)).to_have_count(1)
    first = page.url
    open_chat(page)
    assert page.url != first
    page.goto(first)
    expect(page.get_by_role("tab", name="the first")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.get_by_role("tab", name="Chat", exact=True)).to_have_attribute("aria-selected", "true")
