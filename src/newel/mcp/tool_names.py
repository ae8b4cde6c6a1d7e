"""The names under which tools of servers are offered to models."""

from __future__ import annotations

import hashlib
import re
from typing import Final

LONGEST: Final = 64
"""Characters of a name that all chat APIs accept."""
_HASH: Final = 8


def offered_name(server: str, tool: str) -> str:
    """``server__tool``, of letters, digits, ``_`` and ``-``. It depends on these two names alone, whatever other
    servers there are: a conversation that goes on tomorrow calls the same tool. Where something had to be replaced
    or cut off, or the border between the two could be mistaken, a piece of a hash keeps it apart from others.
    """
    plain = f"{server}__{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    clear = name == plain and len(name) <= LONGEST and "__" not in server and not server.endswith("_")
    if clear and not tool.startswith("_"):
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode(errors="surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{mark}"
