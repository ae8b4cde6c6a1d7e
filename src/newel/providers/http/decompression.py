"""Decompression of an HTTP body while it arrives, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from newel.agent.errors import BadResponse

MAX_PIECE = 2**20
"""Decoded bytes of one piece of a compressed body."""

_GZIP = b"\x1f\x8b"
_MAGIC = 2
"""Bytes by which the formats are told apart."""


def unpacker(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    """A function from a piece of the body, as it came, to the pieces that were packed in it, at least an empty one. It raises
    ``BadResponse`` for what does not match the content encoding.
    """
    encoding = encoding.strip().lower()
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return _Inflate(is_deflate=encoding == "deflate").unpack
    return lambda piece: (piece,)


class _Inflate:
    """Gzip of one or several members, zlib's format, and the bare deflate that some servers send under that name.

    What stands behind the last member (padding, junk) is ignored, as browsers do.
    """

    def __init__(self, *, is_deflate: bool) -> None:
        import zlib

        self._zlib = zlib
        self._is_deflate = is_deflate
        self._stream = None
        self._held = b""
        self._has_begun = self._is_over = False

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        piece: bytes | None = None
        self._held += packed
        while not self._is_over:
            if self._stream is None:
                if len(self._held) < _MAGIC:
                    break
                self._begin()
                continue
            try:
                yield (piece := self._stream.decompress(self._held, MAX_PIECE))
            except self._zlib.error as error:
                raise _mismatch() from error
            self._held = self._stream.unconsumed_tail
            if self._stream.eof:
                self._held = self._stream.unused_data.lstrip(b"\0")
                self._stream = None
            elif not self._held and len(piece) < MAX_PIECE:  # a full piece may have more behind it
                break
        if piece is None:
            yield b""

    def _begin(self) -> None:
        """Choose the format by the first bytes; behind a member only another one counts."""
        is_zlib = self._held[0] & 15 == self._zlib.DEFLATED and not int.from_bytes(self._held[:2], "big") % 31
        if self._held.startswith(_GZIP):
            window = 16 + self._zlib.MAX_WBITS
        elif self._has_begun:
            self._held, self._is_over = b"", True
            return
        elif is_zlib:
            window = self._zlib.MAX_WBITS
        elif self._is_deflate:
            window = -self._zlib.MAX_WBITS
        else:
            raise _mismatch()
        self._stream = self._zlib.decompressobj(window)
        self._has_begun = True


def _mismatch() -> BadResponse:
    return BadResponse("The server sent a body that does not match its content encoding.")
