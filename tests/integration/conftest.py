"""Fixtures: a Newel for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.support import Newel


@pytest.fixture
def with_model(tmp_path: Path) -> Iterator[Callable[..., Newel]]:
    """Makes a Newel whose model follows the given scenarios (none: the bundled ones)."""
    with ExitStack() as servers:

        def make(scenarios: dict[str, Any] | None = None) -> Newel:
            return Newel(tmp_path, servers.enter_context(running(scenarios, strict=True)))

        yield make
