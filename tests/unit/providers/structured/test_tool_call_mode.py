"""If these fail, a small model writes broken calls, or a capable one is held to steps that it does not need."""

from __future__ import annotations

import pytest

from newel.providers.model_server import connect
from newel.providers.structured.tool_call_mode import parameter_count, suitable_mode


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("qwen2.5-coder:1.5b", 1.5),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 1.5),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", 7),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", 0.135),
        ("qwen3:30b-a3b", 30),
        ("llama3.2", None),
        ("gpt-4.1-mini", None),
        ("claude-opus-5", None),
        ("mistral-small-2b4c", None),
        ("mock", None),
    ],
)
def test_a_name_tells_the_size(name: str, size: float | None) -> None:
    assert parameter_count(name) == size


@pytest.mark.parametrize(
    ("url", "name", "mode"),
    [
        ("ollama://127.0.0.1:9", "qwen2.5-coder:1.5b", "schema"),
        ("ollama://127.0.0.1:9", "qwen3:8b", "native"),
        ("ollama://127.0.0.1:9", "qwen3:1.7b", "schema"),
        ("ollama://127.0.0.1:9", "qwen2.5-coder:32b", "native"),
        ("ollama://127.0.0.1:9", "gpt-oss:20b", "native"),
        ("ollama://127.0.0.1:9", "llama3.2", "native"),
        ("http://127.0.0.1:9/v1", "phi-4-mini-3.8b", "schema"),
        ("https://api.example.com/v1", "llama-3.1-8b-instant", "native"),
        ("llamacpp:/models/gemma-2b.gguf", "gemma-2b.gguf", "schema"),
    ],
)
def test_small_local_models_work_in_steps(url: str, name: str, mode: str) -> None:
    assert suitable_mode(name, connect(url, None)) == mode


def test_an_api_that_knows_no_schema_keeps_native_calls() -> None:
    assert suitable_mode("tiny-1b", connect("http://127.0.0.1:9/v1", None, "anthropic")) == "native"
