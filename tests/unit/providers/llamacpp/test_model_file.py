"""If these fail, a model file that cannot work costs minutes, and the user does not learn what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.agent.errors import RequestRejected
from newel.providers.llamacpp.gguf import GgufHeader
from newel.providers.llamacpp.model_file import (
    DEFAULT_MAX_CONTEXT,
    FIXED_BYTES,
    MIN_CONTEXT,
    ModelFile,
    available_memory,
    load_model_file,
)
from tests.gguf_file import LLAMA, gguf

GIB = 2**30


def model(*, trained: int = 131_072, size: int = 4 * GIB, kv_bytes: int = 131_072) -> ModelFile:
    header = GgufHeader("llama", size, trained, 0, kv_bytes)
    return ModelFile(Path("/models/large.gguf"), size, header)


def refusal(path: Path) -> str:
    with pytest.raises(RequestRejected) as raised:
        load_model_file(path)
    return str(raised.value)


def test_a_complete_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf())
    found = load_model_file(path)
    assert (found.name, found.size) == ("tiny.gguf", len(gguf()))


def test_each_problem_of_a_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    assert "There is no model file" in refusal(tmp_path / "none.gguf")
    assert "is a folder" in refusal(tmp_path)
    (tmp_path / "page.gguf").write_text("<html>Not found</html>")
    assert "is not a GGUF file" in refusal(tmp_path / "page.gguf")
    assert "Download" in refusal(tmp_path / "page.gguf")
    (tmp_path / "cut.gguf").write_bytes(gguf()[:-1])
    assert "is incomplete" in refusal(tmp_path / "cut.gguf")
    (tmp_path / "head.gguf").write_bytes(gguf()[:100])
    assert "cut off" in refusal(tmp_path / "head.gguf")


def test_a_split_model_needs_its_first_part_and_all_others(tmp_path: Path) -> None:
    """Otherwise a missing part is reported after minutes, by an error of the loader."""
    data = gguf({**LLAMA, "split.count": 2})
    first, second = (tmp_path / f"big-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(data)
    assert f"There is no model file {second}" in refusal(first)
    second.write_bytes(data)
    assert load_model_file(first).size == 2 * len(data)
    assert "-00001-of-00002.gguf" in refusal(second)
    second.write_bytes(data[:-1])
    assert "is incomplete" in refusal(first)


def test_the_context_fits_the_model_and_the_memory() -> None:
    """Otherwise the machine swaps, or conversations are compacted for no reason."""
    assert model().plan(None, 64 * GIB).context == DEFAULT_MAX_CONTEXT
    assert model(trained=2_048).plan(None, 64 * GIB).context == 2_048
    assert model(trained=0).plan(None, 64 * GIB).context == DEFAULT_MAX_CONTEXT
    assert model().plan(None, 4 * GIB + FIXED_BYTES + 10_000 * 131_072).context == 9_984
    assert model().plan(100_000, 64 * GIB).context == 100_096
    assert model(trained=8_192).plan(100_000, 64 * GIB).context == 8_192
    assert model(kv_bytes=0).plan(None, 5 * GIB).context == DEFAULT_MAX_CONTEXT
    assert model().plan(None, None).context == DEFAULT_MAX_CONTEXT


def test_too_little_memory_is_reported_before_the_model_is_loaded() -> None:
    """Otherwise the system kills Newel's process, or another one."""
    with pytest.raises(
        RequestRejected, match=r"large.gguf needs 5.0 GB .* 4,096 tokens, and 4.3 GB is available"
    ):
        model().plan(None, 4 * GIB)
    with pytest.raises(RequestRejected, match="context of 100,000 tokens"):
        model().plan(100_000, 8 * GIB)
    least = 4 * GIB + FIXED_BYTES + MIN_CONTEXT * 131_072
    assert model().plan(None, least).context == MIN_CONTEXT


def test_earlier_conversations_get_only_what_is_left() -> None:
    fixed = 4 * GIB + FIXED_BYTES
    assert model().plan(4_096, fixed + GIB).cache_mib == 256
    assert model().plan(4_096, 64 * GIB).cache_mib == 2_048


def test_the_available_memory_is_known() -> None:
    memory = available_memory()
    assert memory is not None
    assert memory > 2**20
