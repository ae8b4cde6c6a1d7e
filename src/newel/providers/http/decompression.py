"""Incremental decompression of HTTP bodies, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from newel.agent.errors import BadResponse

MAX_PIECE = 2**20
"""Decoded bytes of one piece of a compressed body."""

_GZIP = b"\x1f\x8b"
_MAGIC = 2
"""Bytes that identify the format."""


def decompressor(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    """Return a function from a piece of the body to its decoded pieces, at least one, which may be empty.

    It raises ``BadResponse`` for data that does not match the content encoding.
    """
    encoding = encoding.strip().lower()
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return _Inflate(is_deflate=encoding == "deflate").decompress
    return lambda piece: (piece,)


class _Inflate:
    """Gzip of one or several members, zlib's format, and the raw deflate that some servers send as ``deflate``.

    Data after the last member (padding, junk) is ignored, as in browsers.
    """

    def __init__(self, *, is_deflate: bool) -> None:
        import zlib

        self._zlib = zlib
        self._is_deflate = is_deflate
        self._stream = None
        self._input = b""
        self._started = self._finished = False

    def decompress(self, compressed: bytes) -> Iterator[bytes]:
        piece: bytes | None = None
        self._input += compressed
        while not self._finished:
            if self._stream is None:
                if len(self._input) < _MAGIC:
                    break
                self._start_member()
                continue
            try:
                yield (piece := self._stream.decompress(self._input, MAX_PIECE))
            except self._zlib.error as error:
                raise _bad_encoding() from error
            self._input = self._stream.unconsumed_tail
            if self._stream.eof:
                self._input = self._stream.unused_data.lstrip(b"\0")
                self._stream = None
            elif not self._input and len(piece) < MAX_PIECE:  # a full piece may have more behind it
                break
        if piece is None:
            yield b""

    def _start_member(self) -> None:
        """Detect the format by the first bytes; after a member only another gzip member counts."""
        is_zlib = (
            self._input[0] & 15 == self._zlib.DEFLATED and not int.from_bytes(self._input[:2], "big") % 31
        )
        if self._input.startswith(_GZIP):
            window = 16 + self._zlib.MAX_WBITS
        elif self._started:
            self._input, self._finished = b"", True
            return
        elif is_zlib:
            window = self._zlib.MAX_WBITS
        elif self._is_deflate:
            window = -self._zlib.MAX_WBITS
        else:
            raise _bad_encoding()
        self._stream = self._zlib.decompressobj(window)
        self._started = True


def _bad_encoding() -> BadResponse:
    return BadResponse("The server sent a body that does not match its content encoding.")
