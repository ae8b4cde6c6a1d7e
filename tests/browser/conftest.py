"""Fixtures: a workbench in a browser for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.bench import Workbench, launch_browser, open_workbench


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in a browser takes two to seven seconds of a core, so most are slow: the quick suite has one for each core
    flow of the page.
    """
    for item in items:
        if item.nodeid.startswith("tests/browser/") and item.get_closest_marker("core") is None:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for the tests of this folder only: others run event loops of their own. Each page has its own
    context.
    """
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def workbench(tmp_path: Path, browser: Browser) -> Iterator[Callable[..., Workbench]]:
    """Makes a workbench; the arguments are those of ``opened``. After the test, no page may have logged errors or
    contacted any host but the server.
    """
    with ExitStack() as stack:
        made: list[Workbench] = []

        def make(scenarios: dict[str, Any] | None = None, *words: str, **servers: Any) -> Workbench:
            made.append(stack.enter_context(open_workbench(tmp_path, browser, scenarios, *words, **servers)))
            return made[-1]

        yield make
        for bench in made:
            assert bench.complaints == []
            assert bench.asked <= {f"127.0.0.1:{bench.port}"}
