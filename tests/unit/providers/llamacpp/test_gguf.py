"""If these fail, a damaged model file crashes Newel, takes its memory, or is loaded for minutes before it fails."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.providers.llamacpp.gguf import MAX_ENTRIES, MAX_TENSORS, MAX_TEXTS, GgufError, read_header
from tests.gguf_file import LLAMA, TENSORS, gguf, header, text, value


def read(folder: Path, data: bytes) -> object:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return read_header(path)


def test_the_sizes_of_a_model_are_read(tmp_path: Path) -> None:
    """Otherwise the context is chosen blindly."""
    data = gguf()
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    found = read_header(path)
    assert (found.architecture, found.context_length, found.vocabulary) == ("llama", 2_048, 3)
    assert found.expected_size == len(data)
    assert found.kv_bytes == 2 * 2 * 2 * (16 + 16)  # 16 bits, layers, heads, keys and values


def test_heads_may_differ_by_layer(tmp_path: Path) -> None:
    """Otherwise the memory of newer models is unknown."""
    path = tmp_path / "model.gguf"
    path.write_bytes(
        gguf({**LLAMA, "llama.attention.head_count_kv": [1, 3], "llama.attention.key_length": 8})
    )
    assert read_header(path).kv_bytes == 2 * (1 + 3) * (8 + 16)


@pytest.mark.parametrize("key", ["attention.sliding_window", "ssm.state_size", "attention.kv_lora_rank"])
def test_models_that_do_not_keep_all_tokens_are_not_estimated(tmp_path: Path, key: str) -> None:
    """Otherwise models that fit are refused."""
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf({**LLAMA, f"llama.{key}": 512}))
    assert read_header(path).kv_bytes == 0


def test_a_file_cut_anywhere_in_its_header_is_refused(tmp_path: Path) -> None:
    """Otherwise an interrupted download ends in a traceback."""
    data = header()
    for end in range(len(data)):
        with pytest.raises(GgufError):
            read(tmp_path, data[:end])


def test_a_file_cut_behind_its_header_is_too_short(tmp_path: Path) -> None:
    data = gguf()
    for end in range(len(header()), len(data)):
        path = tmp_path / "model.gguf"
        path.write_bytes(data[:end])
        assert read_header(path).expected_size > end


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too short"),
        (b"PK\3\4" + bytes(64), "does not begin with 'GGUF'"),
        (header(version=1), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version"),
        (header({"k": 1}).replace(value(1), struct.pack("<II", 77, 1)), "unknown type"),
        (header({"k": [1]}).replace(value([1]), struct.pack("<IIQI", 9, 9, 1, 1)), "unknown type"),
        (header(tensors=[("t", (1,) * 5, 0)]), "too many dimensions"),
    ],
)
def test_other_files_are_refused_with_the_reason(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(GgufError, match=words):
        read(tmp_path, data)


HUGE = [2**63, 2**64 - 1, 2**40, 10**7]


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("at", ["tensors", "entries", "key", "string", "strings", "numbers"])
def test_counts_beyond_the_file_cost_nothing(tmp_path: Path, at: str, count: int) -> None:
    """Otherwise eight bytes in a file take all the memory."""
    number = struct.pack("<Q", count)
    start = b"GGUF" + struct.pack("<I", 3)
    one_entry = start + struct.pack("<QQ", 0, 1)
    data = {
        "tensors": start + number + struct.pack("<Q", 0),
        "entries": start + struct.pack("<Q", 0) + number,
        "key": one_entry + number,
        "string": one_entry + text("k") + struct.pack("<I", 8) + number,
        "strings": one_entry + text("k") + struct.pack("<II", 9, 8) + number,
        "numbers": one_entry + text("k") + struct.pack("<II", 9, 4) + number,
    }[at] + bytes(4_096)
    tracemalloc.start()
    try:
        with pytest.raises(GgufError):
            read(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


STRINGS = text("k") + struct.pack("<IIQ", 9, 8, MAX_TEXTS + 1)


@pytest.mark.parametrize(
    ("tensors", "entries", "entry"),
    [(MAX_TENSORS + 1, 0, b""), (0, MAX_ENTRIES + 1, b""), (0, 1, STRINGS)],
    ids=["tensors", "entries", "strings"],
)
def test_many_entries_are_refused_even_if_they_are_there(
    tmp_path: Path, tensors: int, entries: int, entry: bytes
) -> None:
    """Otherwise a file of a few megabytes keeps a processor busy."""
    data = b"GGUF" + struct.pack("<IQQ", 3, tensors, entries) + entry + bytes(20 * 2**20)
    with pytest.raises(GgufError, match="too many entries"):
        read(tmp_path, data)


def test_hostile_sizes_of_tensors_only_make_the_file_too_short(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(header(tensors=[("t", (2**63, 2**63, 2**63, 2**63), 0)]))
    assert read_header(path).expected_size > 2**64


@given(st.integers(0, len(gguf()) - 1), st.binary(min_size=1, max_size=8))
def test_damage_is_refused_or_read_but_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes
) -> None:
    data = bytearray(gguf(LLAMA, TENSORS))
    data[at : at + len(junk)] = junk
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(data)
    with suppress(GgufError):
        assert read_header(path).expected_size > 0
