"""Small GGUF files for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

ALIGNMENT = 32
F32 = 0

Tensor = tuple[str, tuple[int, ...], int]
"""Name, dimensions, and the number of the type."""


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: int | str | Sequence[int] | Sequence[str]) -> bytes:
    """A value with its type: unsigned 32-bit numbers and strings, and arrays of them."""
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if item and isinstance(item[0], str):
        return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(text(str(each)) for each in item)
    return struct.pack(f"<IIQ{len(item)}I", 9, 4, len(item), *item)


LLAMA: Mapping[str, int | str | Sequence[int] | Sequence[str]] = {
    "general.architecture": "llama",
    "llama.context_length": 2_048,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["a", "b", "ab"],
}
TENSORS: Sequence[Tensor] = (("first", (8, 4), F32), ("second", (16,), F32))


def header(
    fields: Mapping[str, int | str | Sequence[int] | Sequence[str]] = LLAMA,
    tensors: Sequence[Tensor] = TENSORS,
    *,
    version: int = 3,
) -> bytes:
    """A header, with the tensors one after another."""
    entries = b"".join(text(name) + value(item) for name, item in fields.items())
    described, offset = b"", 0
    for name, dimensions, kind in tensors:
        described += text(name) + struct.pack(
            f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset
        )
        offset += 4 * product(dimensions)
    return b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(fields)) + entries + described


def gguf(
    fields: Mapping[str, int | str | Sequence[int] | Sequence[str]] = LLAMA,
    tensors: Sequence[Tensor] = TENSORS,
) -> bytes:
    """A complete file; its tensors are 32-bit zeros."""
    head = header(fields, tensors)
    padding = -len(head) % ALIGNMENT
    return head + bytes(padding + sum(4 * product(dimensions) for _, dimensions, _ in tensors))


def product(dimensions: Sequence[int]) -> int:
    total = 1
    for each in dimensions:
        total *= each
    return total
