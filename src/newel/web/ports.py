"""What the composition root passes to the web server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from newel.review_jobs.service import ReviewService

Desk = Callable[[], AbstractAsyncContextManager["ReviewService"]]
"""Opens the review service for one request."""


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The server, as the page shows it. ``project`` is its folder, ``notice`` a message about its start."""

    newel: str
    project: str
    approve: str
    ephemeral: bool
    notice: str = ""
