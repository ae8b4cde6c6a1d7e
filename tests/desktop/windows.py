"""Windows of a real Chromium on a display of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.requirements import require_program
from tests.served import wait_until


@contextmanager
def display() -> Generator[str]:
    """A virtual screen; yields the value of ``DISPLAY``."""
    program = require_program("Xvfb", "xvfb")
    reads, writes = os.pipe()
    with subprocess.Popen(
        [program, "-displayfd", str(writes), "-screen", "0", "1280x900x24", "-nolisten", "tcp"],
        pass_fds=[writes],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        os.close(writes)
        try:
            with os.fdopen(reads) as numbers:
                yield f":{numbers.readline().strip()}"
        finally:
            server.terminate()


def browser_folder(folder: Path) -> Path:
    """A folder for PATH with a Chromium that also runs as root, and that a test can connect to."""
    chromium = require_program("chromium")
    folder.mkdir()
    script = folder / "chromium"
    script.write_text(f'#!/bin/sh\nexec {chromium} --no-sandbox --remote-debugging-port=0 "$@"\n')
    script.chmod(0o755)
    return folder


@contextmanager
def connected(profile: Path) -> Generator[Browser]:
    """Connect to the browser that runs with a profile."""
    port = profile / "DevToolsActivePort"
    wait_until(lambda: port.exists() and port.read_text().strip(), "the browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port.read_text().split()[0]}")
        yield browser


def window_of(browser: Browser) -> Page:
    """The page of the only window."""
    wait_until(lambda: browser.contexts and browser.contexts[0].pages, "the window")
    return browser.contexts[0].pages[0]
