"""Fixtures: programs that drive Newel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.driver import Driver
from tests.support import Newel


@pytest.fixture
def drive() -> Iterator[Callable[..., Driver]]:
    """Starts programs that drive Newel, and ends those that a failed test leaves."""
    drivers: list[Driver] = []

    def begin(newel: Newel, *words: str, under: Sequence[str] = ()) -> Driver:
        drivers.append(Driver(newel, *words, under=under))
        return drivers[-1]

    yield begin
    for driver in drivers:
        if driver.process.poll() is None:
            driver.close()
