"""A workbench in a browser for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from mock_llm_server import running
from tests.browser.bench import ARGUMENTS, CHROMIUM, Workbench
from tests.support import Newel


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[Callable[..., Workbench]]:
    """Makes a workbench whose model follows the given scenarios; further words go to ``newel web``. After the test no
    page may have complained, nor asked anybody but the server.
    """
    with ExitStack() as stack:
        # One for each test: an open Playwright holds an event loop, which other tests want to run their own.
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        stack.callback(browser.close)
        made: list[Workbench] = []

        def make(scenarios: dict[str, Any] | None = None, *words: str) -> Workbench:
            server = stack.enter_context(running(scenarios, strict=True))
            bench = Workbench(Newel(tmp_path, server), browser)
            stack.callback(bench.close)
            bench.start(*words)
            made.append(bench)
            return bench

        yield make
        for bench in made:
            assert bench.complaints == []
            assert bench.asked <= {f"127.0.0.1:{bench.port}"}
