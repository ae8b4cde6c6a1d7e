"""Fixtures: a Newel whose surroundings fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.support import Newel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are slow: they kill hundreds of processes and fill disks."""
    for item in items:
        if item.nodeid.startswith("tests/faults/"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def newel_with(tmp_path: Path) -> Iterator[Callable[..., Newel]]:
    """Makes a Newel whose model follows the given scenarios."""
    with ExitStack() as stack:

        def make(*scenarios: dict[str, Any]) -> Newel:
            whole = {"scenarios": [one for each in scenarios for one in each["scenarios"]]}
            return Newel(tmp_path, stack.enter_context(running(whole, strict=True)))

        yield make
