"""How long a model server is waited for that has too much to do, or does not answer."""

from __future__ import annotations

from typing import Final

import msgspec


class RequestTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Up to ``attempts`` requests in all, and pauses of up to ``max_wait`` seconds that the server asks for. ``connections``
    bounds the attempts where no server answers: a wrong address is no better after minutes.
    """

    attempts: int = 10
    max_wait: float = 300.0
    connections: int = 5


PATIENT: Final = RequestTimeouts()
"""Where a person waits: about three minutes."""

UNATTENDED: Final = RequestTimeouts(attempts=30, max_wait=3_600.0, connections=15)
"""Where nobody does: about 20 minutes, of a server that does not answer about ten."""
