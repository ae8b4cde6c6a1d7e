"""If these fail, a key that an input method needs to write Chinese, Japanese or Korean stops a run, answers for the user, or
discards words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from tests.browser.bench import Workbench, answers, expect_end_of_run, message_box, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import WAIT, answering, call, scenarios

Make = Callable[..., Workbench]


def compose(page: Page, text: str, key: str) -> None:
    """Write a text with an input method, and press a key before it is accepted. The browser asks the method about the key first."""
    session: Any = page.context.new_cdp_session(page)
    session.send(
        "Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)}
    )
    session.send(
        "Input.dispatchKeyEvent",
        {"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": 229},
    )
    session.send("Input.insertText", {"text": text})
    session.detach()


def test_escape_of_an_input_method_stops_no_run_and_discards_no_edit(workbench: Make) -> None:
    bench = workbench(scenarios(answering("wait for me", call("bash", command=WAIT))))
    page = bench.page()
    open_chat(page)
    say(page, "wait for me")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    message_box(page).focus()
    compose(page, "東京", "Escape")
    message_box(page).press("Enter")
    queue = page.get_by_role("region", name="Queued messages")
    expect(queue).to_contain_text("東京")
    (bench.newel.project / "go").touch()
    expect(answers(page).get_by_text("Yes.")).to_be_visible()
    expect_end_of_run(page)
    expect(page.get_by_role("log")).not_to_contain_text("Stopped")

    page.get_by_role("button", name="Edit message").first.click()
    edit = page.get_by_role("textbox", name="Edit your message")
    compose(page, "京都", "Escape")
    expect(edit).to_have_value("wait for me京都")


def test_enter_of_an_input_method_chooses_and_answers_nothing(workbench: Make) -> None:
    asks = answering("touch it", call("bash", command="touch x"), {"content": "As you like."})
    page = workbench(scenarios(asks), "--approve", "ask").page()
    open_chat(page)
    page.keyboard.press("Control+k")
    compose(page, "モデル", "Enter")
    commands = page.get_by_role("dialog", name="Commands")
    expect(commands).to_contain_text("No matches.")
    page.keyboard.press("Escape")
    expect(commands).to_be_hidden()

    say(page, "touch it")
    word = page.get_by_role("textbox", name="What to do instead")
    word.click()
    compose(page, "東京", "Enter")
    expect(page.get_by_role("button", name="No", exact=True)).to_be_enabled()
    word.press_sequentially("で")
    word.press("Enter")
    expect(page.get_by_text("As you like.")).to_be_visible()
    page.get_by_role("button", name="bash touch x").click()
    expect(page.get_by_label("Output", exact=True)).to_contain_text("東京で")
