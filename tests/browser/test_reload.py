"""If these fail, a reload, a killed server or a second window loses or repeats part of a chat."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

from tests.browser.bench import Workbench, answers, expect_end_of_run, message_box, open_agent, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import WAIT, answering, scenarios
from tests.support import bash

Make = Callable[..., Workbench]

WHOLE = "begin " + "word " * 30 + "end"

WHOLE_STEP = {"token_delay_ms": 40, "response": {"content": WHOLE}}


@pytest.mark.core
def test_a_reload_during_an_answer_loses_nothing(workbench: Make) -> None:
    page = workbench(scenarios(answering("tell me slowly", WHOLE_STEP))).page()
    open_chat(page)
    say(page, "tell me slowly")
    expect(answers(page)).to_contain_text("begin word word")
    page.reload()
    expect(answers(page)).to_contain_text("begin word word", timeout=2_000)
    expect(answers(page)).to_have_text(WHOLE)
    expect(answers(page)).to_have_count(1)


def test_a_restarted_server_restores_the_conversation_and_continues_it(workbench: Make) -> None:
    bench = workbench(scenarios(answering("count", bash("echo ran >> count; sleep 0.3"), WHOLE_STEP)))
    page = bench.page()
    open_chat(page)
    say(page, "count it")
    expect(answers(page).last).to_contain_text("begin word word")
    bench.kill()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    expect(page.get_by_text("If Newel has stopped, start it again")).to_be_visible()
    message_box(page).fill("a draft meanwhile")
    bench.start()
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()
    expect(answers(page).last).to_contain_text(WHOLE)
    expect(page.get_by_role("article", name="You")).to_have_count(1)
    expect(message_box(page)).to_have_value("a draft meanwhile")
    assert (bench.newel.project / "count").read_text() == "ran\n"


@pytest.mark.core
def test_messages_sent_offline_are_sent_once_after_reconnecting(workbench: Make) -> None:
    bench = workbench(scenarios())
    page = bench.page()
    open_chat(page)
    say(page, "hello")
    expect(answers(page)).to_have_count(1)
    expect_end_of_run(page)  # else the next message is queued
    bench.kill()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    say(page, "are you there")
    expect(page.get_by_role("article", name="You").last).to_contain_text("sending")
    bench.start()
    expect(answers(page)).to_have_count(2)
    expect(page.get_by_role("article", name="You")).to_have_count(2)
    expect(page.get_by_text("· sending")).to_have_count(0)


def test_unacknowledged_messages_are_sent_again_after_a_reload_and_only_once(
    workbench: Make,
) -> None:
    bench = workbench(scenarios())
    page = bench.page()
    open_chat(page)
    say(page, "hello")
    expect(answers(page)).to_have_count(1)
    assert bench.process is not None
    bench.process.send_signal(signal.SIGSTOP)  # it reads nothing now, and gets this later
    say(page, "once")
    address = page.url
    page.goto("about:blank")
    bench.process.send_signal(signal.SIGCONT)
    page.goto(address)
    expect(answers(page)).to_have_count(2)
    bench.kill()  # this never reaches it
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    page.locator("input[type=file]").set_input_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"It is 4711."}
    )
    page.get_by_role("button", name="Remove notes.txt").wait_for()
    say(page, "twice")
    page.goto("about:blank")
    bench.start()
    page.goto(address)
    expect(answers(page)).to_have_count(3)
    you = page.get_by_role("article", name="You")
    expect(you).to_have_text(["Youhello", "Youonce", re.compile("^Youtwicenotes.txt")])
    assert "4711" in str(bench.newel.requests[-1]["messages"][-1])


def test_two_windows_show_the_same_conversation(workbench: Make) -> None:
    bench = workbench(
        scenarios(
            answering("tell me slowly", WHOLE_STEP), answering("other", {"content": "From the other window."})
        )
    )
    one = bench.page()
    open_chat(one)
    say(one, "tell me slowly")
    other = bench.page(one.context)
    other.goto(one.url)
    expect(answers(other)).to_contain_text("begin word")
    expect(answers(one)).to_have_text(WHOLE)
    expect(answers(other)).to_have_text(WHOLE)
    say(other, "other")
    for page in (one, other):
        expect(answers(page).last).to_have_text("From the other window.")
        expect(page.get_by_role("article", name="You")).to_have_count(2)


def test_a_tab_closed_in_one_window_closes_in_the_other(workbench: Make) -> None:
    bench = workbench(scenarios(answering("Wait", bash("sleep 20"))))
    one = bench.page()
    open_chat(one)
    message_box(one).fill("a draft")
    open_agent(one, "Wait long")
    one.get_by_role("button", name="Start", exact=True).click()
    other = bench.page()
    expect(other.get_by_role("tab")).to_have_count(2)
    other.keyboard.press("Alt+2")
    expect(other.locator(".agent-bar .badge")).to_have_text("Running")
    one.keyboard.press("Alt+w")
    one.get_by_role("button", name="Stop and close").click()
    for page in (one, other):
        expect(page.get_by_role("tab")).to_have_count(1)
    expect(message_box(other)).to_be_visible()
    one.keyboard.press("Alt+w")
    one.get_by_role("dialog", name="Close Chat?").get_by_role(
        "button", name="Close"
    ).click()  # it has a draft
    for page in (one, other):
        expect(page.get_by_role("heading", name="New chat")).to_be_visible()
        expect(page).to_have_title("newel")


def test_a_background_tab_shows_that_it_has_news(workbench: Make) -> None:
    page = workbench(
        scenarios(answering("soon", {"token_delay_ms": 100, "response": {"content": "Here it is now."}}))
    ).page()
    open_chat(page)
    say(page, "soon")
    open_chat(page)
    tab = page.get_by_role("tab", name="soon")
    expect(tab).to_contain_text("unread")
    tab.click()
    expect(page.get_by_text("Here it is now.")).to_be_visible()
    expect(tab).not_to_contain_text("unread")


def test_a_restart_keeps_what_is_unread_and_what_is_not(workbench: Make) -> None:
    waits, told = bash(f"{WAIT}; rm go"), {"content": "Here it is now."}
    bench = workbench(scenarios(answering("soon", waits, told, waits, told)))
    page = bench.page()
    go = bench.newel.project / "go"
    for words in ("hello", "hello again"):
        open_chat(page)
        say(page, words)
        expect(answers(page)).to_have_text("Yes.")
        expect_end_of_run(page)
    open_chat(page)
    say(page, "soon")
    hello, soon = page.get_by_role("tab", name="hello", exact=True), page.get_by_role("tab", name="soon")
    hello.click()
    go.touch()
    expect(soon).to_contain_text("unread")
    expect(soon).not_to_contain_text("Running")
    for _ in range(2):
        bench.kill()
        expect(page.get_by_text("Reconnecting…")).to_be_visible()
        bench.start()
        expect(page.get_by_text("Reconnecting…")).to_be_hidden()
        expect(soon).to_contain_text("unread")
        expect(page.get_by_role("tab", name="hello again")).not_to_contain_text("unread")
    soon.click()
    expect(answers(page).last).to_have_text(
        "Here it is now."
    )  # before that, the message box is that of the other tab
    say(page, "soon again")
    hello.click()
    go.touch()
    expect(soon).to_contain_text("unread")


def test_a_click_on_the_middle_of_a_tab_never_closes_it(workbench: Make) -> None:
    """The tab shrinks when its badge disappears, and the close button would move under the pointer."""
    page = workbench(
        scenarios(answering("soon", {"token_delay_ms": 100, "response": {"content": "Here it is now."}}))
    ).page()
    open_chat(page)
    say(page, "soon")
    open_chat(page)
    tab = page.get_by_role("tab", name="soon")
    expect(tab).to_contain_text("Running")
    middle = tab.evaluate(
        "(tab) => { const box = tab.getBoundingClientRect(); return box.left + box.width / 2; }"
    )
    expect(tab).not_to_contain_text("Running")
    close = tab.locator(".tab-close").evaluate("(close) => close.getBoundingClientRect().left")
    assert middle < close


def test_the_page_follows_new_output_only_when_scrolled_to_the_end(workbench: Make) -> None:
    lines = {
        "token_delay_ms": 10,
        "response": {"content": "\n\n".join(f"Line {number}." for number in range(80))},
    }
    page = workbench(scenarios(answering("lines", lines))).page(height=500)
    open_chat(page)
    say(page, "lines")
    log = page.locator(".log")
    expect(page.get_by_text("Line 30.", exact=True)).to_be_attached()
    assert log.evaluate("(log) => log.scrollHeight - log.scrollTop - log.clientHeight") < 40
    log.hover()
    page.mouse.wheel(0, -4_000)
    expect(page.get_by_text("Line 0.", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("button", name="New messages")).to_be_visible()
    expect(page.get_by_text("Line 60.", exact=True)).to_be_attached()
    expect(page.get_by_text("Line 0.", exact=True)).to_be_in_viewport()
    page.get_by_role("button", name="New messages").click()
    expect(page.get_by_text("Line 79.", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("button", name="Scroll to end")).to_be_hidden()


@pytest.mark.core
def test_without_the_token_the_page_explains_how_to_open_it_and_the_url_works(workbench: Make) -> None:
    bench = workbench(scenarios())
    page = bench.context().new_page()
    page.goto(bench.url.partition("#")[0])
    expect(page.get_by_text("Sign in with the address that Newel printed")).to_be_visible()
    page.goto(bench.url)
    expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
    assert "token" not in page.url


GROWN = """Before [a link][1].

- one
- two, which
  goes on
  - inner
  - `code`

- loose *now*
1. first
2. second

> quoted
> - in it

| a | b |
|---|--:|
| 1 | 2 |

```python
def one():
    return "`"
```
Setext
------
- an item with

  ```sh
  echo 1
  ```
- last

- [x] a task that is *done*
- [ ] a task
  - [X] within it, and `[ ] code` stays code

"""


@pytest.mark.parametrize(
    "end", ["", "[1]: https://example.org/"], ids=["as it came", "a link's address last"]
)
def test_streamed_text_looks_the_same_after_a_reload(workbench: Make, end: str) -> None:
    grown = {"token_delay_ms": 4, "response": {"content": GROWN * 2 + end}}
    page = workbench(scenarios(answering("grow", grown))).page()
    open_chat(page)
    say(page, "grow")
    whole = page.locator(".prose .code")  # a code block gets its button when it is complete
    expect(whole).to_have_count(4)
    expect(page.locator(".assistant .actions:not([hidden])")).to_have_count(1)  # the block is complete
    shown = page.locator(".prose").inner_html()
    page.reload()
    expect(whole).to_have_count(4)
    assert page.locator(".prose").inner_html() == shown
    expect(page.locator(".prose .task").nth(0)).to_have_text("☑ a task that is done")
    expect(page.locator(".prose .task").nth(1)).to_have_text(
        re.compile(r"☐ a task\s+☑ within it, and \[ \] code stays code")
    )
