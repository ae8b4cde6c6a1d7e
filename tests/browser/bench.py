"""A workbench in a real browser: the server's process, its model server, and pages."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, WebSocketRoute, sync_playwright

from mock_llm_server import running
from tests.browser.expecting import expect
from tests.forked import Process, start
from tests.nodejs import PAGE, packages
from tests.requirements import skip_or_fail
from tests.support import BIN, Newel

NAMES = (
    "chromium-headless-shell",  # the browser without windows takes a fifth less time
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
LOOKS: Final[tuple[tuple[Literal["light", "dark"], int], ...]] = (
    ("light", 1280),
    ("dark", 1280),
    ("light", 400),
)
NARROW: Final[dict[str, Any]] = {"scheme": "light", "width": 400}
"""The options of a page that ``flaws`` looks at: what works in the narrowest look works in each."""
ENVIRON = {
    "NEWEL_WEB_TOKEN": "a-token-that-is-the-same-after-each-start",
    "NEWEL_REVIEW_POLL_INTERVAL_MS": "200",
}
"""Of the server. Where a page has to look by itself for what is new, nobody needs to wait for it."""


def chromium() -> str:
    """The path of the browser. Without one, the test is skipped, or fails if ``NEWEL_TESTS_NEED_ALL`` is set."""
    found = os.environ.get("NEWEL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    return found or skip_or_fail(
        "needs Chromium: `apt-get install chromium`, or name a browser's program in NEWEL_CHROMIUM"
    )


@contextmanager
def launch_browser() -> Generator[Browser]:
    """Start a browser. While it is open, this thread has an event loop and cannot run another."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield browser
        browser.close()


class Gate:
    """Holds requests of a page until it is opened, then lets all through. It stays until the page closes: removing a
    route can lose a request in flight.
    """

    def __init__(self, page: Page, pattern: str) -> None:
        self._held: list[Route] = []
        self._is_open = False
        page.route(pattern, self._take)

    def open(self) -> None:
        self._is_open = True
        while self._held:
            self._held.pop(0).continue_()

    def _take(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._held.append(route)


class HeldSocket:
    """Holds what the server sends to the page that ``context`` opens next, while ``is_held``; ``open`` lets all of it through."""

    def __init__(self, context: BrowserContext) -> None:
        self.is_held = False
        self._held: list[tuple[WebSocketRoute, str | bytes]] = []
        context.route_web_socket("**/ws", self._take)

    def open(self) -> None:
        self.is_held = False
        while self._held:
            socket, message = self._held.pop(0)
            socket.send(message)

    def _take(self, socket: WebSocketRoute) -> None:
        def receive(message: str | bytes) -> None:
            if self.is_held:
                self._held.append((socket, message))
            else:
                socket.send(message)

        socket.connect_to_server().on_message(receive)


class Workbench:
    """``start`` runs the server, ``page`` opens its page. ``complaints`` are the pages' errors and warnings, ``asked``
    the hosts of their requests.
    """

    def __init__(self, newel: Newel, browser: Browser) -> None:
        self.newel = newel
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        self.process: Process | None = None
        self.port = 0
        self.was_killed = False
        self.url = ""
        self.browser = browser
        self._contexts: list[BrowserContext] = []
        self._words: tuple[str, ...] = ()
        self.under: tuple[str, ...] = ()
        """What runs the server's command, such as ``unshare``."""
        self._errors = (newel.home / "errors").open("w+")

    def start(self, *words: str) -> None:
        """Run the server with further arguments; after a ``kill``, on the same port and with the same token."""
        self._words = words or self._words
        self.process = start(
            [*self.under, str(BIN / "newel"), "web", "--port", str(self.port), *self._words],
            cwd=self.newel.project,
            env=ENVIRON | self.newel.environ,
            stderr=self._errors.fileno(),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        self._errors.seek(0)
        assert line.startswith(("http://", "https://")), self._errors.read()
        self.url = line
        self.port = int(line.split("/")[2].rpartition(":")[2])

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
            self.was_killed = True

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self.kill()
        self._errors.close()

    def context(self, *, width: int = 1280, height: int = 800, scheme: Any = "light") -> BrowserContext:
        """A browser context with its own storage."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.on("request", lambda request: self.asked.add(request.url.split("/")[2]))
        self._contexts.append(context)
        return context

    def page(self, context: BrowserContext | None = None, **options: Any) -> Page:
        """Open the page, logged in."""
        page = _window(context or self.context(**options))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.goto(self.url, wait_until="commit")
        expect(page.get_by_role("button", name="New chat", exact=True).first).to_be_visible()
        return page

    def _note(self, kind: str, text: str) -> None:
        # While the server is down, the browser logs that it cannot connect; after a restart, that the proof for the earlier
        # start is refused, upon which the page signs in again.
        if self.was_killed and "401 (Unauthorized)" in text:
            return
        if kind in {"error", "warning"} and "net::ERR_" not in text and "WebSocket" not in text:
            self.complaints.append(text)


def _window(context: BrowserContext) -> Page:
    """A page in a window of its own: of the pages in one window, only the foremost is redrawn more than once a second."""
    if not context.pages:
        return context.new_page()
    with context.expect_page() as opening:
        context.pages[0].evaluate("void open('about:blank', '_blank', 'popup, noopener')")
    return opening.value


@contextmanager
def open_workbench(
    folder: Path,
    browser: Browser,
    scenarios: dict[str, Any] | None,
    *words: str,
    servers: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
) -> Generator[Workbench]:
    """A workbench with its home and its project in ``folder``, whose model follows the scenarios. Further arguments go
    to ``newel web``; ``servers`` are MCP servers of the project, ``own`` those of the user. ``environ`` is added to the
    server's environment.
    """
    with running(scenarios, strict=True) as server:
        bench = Workbench(Newel(folder, server), browser)
        try:
            write_servers(bench.newel.project, servers)
            write_servers(bench.newel.home / ".newel", own)
            bench.newel.environ |= environ or {}
            bench.start(*words)
            yield bench
        finally:
            bench.close()


def open_chat(page: Page) -> None:
    page.get_by_role("button", name="New chat", exact=True).first.click()
    expect(message_box(page)).to_be_focused()


def message_box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def say(page: Page, text: str) -> None:
    message_box(page).fill(text)
    message_box(page).press("Enter")


def expect_end_of_run(page: Page) -> None:
    """Wait until the chat has no run. The run ends a little after the last word of its answer is shown."""
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def answers(page: Page) -> Locator:
    return page.get_by_role("article", name="Assistant")


def open_menu(page: Page) -> None:
    """On a narrow page, open the menu with the rest of the header."""
    more = page.get_by_role("banner").get_by_role("button", name=re.compile("^More"))
    if more.is_visible() and more.get_attribute("aria-expanded") == "false":
        more.click()


def open_agent(page: Page, contract: str) -> None:
    """Open an agent's tab with a contract that is not started."""
    open_menu(page)
    page.get_by_role("button", name="New agent", exact=True).first.click()
    box = page.get_by_role("textbox", name="Contract", exact=True)
    expect(box).to_be_focused()  # not that of another agent, whose form has yet to close
    box.fill(contract)


def find_flaws(page: Page) -> list[str]:
    """The flaws of a screen in all its looks: light and dark, wide and as narrow as a phone. Expects the page as
    ``NARROW`` opens it, and leaves it so.
    """
    found: list[str] = []
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found += [f"{scheme}, {width} px: {each}" for each in axe_violations(page)]
        if overflow_px(page):
            found.append(f"{scheme}, {width} px: {overflow_px(page)} px wider than the window")
    return found


def axe_violations(page: Page) -> list[str]:
    """The rules that axe-core finds violated, with their elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((packages(PAGE) / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)"
    )
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def overflow_px(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def write_servers(folder: Path, servers: dict[str, Any] | None) -> None:
    """Write MCP servers to a folder's file."""
    if servers is None:
        return
    folder.mkdir(exist_ok=True)
    (folder / "mcp_config.json").write_text(json.dumps({"mcpServers": servers}))
