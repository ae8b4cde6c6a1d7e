"""If these fail, a server on another port, or one that has taken Newel's, gets into the workbench through the user's browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page
from websockets.sync.client import connect

from newel.contracts.run_index import journal_folder
from newel.jobs.directory_lock import find_holder
from tests.browser.bench import ENVIRON, Workbench, answers, message_box, open_chat, open_workbench, say
from tests.browser.expecting import expect
from tests.browser.scenarios import answering, scenarios
from tests.served import wait_until
from tests.stranger import headers_with, strange_server
from tests.tls_proxy import tls_proxy

Make = Callable[..., Workbench]
TOKEN = ENVIRON["NEWEL_WEB_TOKEN"]
PING = answering("ping", {"content": "pong"})


def denied(page: Page) -> None:
    expect(page.get_by_text("Sign in with the address that Newel printed.")).to_be_visible(timeout=20_000)


def assert_worthless(bench: Workbench, secrets: list[str]) -> None:
    """Nothing that was seen opens the workbench."""
    url = bench.url.partition("/#")[0]
    for secret in secrets:
        for headers in headers_with(secret, bench.port):
            answer = httpx2.get(f"{url}/api/state", headers=headers, trust_env=False)
            assert answer.status_code == 401, (secret, headers)


@pytest.mark.core
def test_a_server_on_another_port_learns_nothing_that_opens_the_workbench(workbench: Make) -> None:
    """Browsers send cookies to all ports of a machine."""
    bench = workbench(scenarios(PING))
    page = bench.page()
    with strange_server() as stranger:
        page.goto(stranger.url)
        expect(page).to_have_title("Hello")
        assert page.evaluate("localStorage.length") == 0
        assert "GET / HTTP" in stranger.words
        assert TOKEN not in stranger.words
        assert_worthless(bench, stranger.cookies())
    bench.asked.discard(stranger.url.split("/")[2])
    page.goto(bench.url.partition("#")[0])
    open_chat(page)
    say(page, "ping")
    expect(answers(page)).to_contain_text("pong")


@pytest.mark.parametrize("status", [200, 401])
def test_a_stranger_on_the_port_gets_neither_a_secret_nor_what_the_user_writes(
    workbench: Make, status: int
) -> None:
    """While Newel restarts, another program can take its port, and the open page reconnects to that."""
    bench = workbench(scenarios(PING))
    page = bench.page()
    open_chat(page)
    kept = page.evaluate("Object.values(localStorage)")
    address = f"ws://127.0.0.1:{bench.port}/ws"
    with connect(address, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
        welcome = str(socket.recv())
    bench.kill()
    expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
    message_box(page).fill("ping, between us")
    message_box(page).press("Enter")
    with strange_server(bench.port, welcome=welcome, status=status) as stranger:
        page.evaluate("dispatchEvent(new Event('online'))")
        if status == 401:
            denied(page)
            box = page.get_by_role("textbox", name="Address")
            box.fill(bench.url)
            box.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("This address is no longer valid")
        else:
            page.wait_for_timeout(4_000)
        heard = stranger.words
    assert "/api/" in heard
    assert TOKEN not in heard
    assert "between us" not in heard
    assert not [each for each in kept if len(each) > 20 and each.strip('"') in heard]
    bench.start()
    assert_worthless(bench, re.findall(r"[0-9A-Za-z_-]{20,}", heard))
    if status == 401:
        page.reload()
    expect(page.get_by_text("pong")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("article", name="You")).to_have_count(1)
    bench.complaints[:] = [each for each in bench.complaints if "401" not in each]


def test_a_page_that_has_only_an_old_cookie_says_how_to_get_in_and_the_cookie_is_deleted(
    workbench: Make,
) -> None:
    bench = workbench(scenarios(PING))
    context = bench.context()
    name = f"newel-{bench.port}"
    context.add_cookies(
        [
            {
                "name": name,
                "value": TOKEN,
                "domain": "127.0.0.1",
                "path": "/",
                "httpOnly": True,
                "sameSite": "Strict",
            }
        ]
    )
    page = context.new_page()
    page.goto(bench.url.partition("#")[0])
    denied(page)
    page.goto(bench.url)
    expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
    assert context.cookies() == []
    assert TOKEN not in str(page.evaluate("Object.values(localStorage)"))


def test_several_windows_and_two_workbenches_in_one_browser_stay_signed_in(
    workbench: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = workbench(scenarios(PING))
    context = bench.context()
    first = bench.page(context)
    with open_workbench(tmp_path_factory.mktemp("other"), bench.browser, scenarios(PING)) as other:
        there = other.page(context)
        second = context.new_page()
        second.goto(bench.url.partition("#")[0])
        for page in (first, second, there):
            expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
        for page in (first, second, there):
            page.reload()
            expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
        bench.asked.discard(f"127.0.0.1:{other.port}")


def test_the_page_works_where_browsers_offer_no_cryptography(workbench: Make) -> None:
    """They offer it on this machine and over HTTPS only, and ``--bind`` serves others over HTTP."""
    bench = workbench(scenarios(PING))
    context = bench.context()
    context.add_init_script("Object.defineProperty(Crypto.prototype, 'subtle', {value: undefined})")
    page = bench.page(context)
    page.reload()
    open_chat(page)
    say(page, "ping")
    expect(answers(page)).to_contain_text("pong")


def test_the_page_works_at_a_public_url_behind_a_proxy_with_tls(tmp_path: Path, browser: Browser) -> None:
    """Who reaches the workbench from another machine needs TLS, and Newel itself has none."""
    with tls_proxy() as proxy:
        public = f"https://127.0.0.1:{proxy.port}"
        with open_workbench(tmp_path, browser, scenarios(PING), "--public-url", public) as bench:
            holder = find_holder(journal_folder(bench.newel.home / ".newel", str(bench.newel.project)))
            assert holder is not None
            proxy.target = int(holder.place.strip("/").rpartition(":")[2])
            assert bench.url == f"{public}/#token={TOKEN}"
            page = bench.page(browser.new_context(ignore_https_errors=True))
            open_chat(page)
            say(page, "ping")
            expect(answers(page)).to_contain_text("pong")
            assert page.evaluate("isSecureContext")
            assert bench.complaints == []
            page.context.close()


def test_the_browser_that_newel_opens_is_signed_in_by_a_private_file(
    workbench: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("programs")
    opened, program = folder / "opened", folder / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new; mv {opened}.new {opened}\n')
    program.chmod(0o755)
    bench = workbench(scenarios(PING), "--open", environ={"BROWSER": f"{program} %s"})
    wait_until(opened.exists, "the browser")
    page = bench.context().new_page()
    page.goto(opened.read_text())
    expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
    assert TOKEN not in page.url
    bench.asked.discard("")  # the file
