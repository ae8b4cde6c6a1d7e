"""If these fail, a chat shows messages in another order than the model saw, or loses pending ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.bench import NARROW, Workbench, expect_end_of_run, find_flaws, message_box, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import SLOW, answering, scenarios

Make = Callable[..., Workbench]
ENDLESS = answering(
    "tell me endlessly", {"token_delay_ms": 50, "response": {"content": "begin " + "word " * 2000}}
)
AGAIN = answering("and then", {"content": "Then this."})


def spoken(page: Page) -> list[str]:
    """The first words of the log's entries, in order."""
    entries = page.get_by_role("log").locator("article .user-text, article .said")
    return [text.split()[0] for text in entries.all_inner_texts() if text.strip()]


def queue(page: Page) -> Locator:
    return page.get_by_role("region", name="Queued messages")


def waiting(page: Page) -> Locator:
    return queue(page).get_by_role("listitem")


def test_a_message_sent_during_an_answer_is_shown_below_it(workbench: Make) -> None:
    page = workbench(scenarios(SLOW, AGAIN)).page()
    open_chat(page)
    say(page, "tell me slowly")
    expect(page.get_by_text("begin word")).to_be_visible()
    say(page, "and then")
    expect(queue(page)).to_contain_text("queued")
    expect(page.get_by_text("Then this.")).to_be_visible()
    assert spoken(page) == ["tell", "begin", "and", "Then"]
    page.reload()
    expect(page.get_by_text("Then this.")).to_be_visible()
    assert spoken(page) == ["tell", "begin", "and", "Then"]


def test_after_a_stop_a_reload_shows_how_the_run_ended_and_the_queue(workbench: Make) -> None:
    bench = workbench(scenarios(ENDLESS, AGAIN))
    page = bench.page()
    open_chat(page)
    say(page, "tell me endlessly")
    expect(page.get_by_text("begin word")).to_be_visible()
    say(page, "and then")
    expect(waiting(page).get_by_role("button", name="Withdraw")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop now").click()

    def is_held() -> None:
        expect(waiting(page)).to_contain_text("and then")
        expect(queue(page)).to_contain_text("1 held · The run was stopped")
        expect(page.get_by_role("article", name="Assistant")).to_contain_text("Stopped.")
        expect(page.get_by_role("button", name="Continue")).to_be_visible()
        assert spoken(page) == ["tell", "begin"]

    is_held()
    page.reload()
    is_held()
    bench.kill()
    bench.start()
    page.reload()
    is_held()
    second = bench.page()
    expect(waiting(second)).to_contain_text("and then")
    waiting(page).get_by_role("button", name="Send now").click()
    expect(page.get_by_text("Then this.")).to_be_visible()
    expect(waiting(second)).to_have_count(0)
    expect(page.get_by_role("button", name="Continue")).to_have_count(0)


def test_a_graceful_stop_keeps_its_note_over_a_reload_and_the_queue_continues(workbench: Make) -> None:
    page = workbench(scenarios(SLOW, AGAIN)).page()
    open_chat(page)
    say(page, "tell me slowly")
    expect(page.get_by_text("begin word")).to_be_visible()
    say(page, "and then")
    expect(queue(page)).to_contain_text("queued")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    expect(queue(page)).to_contain_text("held")
    page.reload()
    expect(queue(page)).to_contain_text("held")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Then this.")).to_be_visible()
    assert spoken(page) == ["tell", "begin", "and", "Then"]


def test_a_queued_message_can_be_edited_withdrawn_and_sent_now(workbench: Make) -> None:
    bench = workbench(scenarios(ENDLESS, AGAIN))
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "tell me endlessly")
    expect(page.get_by_text("begin word")).to_be_visible()
    say(page, "and thn")
    say(page, "nonsense")
    expect(waiting(page).get_by_role("button", name="Withdraw")).to_have_count(2)
    expect(waiting(page).get_by_role("button", name="Send now")).to_have_count(1)
    assert find_flaws(page) == []
    waiting(page).last.get_by_role("button", name="Withdraw").press("Enter")
    expect(message_box(page)).to_be_focused()  # not lost with the button
    expect(waiting(page)).to_have_count(1)
    message_box(page).fill("draft")
    waiting(page).get_by_role("button", name="Edit").click()
    expect(message_box(page)).to_have_value("and thn\n\ndraft")
    expect(message_box(page)).to_be_focused()
    expect(waiting(page)).to_have_count(0)
    say(page, "and then")
    waiting(page).get_by_role("button", name="Send now").click()
    expect(page.get_by_text("Then this.")).to_be_visible()
    assert "nonsense" not in str(bench.newel.requests)
    assert "and thn" not in str(bench.newel.requests)


def press(button: Locator) -> None:
    """Hold the mouse down on a button: again if it has moved on before it was pressed, as text above it grows."""
    for _ in range(20):
        button.hover()
        button.page.mouse.down()
        if button.evaluate("button => button.matches(':active')"):
            return
        button.page.mouse.up()
    raise AssertionError("the button was never pressed")


@pytest.mark.parametrize("height", [800, 320])  # in the lower window the transcript has to scroll
def test_a_click_on_a_queued_message_counts_while_another_one_is_queued(workbench: Make, height: int) -> None:
    """A button that is replaced or moves while it is pressed gets no click."""
    bench = workbench(scenarios(ENDLESS, AGAIN))
    page = bench.page()
    page.set_viewport_size({"width": 900, "height": height})
    open_chat(page)
    say(page, "tell me endlessly")
    expect(page.get_by_text("begin word")).to_be_visible()
    say(page, "withdraw me")
    other = bench.page(page.context)
    other.goto(page.url)
    expect(waiting(other)).to_have_count(1)
    press(waiting(page).get_by_role("button", name="Withdraw"))
    say(other, "keep me")
    expect(waiting(page)).to_have_count(2)
    page.mouse.up()
    expect(waiting(page)).to_have_count(1)
    expect(waiting(page)).to_contain_text("keep me")


def test_a_press_on_a_button_is_cancelled_by_moving_away(workbench: Make) -> None:
    page = workbench(scenarios(ENDLESS, AGAIN)).page()
    open_chat(page)
    say(page, "tell me endlessly")
    say(page, "keep me")
    press(waiting(page).get_by_role("button", name="Withdraw"))
    page.mouse.move(20, 200)
    page.mouse.up()
    say(page, "keep me, too")
    expect(waiting(page)).to_have_count(2)


def test_no_queued_message_is_lost_by_a_double_click_or_by_closing_its_tab(workbench: Make) -> None:
    """Otherwise a double click withdraws two messages, or closing a tab loses unsent ones."""
    page = workbench(scenarios(ENDLESS, AGAIN)).page()
    open_chat(page)
    say(page, "tell me endlessly")
    expect(page.get_by_text("begin word")).to_be_visible()
    for words in ("one", "two", "three"):
        say(page, words)
    expect(waiting(page).get_by_role("button", name="Withdraw")).to_have_count(3)
    waiting(page).first.get_by_role("button", name="Withdraw").dblclick()
    expect(waiting(page)).to_have_count(2)
    waiting(page).last.get_by_role("button", name="Edit").dblclick()
    expect(message_box(page)).to_have_value("three")
    expect(waiting(page)).to_have_count(1)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop now").click()
    expect(queue(page)).to_contain_text("held")
    expect_end_of_run(page)
    expect(page.get_by_role("alert").filter(has_text="withdrawn")).to_have_count(0)
    page.keyboard.press("Alt+w")
    dialog = page.get_by_role("dialog", name="Close tell me endlessly?")
    expect(dialog).to_contain_text("This discards 1 queued message and your draft.")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(waiting(page)).to_contain_text("two")
    page.keyboard.press("Alt+w")
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_role("tab")).to_have_count(0)


def failing(times: int) -> dict[str, Any]:
    fault = {"kind": "status", "status": 500, "times": times, "headers": {"Retry-After": "1"}}
    return answering("ping", {"fault": fault, "response": {"content": "pong"}})


def test_a_retried_request_is_one_line_and_its_failure_is_shown_once(
    workbench: Make,
) -> None:
    bench = workbench(scenarios(failing(20)))
    bench.kill()
    (bench.newel.home / ".newel/config.toml").write_text("[retry]\nattempts = 3\n")
    bench.start()
    page = bench.page()
    open_chat(page)
    say(page, "ping")
    tries = page.locator(".told", has=page.locator(".icon-again"))
    expect(tries).to_contain_text(re.compile(r"\. Retrying in \d+ s \(attempt [23] of 3\)\.$"))
    expect(page.get_by_role("status").filter(has_text="Retrying (attempt")).to_be_visible()
    expect(tries).to_contain_text("attempt 3 of 3")
    expect(tries).to_have_count(1)
    expect(page.get_by_role("button", name="Retry")).to_be_visible()

    def is_told() -> None:
        assert [text.strip() for text in page.locator(".told-words").all_inner_texts()] == [
            "Failed after 3 attempts."
        ]
        causes = page.locator(".cause:visible").all_inner_texts()
        assert len(causes) == 1
        assert causes[0].strip().endswith(".")
        order = page.get_by_role("log").evaluate(
            "log => [...log.querySelectorAll('.entry')].map(each => each.className)"
        )
        assert [name for name in order if name] == ["entry user", "entry told info", "entry assistant"]

    is_told()
    page.reload()
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    is_told()


def test_a_request_that_succeeded_after_retries_says_what_failed(workbench: Make) -> None:
    page = workbench(scenarios(failing(1))).page()
    open_chat(page)
    say(page, "ping")
    expect(page.get_by_text("pong")).to_be_visible()
    for _ in range(2):
        expect(page.locator(".told-words")).to_contain_text(
            re.compile(r"\. The model answered on attempt 2 of 10\.$")
        )
        page.reload()


@pytest.mark.core
def test_escape_closes_the_sheet_over_a_run_and_does_not_stop_the_run(workbench: Make) -> None:
    """Otherwise closing the review on a phone stops the chat below it."""
    page = workbench(scenarios(ENDLESS)).page(**NARROW)
    open_chat(page)
    say(page, "tell me endlessly")
    expect(page.get_by_text("begin word")).to_be_visible()
    page.keyboard.press("Alt+v")
    review = page.get_by_role("complementary", name="Review", exact=True)
    expect(review).to_be_visible()
    page.keyboard.press("Escape")
    expect(review).to_be_hidden()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()


def test_the_answer_to_an_edited_message_is_in_view(workbench: Make) -> None:
    """Otherwise what was just asked for appears below the fold, where the user had scrolled up to edit."""
    lines = "\n\n".join(f"Line {number}." for number in range(80))
    bench = workbench(
        scenarios(
            answering("ping", {"content": lines}), answering("again", {"content": f"{lines}\n\nTheend."})
        )
    )
    page = bench.page()
    open_chat(page)
    say(page, "ping")
    expect(page.get_by_text("Line 79.", exact=True)).to_be_in_viewport()
    message = page.get_by_role("article", name="You")
    message.hover()
    message.get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit your message").fill("again")
    page.get_by_role("textbox", name="Edit your message").press("Enter")
    expect(page.get_by_text("Theend.")).to_be_in_viewport()
    expect(page.get_by_role("button", name="New messages")).to_be_hidden()


def test_the_focus_is_in_the_message_box_after_a_click_on_stop(workbench: Make) -> None:
    page = workbench(scenarios(ENDLESS)).page()
    open_chat(page)
    say(page, "tell me endlessly")
    expect(page.get_by_text("begin word")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop now").click()
    expect_end_of_run(page)
    expect(message_box(page)).to_be_focused()


def test_a_long_message_shows_its_beginning_and_the_rest_on_request(workbench: Make) -> None:
    page = workbench(scenarios(AGAIN)).page()
    open_chat(page)
    say(page, "and then\n" + "\n".join(f"line {number}" for number in range(2, 901)))
    expect(page.get_by_text("Then this.")).to_be_in_viewport()
    message = page.get_by_role("article", name="You")
    expect(message.get_by_text("and then")).to_be_in_viewport()
    message.get_by_role("button", name="Show all 900 lines").click()
    page.keyboard.press("Control+End")
    expect(message.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")
    message.get_by_role("button", name="Show less").click()
    expect(page.get_by_text("Then this.")).to_be_in_viewport()
    expect(message.get_by_role("button", name="Show all 900 lines")).to_be_focused()
    assert not find_flaws(page)


def test_on_a_touch_screen_the_buttons_of_a_message_cover_no_words(workbench: Make) -> None:
    words = "a " * 100
    bench = workbench(scenarios(answering("a a", {"content": words})))
    context = bench.browser.new_context(
        viewport={"width": 400, "height": 800}, is_mobile=True, has_touch=True
    )
    with closing(context):
        page = bench.page(context)
        say(page, words)
        expect_end_of_run(page)
        for name, text in (("You", ".user-text"), ("Assistant", ".said")):
            message = page.get_by_role("article", name=name)
            button = message.get_by_role("button", name="Copy message").bounding_box()
            first_line = message.locator(text).bounding_box()
            assert button is not None
            assert first_line is not None
            assert button["y"] + button["height"] <= first_line["y"]


def test_a_conversation_is_printed_to_its_end_and_readable_on_paper(workbench: Make) -> None:
    """Otherwise only the part that is on the screen is printed, in the light letters of a dark page."""
    long = answering(
        "tell me a lot", {"content": "\n\n".join(f"Paragraph {number}." for number in range(200))}
    )
    page = workbench(scenarios(long)).page(scheme="dark")
    open_chat(page)
    say(page, "tell me a lot")
    expect(page.get_by_text("Paragraph 199.")).to_be_visible()
    expect_end_of_run(page)
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) > 5
    page.emulate_media(media="print", color_scheme="dark")
    expect(message_box(page)).to_be_hidden()
    expect(page.get_by_text("Paragraph 199.")).to_have_css("color", "rgb(29, 31, 33)")
