"""Looks for a text in all that Newel has stored."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from tests.support import Newel


def is_stored(newel: Newel, text: str) -> bool:
    """Whether a text is in a name or a file of Newel's folder, compressed or not."""
    return any(text.encode() in data for data in _stored(newel))


def _stored(newel: Newel) -> Iterator[bytes]:
    for path in (newel.home / ".newel").rglob("*"):
        yield path.name.encode()
        if path.is_file():
            data = path.read_bytes()
            yield data
            for found in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
                try:
                    yield zlib.decompressobj().decompress(data[found.start() :], 1 << 20)
                except zlib.error:
                    continue
