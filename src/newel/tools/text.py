"""Small things about words and bytes that the tools share."""

from __future__ import annotations

from typing import Final

from newel.agent.errors import ToolError

BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark with which a UTF-8 file may begin."""

DIFF_SHOWN: Final = 200_000
"""Characters of a diff that go with a result; a preview is whole."""


def encoded(text: str, argument: str) -> bytes:
    """The text as UTF-8. Raises ``ToolError`` for half a surrogate pair, which JSON can hold and no file."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        broken = f"\\u{ord(text[error.start]):04x}"
        raise ToolError(
            f"{argument} holds {broken}, half of a surrogate pair, which is no character."
        ) from error
