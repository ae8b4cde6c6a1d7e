"""If these fail, a user decides on a name or text that hides a part of itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page

from tests.browser.bench import Workbench, open_chat, say
from tests.browser.expecting import expect
from tests.browser.proposals import add_file, ask, proposal_scenarios, propose, replace_line
from tests.browser.review_scenarios import hunks, sidebar
from tests.browser.scenarios import ASKING, PROBE, answering, call, scenarios
from tests.support import bash

Make = Callable[..., Workbench]
SIGNS = {
    "escape": "\x1b[8mA\x1b[0m",
    "title": "\x1b]0;B\x07",
    "device": "\x1bPC\x1b\\",
    "c1": "\x9b8mD\x90E\x9c",
    "return": "F\rG",
    "width": "H\u200b\u2060\ufeff\u180e",
    "turn": "I\u202e\u2066\u061c",
    "tags": "J\U000e0041\U000e007f",
    "selectors": "K\ufe00\U000e0100",
    "hyphen": "L\u00ad\u034f",
    "fillers": "M\u3164\u115f\uffa0\u2800",
    "lines": "N\u2028\u0085\x0b",
    "private": "O\ue000",
}
EVIL = " ".join(SIGNS.values())
SUBTLE = "I\u202e\u2066 H\u200b J\U000e0041 K\ufe00 L\u00ad M\u3164"
"""Without the signs that a configuration or a server's question may not have at all."""
LETTERS = "ABCDEFGHIJKLMNO"
NAME = "n " + "".join(text for name, text in SIGNS.items() if name != "device") + ".md"
PICTURE = "👩\u200d🔬❤\ufe0f"

_LOOK = """() => {
  const hidden = /[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff9-\\ufffb\\ue000-\\uf8ff]|[\\u{e0000}-\\u{e0fff}]/u;
  const found = [];
  const look = (where, text) => hidden.test(text ?? "") && found.push(`${where}: ${JSON.stringify(text).slice(0, 200)}`);
  look("title", document.title);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (node.nodeType === 3) look(node.parentElement.className || node.parentElement.tagName, node.data);
    else for (const name of ["title", "aria-label", "placeholder", "alt"]) look(`${node.tagName} ${name}`, node.getAttribute(name));
  }
  return found;
}"""


def hidden(page: Page) -> list[str]:
    """The texts, titles and names on the page that contain an invisible character."""
    return page.evaluate(_LOOK)


def test_every_view_of_a_proposal_shows_hidden_characters(workbench: Make) -> None:
    edits = [replace_line(NAME, 1, f"{EVIL}\n"), add_file("made.md", f"{EVIL} {PICTURE}\n")]
    bench = workbench(proposal_scenarios(("go", edits)))
    (bench.newel.project / NAME).write_text(f"one {EVIL}\ntwo {EVIL}\n", newline="")
    page = bench.page()
    job = propose(page, "go")
    for button in ("Files", "Review"):
        page.get_by_role("banner").get_by_role("button", name=button).click()
    expect(hunks(page, "made.md")).to_contain_text("<U+200B>")
    for place, known in {
        "file/made.md": ".inline-hunk",
        f"file/{quote(NAME)}": ".inline-hunk",
        "pending": ".pending-hunk",
        "checkpoints": ".timeline-head",
        f"request/{job['id']}": ".request-hunk",
        f"compare/{job['checkpoint_id']}/{quote(NAME)}": ".compare-body > *",
    }.items():
        page.evaluate("(place) => { location.hash = `#/${place}` }", place)
        expect(page.locator(known).first).to_be_visible()
        assert (place, hidden(page)) == (place, [])
    page.evaluate("(place) => { location.hash = `#/${place}` }", f"file/{quote(NAME)}")
    shown = page.locator(".cm-content").inner_text()
    for letter in LETTERS:
        assert letter in shown
    for sign in (
        "1B",
        "9B",
        "0D",
        "200B",
        "2060",
        "FEFF",
        "180E",
        "202E",
        "061C",
        "E0041",
        "FE00",
        "E0100",
        "00AD",
        "3164",
        "2028",
        "E000",
    ):
        assert re.search(rf"<U\+0*{sign}>", shown), sign
    expect(page.locator(".file-place")).to_contain_text("<U+202E>")
    page.evaluate("location.hash = '#/file/made.md'")
    expect(page.locator(".cm-content")).to_contain_text(PICTURE)
    page.evaluate("location.hash = '#/checkpoints'")
    page.locator(".timeline-head").first.click()
    page.get_by_role("button", name="Roll back…").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("<U+202E>")
    assert hidden(page) == []


def test_approvals_of_commands_servers_and_questions_show_hidden_characters(workbench: Make) -> None:
    command = f"echo {EVIL}"
    source = ASKING["args"][-1].replace(PROBE, f"Which {ascii(SUBTLE)[1:-1]}?")
    asking: dict[str, Any] = {**ASKING, "args": [*ASKING["args"][:-1], source]}
    bench = workbench(
        scenarios(
            answering("run", bash(command), {"content": "Done."}),
            answering("trap", call("asking__trap"), {"content": "Booked."}),
            answering("ask", call("clarify_user", question=f"Which {EVIL}?"), {"content": "Fine."}),
        ),
        "--approve",
        "ask",
        servers={"evil": {"command": "do", "args": [SUBTLE]}},
        own={"asking": asking},
    )
    page = bench.page()
    expect(page.get_by_role("banner").get_by_role("button", name="Tools")).to_contain_text("1✓")
    page.keyboard.press("Alt+t")
    expect(page.get_by_role("region", name="MCP tools")).to_contain_text("<U+202E>")
    assert hidden(page) == []
    page.keyboard.press("Escape")
    open_chat(page)
    say(page, "run")
    card = page.get_by_role("form", name="Allow")
    expect(card.locator("pre")).to_contain_text("<U+001B>[8mA")
    shown = card.locator("pre").inner_text()
    assert all(letter in shown for letter in LETTERS)
    card.get_by_role("button", name="Run once").click()
    expect(page.get_by_text("Done.")).to_be_visible()
    page.locator(".call-head").first.click()
    expect(page.get_by_text("<U+001B>[8mA").first).to_be_visible()
    assert hidden(page) == []
    say(page, "trap")
    page.get_by_role("form", name="Allow").get_by_role("button", name="Run once").click()
    expect(page.get_by_role("form").filter(has_text="Which")).to_contain_text("<U+202E>")
    session = ask(page, "POST", "sessions", {})["session_id"]
    ask(page, "POST", "run", {"session_id": session, "instruction": "ask"})
    expect(sidebar(page).get_by_role("form", name="The agent asks")).to_contain_text("<U+200B>")
    assert hidden(page) == []
