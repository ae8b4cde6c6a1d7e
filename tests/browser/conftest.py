"""A workbench in a browser for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from mock_llm_server import running
from tests.browser.bench import ARGUMENTS, Workbench, chromium, write_servers
from tests.support import Newel


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file, and no longer: an open Playwright holds an event loop, which other tests want to
    run their own. Each page has a context of its own in it.
    """
    with sync_playwright() as playwright:
        running_browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield running_browser
        running_browser.close()


@pytest.fixture
def workbench(tmp_path: Path, browser: Browser) -> Iterator[Callable[..., Workbench]]:
    """Makes a workbench whose model follows the given scenarios; further words go to ``newel web``. ``servers`` are MCP
    servers of the project, ``own`` those of the user. After the test no page may have complained, nor asked anybody
    but the server.
    """
    with ExitStack() as stack:
        made: list[Workbench] = []

        def make(
            scenarios: dict[str, Any] | None = None,
            *words: str,
            servers: dict[str, Any] | None = None,
            own: dict[str, Any] | None = None,
        ) -> Workbench:
            server = stack.enter_context(running(scenarios, strict=True))
            bench = Workbench(Newel(tmp_path, server), browser)
            stack.callback(bench.close)
            write_servers(bench.newel.project, servers)
            write_servers(bench.newel.home / ".newel", own)
            bench.start(*words)
            made.append(bench)
            return bench

        yield make
        for bench in made:
            assert bench.complaints == []
            assert bench.asked <= {f"127.0.0.1:{bench.port}"}
