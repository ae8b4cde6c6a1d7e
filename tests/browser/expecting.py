"""Playwright's assertions, checked more often.

Playwright retries an assertion after 20, 50, 100, 100 and then every 500 ms, but never after more than a fifth of its
timeout. So this splits a long timeout into slices: what a page shows after 300 ms is seen then, not half a second
later.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import expect as playwright_expect

from tests.processes import COMMAND_SECONDS

TIMEOUT_MS: Final = 600 * COMMAND_SECONDS
"""Only a failure takes so long. A page that reconnects waits up to six seconds between two attempts."""
PATIENCE_S: Final = 0.8 * COMMAND_SECONDS
"""Until two windows agree: one sends again what was cut off, then the other one learns of it. Either may have to reconnect first."""
SLICE_MS: Final = 2_400
"""The longest timeout with which Playwright leaves out the interval of 500 ms."""


class _Assertions:
    """The methods of ``LocatorAssertions`` or ``PageAssertions``; timeouts are in milliseconds, as there."""

    def __init__(self, assertions: Any) -> None:
        self._assertions = assertions

    def __getattr__(self, name: str) -> Any:
        check = getattr(self._assertions, name)

        @functools.wraps(check)
        def check_in_slices(*arguments: Any, timeout: float = TIMEOUT_MS, **options: Any) -> None:
            __tracebackhide__ = True
            end = time.monotonic() + timeout / 1000
            while (remaining := (end - time.monotonic()) * 1000) > SLICE_MS:
                try:
                    return check(*arguments, timeout=SLICE_MS, **options)
                except AssertionError:
                    continue
            return check(*arguments, timeout=max(1, remaining), **options)

        return check_in_slices


if TYPE_CHECKING:
    expect = playwright_expect
else:

    def expect(actual: Any, message: str | None = None) -> _Assertions:
        return _Assertions(playwright_expect(actual, message))
