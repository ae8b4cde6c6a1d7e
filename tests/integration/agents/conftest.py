"""Fixtures: a Newel for each test, whose model follows a contract's scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.support import Newel


@pytest.fixture
def with_agent(tmp_path: Path) -> Iterator[Callable[..., Newel]]:
    """Makes a Newel whose model follows these scenarios."""
    with ExitStack() as servers:

        def make(*scenarios: dict[str, Any]) -> Newel:
            script = {"scenarios": [one for each in scenarios for one in each["scenarios"]]}
            return Newel(tmp_path, servers.enter_context(running(script, strict=True)))

        yield make
