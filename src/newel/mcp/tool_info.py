"""What servers say of their tools."""

from __future__ import annotations

from typing import Any

import msgspec


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of a tool. ``parameters`` is its JSON Schema as it came; ``reads`` is the server's word that
    it changes nothing.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    reads: bool = False
