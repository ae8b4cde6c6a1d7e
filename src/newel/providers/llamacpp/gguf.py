"""GGUF header reader: a model's sizes, and the length that its file must have.

The format is that of ``docs/gguf.md`` in ggml, versions 2 and 3. A header comes from a stranger: no count or length in it makes the
reader allocate more than the file's own bytes, or read beyond ``MAX_HEADER_BYTES``.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32

MAX_HEADER_BYTES: Final = 64 * 2**20
"""A vocabulary of 250,000 tokens takes about 15 MiB."""

MAX_ENTRIES: Final = 4_096
MAX_TENSORS: Final = 100_000

MAX_TEXTS: Final = 2**21
"""Strings of an array. Vocabularies have up to 300,000, the merges of tokens twice as many."""

MAX_KEPT_ITEMS: Final = 1_024
"""Items of an array of numbers that are kept: one per layer."""

MAX_KEPT_TEXT: Final = 256
"""Bytes of a string that are kept: the architecture's name."""

MAX_DIMENSIONS: Final = 4

_PIECE: Final = 2**20
_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = dict(enumerate(("<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?"))) | {
    10: "<Q",
    11: "<q",
    12: "<d",
}
"""The types of numbers, as formats of ``struct``."""

_BLOCKS: Final = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 36),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
}
"""The types of tensors: values per block, and bytes per block."""

Value = int | float | bool | str | list[int]


class GgufError(Exception):
    """The file is no valid GGUF file; the message completes "The file … "."""


class GgufHeader(msgspec.Struct, frozen=True):
    """The sizes of a model; 0 if the header does not have one.

    ``expected_size`` is the length of the file in bytes, at least. ``kv_bytes`` is the memory for the keys and values of one token;
    0 also for models that do not keep all tokens in all layers.
    """

    architecture: str
    expected_size: int
    context_length: int
    vocabulary: int
    kv_bytes: int
    parts: int = 1
    """Files that the model is split into."""


def read_header(path: Path) -> GgufHeader:
    """Read the header of a file. Raises ``GgufError``, and ``OSError`` if the file cannot be read."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        reader = _HeaderReader(file, size)
        if reader.take(len(MAGIC), "is not a GGUF file: it is too short") != MAGIC:
            raise GgufError("is not a GGUF file: it does not begin with 'GGUF'")
        version = reader.number("<I")
        if version not in VERSIONS:
            raise GgufError(f"has the GGUF version {version}, which Newel does not know")
        tensors, entries = reader.number("<Q"), reader.number("<Q")
        if tensors > MAX_TENSORS or entries > MAX_ENTRIES:
            raise GgufError("is damaged: its header has too many entries")
        fields = dict(reader.entry() for _ in range(entries))
        end = max((reader.tensor() for _ in range(tensors)), default=0)
        alignment = _size(fields, "general.alignment") or DEFAULT_ALIGNMENT
        data = (reader.position + alignment - 1) // alignment * alignment
    return _header(fields, expected_size=data + end if tensors else reader.position)


class _HeaderReader:
    """Reads a header from its beginning; ``position`` is in bytes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.position = 0
        self._file = file
        self._limit = min(size, MAX_HEADER_BYTES)
        self._is_short = size <= MAX_HEADER_BYTES
        self._data = bytearray()

    def take(self, length: int, problem: str = "") -> bytes:
        end = self._reach(length, problem)
        taken = bytes(self._data[self.position : end])
        self.position = end
        return taken

    def number(self, layout: str) -> int:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", "replace")

    def entry(self) -> tuple[str, Value]:
        """Read one key with its value."""
        return self.text(), self._value(self.number("<I"))

    def tensor(self) -> int:
        """Read the description of a tensor, and return where its data ends, relative to the first tensor's begin. The size of
        an unknown type counts as 0.
        """
        self._skip(self.number("<Q"))
        dimensions = self.number("<I")
        if dimensions > MAX_DIMENSIONS:
            raise GgufError("is damaged: a tensor in its header has too many dimensions")
        values = 1
        for _ in range(dimensions):
            values *= self.number("<Q")
        per_block, block_bytes = _BLOCKS.get(self.number("<I"), (1, 0))
        return self.number("<Q") + values // per_block * block_bytes

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            length = self.number("<Q")
            kept = self.take(min(length, MAX_KEPT_TEXT))
            self._skip(length - len(kept))
            return kept.decode("utf-8", "replace")
        if kind == _ARRAY:
            return self._array(self.number("<I"))
        if kind not in _SCALARS:
            raise GgufError("is damaged: its header has a value of an unknown type")
        return self.number(_SCALARS[kind])

    def _array(self, kind: int) -> Value:
        """Read an array: its items if they are a few numbers, else their count."""
        if kind == _STRING:
            return self._skip_texts(self.number("<Q"))
        if kind not in _SCALARS:
            raise GgufError("is damaged: its header has an array of an unknown type")
        layout = _SCALARS[kind]
        width = struct.calcsize(layout)
        count = self.number("<Q")
        if count > MAX_KEPT_ITEMS:
            self._skip(count * width)
            return count
        return list(struct.unpack(f"<{count}{layout[1]}", self.take(count * width)))

    def _skip_texts(self, count: int) -> int:
        if count > MAX_TEXTS:
            raise GgufError("is damaged: its header has too many entries")
        reach, data, number = self._reach, self._data, struct.Struct("<Q").unpack_from
        for _ in range(count):  # most of the time of a header is spent here
            end = reach(8)
            (length,) = number(data, self.position)
            self.position = end
            self.position = reach(length)
        return count

    def _skip(self, length: int) -> None:
        self.position = self._reach(length)

    def _reach(self, length: int, problem: str = "") -> int:
        """Have the next bytes in memory, and return where they end."""
        end = self.position + length
        if end > self._limit:
            raise GgufError(problem) if problem else self._cut()
        while len(self._data) < end:
            piece = self._file.read(_PIECE)
            if not piece:
                raise self._cut()
            self._data += piece
        return end

    def _cut(self) -> GgufError:
        if self._is_short:
            return GgufError("ends within its header, so the download was cut off, or it is damaged")
        return GgufError(f"is damaged: its header is longer than {MAX_HEADER_BYTES // 2**20} MiB")


def _header(fields: dict[str, Value], expected_size: int) -> GgufHeader:
    named = fields.get("general.architecture")
    architecture = named if isinstance(named, str) else ""
    vocabulary = fields.get("tokenizer.ggml.tokens")
    return GgufHeader(
        architecture=architecture,
        expected_size=expected_size,
        context_length=_size(fields, f"{architecture}.context_length"),
        vocabulary=vocabulary if isinstance(vocabulary, int) else 0,
        kv_bytes=_kv_bytes(fields, architecture),
        parts=_size(fields, "split.count") or 1,
    )


def _kv_bytes(fields: dict[str, Value], architecture: str) -> int:
    """The memory for one token in all layers, in 16-bit numbers."""
    attention = f"{architecture}.attention"
    if any(key.startswith((f"{attention}.sliding_window", f"{architecture}.ssm")) for key in fields):
        return 0
    if f"{attention}.kv_lora_rank" in fields:  # it keeps a compressed form
        return 0
    heads = fields.get(f"{attention}.head_count")
    kv_heads = fields.get(f"{attention}.head_count_kv", heads)
    layers = _size(fields, f"{architecture}.block_count")
    total = (
        sum(kv_heads) if isinstance(kv_heads, list) else layers * kv_heads if isinstance(kv_heads, int) else 0
    )
    width = 0
    if isinstance(heads, int) and heads > 0:
        width = _size(fields, f"{architecture}.embedding_length") // heads
    key = _size(fields, f"{attention}.key_length") or width
    value = _size(fields, f"{attention}.value_length") or width
    return max(0, 2 * total * (key + value))


def _size(fields: dict[str, Value], key: str) -> int:
    value = fields.get(key)
    return value if isinstance(value, int) and value > 0 else 0
