"""A window for a page of this machine: pywebview, else a Chromium in app mode, else a tab of the user's browser.

The window is a child process that ends with this one, however this one ends: it holds a pipe whose other end we hold. For
pywebview that is standard input. Chromium ends when its debugging pipe (``--remote-debugging-pipe``) is closed. The
address contains the token, and other users can read the arguments of a process, so it goes through these pipes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from newel.agent.errors import ConfigError
from newel.app.debugging_pipe import sign_in
from newel.app.user_browser import open_in_browser
from newel.app.window_process import window_process
from newel.concurrency import background_tasks
from newel.text.sanitize import sanitize
from newel.version import install_with
from newel.workspace.process.own_programs import own_path

WindowKind = Literal["auto", "webview", "app", "browser"]

WIDTH, HEIGHT = 900, 700
NO_TOOLKIT: Final = 3
"""Exit code of ``newel.app.webview_main`` if pywebview finds no toolkit to draw with."""

_BROWSERS: Final = (
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
    "microsoft-edge",
    "microsoft-edge-stable",
    "brave-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
)
_PIPES: Final = 'exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null'
"""A browser's debugging pipe is at 3 and 4; a shell moves the standard streams there."""
_FLAGS: Final = (
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-crash-restore-bubble",
    "--class=newel",
)


class WindowError(ConfigError):
    """No window could be opened."""


class DesktopWindow:
    """``profile`` is the browser's folder, with the page's key and drafts; ``title`` is shown until the page has its own."""

    def __init__(self, profile: Path, *, kind: WindowKind = "auto", title: str = "newel") -> None:
        self._profile = profile
        self._kind: WindowKind = kind
        self._title = title

    async def show(self, url: str) -> None:
        """Open a window at an address with a token; returns when it is closed. With ``auto``, the reason why one kind does not
        work is printed to standard error, and the next one is tried. Raises ``WindowError``.
        """
        kinds: list[WindowKind] = ["webview", "app", "browser"] if self._kind == "auto" else [self._kind]
        for kind in kinds:
            try:
                await self._show(kind, url)
            except WindowError as error:
                if self._kind != "auto":
                    raise
                if kind != "webview" or find_spec("webview"):
                    _say(str(error))
            else:
                return

    async def _show(self, kind: WindowKind, url: str) -> None:
        match kind:
            case "webview":
                _require_display()
                await self._show_webview(url)
            case "app":
                _require_display()
                await self._show_app(url)
            case _:
                _say("The workbench is in your browser. Press Ctrl+C to end it.")
                await open_in_browser(url, self._profile.with_name("open.html"))
                await anyio.sleep_forever()

    async def _show_webview(self, url: str) -> None:
        if not find_spec("webview"):
            raise WindowError(
                f"pywebview is not installed. Install Newel with it: {install_with('desktop')}."
            )
        arguments = [sys.executable, "-P", "-m", "newel.app.webview_main"]
        order = msgspec.json.encode([url, self._title, str(self._profile), WIDTH, HEIGHT]) + b"\n"
        async with window_process(arguments) as window:
            with contextlib.suppress(anyio.BrokenResourceError):  # it has ended already
                await window.send(order)
            code = await window.wait()
        if code == NO_TOOLKIT:
            raise WindowError(f"pywebview cannot draw here: {window.errors}")
        if not _is_closed(code):
            raise WindowError(f"The window ended with {_describe(code)}: {window.errors}")

    async def _show_app(self, url: str) -> None:
        browser = find_browser()
        if browser is None:
            raise WindowError(
                "There is no Chromium, Chrome, Edge or Brave here for a window of its own. "
                f"Install one, or Newel with pywebview: {install_with('desktop')}."
            )
        # later as the user left it
        size = [] if self._profile.exists() else [f"--window-size={WIDTH},{HEIGHT}"]
        address = url.partition("#")[0]
        flags = [f"--user-data-dir={self._profile}", *_FLAGS, *size, f"--app={address}"]
        command = ["/bin/sh", "-c", _PIPES, "sh", browser, *flags]
        async with (
            window_process(command) as window,
            background_tasks(partial(sign_in, window, address, url)),
        ):
            code = await window.wait()
        if not _is_closed(code):
            raise WindowError(f"{browser} ended with {_describe(code)}: {window.errors}")


def _is_closed(code: int) -> bool:
    """Whether the user has closed or killed the window: a toolkit that finds no library or display aborts."""
    return code == 0 or -code in {signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP}


def _describe(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name


def find_browser() -> str | None:
    """The path of a browser that has an app mode."""
    return next(filter(None, map(partial(shutil.which, path=own_path()), _BROWSERS)), None)


def _require_display() -> None:
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise WindowError("There is no display for a window (DISPLAY and WAYLAND_DISPLAY are not set).")


def _say(words: str) -> None:
    print(f"newel: {sanitize(words)}", file=sys.stderr)  # noqa: T201 — for the user
