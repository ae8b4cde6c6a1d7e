"""If these fail, restarting the server closes an open page or loses the text in it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route

from tests.browser.bench import NARROW, Workbench, find_flaws, message_box, open_chat, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios

Make = Callable[..., Workbench]
NO_TOKEN = {"NEWEL_WEB_TOKEN": ""}
PING = answering("ping", {"content": "pong"})


def denied(page: Page) -> None:
    expect(page.get_by_text("Sign in with the address that Newel printed.")).to_be_visible(timeout=20_000)


def test_an_open_page_works_after_a_restart_with_the_same_url(workbench: Make) -> None:
    bench = workbench(scenarios(PING), environ=NO_TOKEN)
    page = bench.page()
    open_chat(page)
    message_box(page).fill("ping")
    before = bench.url
    bench.kill()
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
    message_box(page).press("Enter")
    bench.start()
    assert bench.url == before
    expect(page.get_by_text("pong")).to_be_visible(timeout=20_000)


def test_a_page_whose_token_is_refused_accepts_a_new_url_and_keeps_its_state(
    workbench: Make,
) -> None:
    bench = workbench(scenarios(PING), environ=NO_TOKEN)
    (bench.newel.project / "notes.md").write_text("one\n")
    page = bench.page(**NARROW)
    open_chat(page)
    say(page, "ping")
    expect(page.get_by_text("pong")).to_be_visible()
    message_box(page).fill("a draft")
    open_chat(page)
    page.evaluate("location.hash = '#/file/notes.md'")
    expect(page.locator(".cm-line").first).to_be_visible()
    bench.kill()
    bench.start("--new-token")
    denied(page)
    expect(page.get_by_text("Your drafts and decisions are saved")).to_be_visible()
    assert find_flaws(page) == []
    box = page.get_by_role("textbox", name="Address")
    box.fill(bench.url.replace("#token=", "#token=x"))
    box.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(
        "This address is no longer valid. Use the one that Newel printed at its latest start."
    )
    box.fill(bench.url)
    box.press("Enter")
    expect(page.get_by_role("tab", name="notes.md")).to_have_attribute("aria-selected", "true")
    assert "token" not in page.url
    page.get_by_role("tab", name="ping").click()
    expect(message_box(page)).to_have_value("a draft")
    bench.complaints[:] = [each for each in bench.complaints if "401" not in each]


@pytest.mark.core
def test_a_url_opened_before_the_server_starts_connects_once_it_runs(workbench: Make) -> None:
    bench = workbench(scenarios())
    page = bench.context().new_page()
    held: list[Route] = []

    def lose(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)
            route.abort()

    page.route("**/api/login", lose)
    page.goto(bench.url)
    expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible(timeout=20_000)
    assert len(held) == 1
    expect(page).to_have_url(re.compile("^[^#]*(#/.*)?$"))
    bench.complaints.clear()  # the browser logs the refused socket


def test_a_network_that_drops_requests_does_not_delay_reconnection_for_long(workbench: Make) -> None:
    bench = workbench(scenarios())
    page = bench.page()
    open_chat(page)
    bench.kill()
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/login", hold)
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
    page.wait_for_timeout(500)
    assert held
    bench.start()
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_hidden(timeout=3_000)
    bench.kill()
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
    bench.start()
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_hidden(timeout=20_000)
