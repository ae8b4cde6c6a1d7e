"""Shortens long tool results for the model to their head and tail, with the path of the full result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import ToolCall
from newel.agent.ports import ToolResult

MOST: Final = 30_000
"""Characters of one result, about 7,500 tokens of English."""

_NEAR: Final = 200
"""Characters by which a cut may move to the end of a line."""

Keep = Callable[[str], Awaitable[str]]
"""Saves a text to a file that the ``read`` tool can open, and returns the path. Raises ``NewelError``."""


class Shortener:
    """Implements ``newel.agent.ports.Shorten``: ``most`` characters of a result, and a line about the rest."""

    def __init__(self, keep: Keep, most: int = MOST) -> None:
        self._keep = keep
        self._most = most

    async def __call__(self, call: ToolCall, result: ToolResult, /) -> ToolResult:
        del call
        text = result.output
        if len(text) <= self._most:
            return result
        details = {**result.details, "truncated": True}
        where = result.whole
        if not where:
            try:
                with anyio.CancelScope(shield=True):  # the result of a call must not be lost
                    details["outputFile"] = await self._keep(text)
                where = f"the whole result is in {details['outputFile']}"
            except (NewelError, OSError) as error:
                where = f"it could not be saved: {error}".rstrip(".")
        return msgspec.structs.replace(result, output=shorten(text, self._most, where), details=details)


def shorten(text: str, most: int, where: str) -> str:
    """The head and the tail of a text; ``where`` ends the line between them."""
    head = _find_cut(text, most - most // 2, back=True)
    tail = _find_cut(text, len(text) - most // 2, back=False)
    omitted = f"[… {tail - head:,} characters omitted; {where} …]"
    return "\n".join([text[:head].removesuffix("\n"), omitted, text[tail:]])


def _find_cut(text: str, index: int, *, back: bool) -> int:
    """Where to cut near ``index``: at the end of a line, or else between two grapheme clusters."""
    line = text.rfind("\n", index - _NEAR, index) if back else text.find("\n", index, index + _NEAR)
    if line != -1:
        return line + 1
    for _ in range(_NEAR):
        if not 0 < index < len(text) or not _continues(text[index - 1], text[index]):
            break
        index += -1 if back else 1
    return index


def _continues(before: str, after: str) -> bool:
    """Whether two code points belong to one grapheme cluster."""
    import unicodedata

    return (
        unicodedata.category(after).startswith("M")  # accents, selectors of variants
        or "\u200d" in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )
