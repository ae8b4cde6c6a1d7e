"""Text helpers that the tools share."""

from __future__ import annotations

from typing import Final

from newel.agent.errors import ToolError

BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""

DIFF_SHOWN: Final = 200_000
"""Characters of a diff in a result; a preview is complete."""


def encoded(text: str, argument: str) -> bytes:
    """The text as UTF-8. Raises ``ToolError`` for half a surrogate pair, which JSON allows but UTF-8 does not."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        broken = f"\\u{ord(text[error.start]):04x}"
        raise ToolError(
            f"{argument} contains {broken}, half of a surrogate pair, which is not a character."
        ) from error
