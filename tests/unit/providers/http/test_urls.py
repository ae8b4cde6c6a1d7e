"""If these fail, the address of a model file leads to another file, or to the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.agent.errors import ConfigError
from newel.providers.http.urls import model_file_path, pulled_model, server_address, server_name


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("llamacpp:/models/a b.gguf", "/models/a b.gguf"),
        ("LlamaCpp:/models/model.gguf", "/models/model.gguf"),
        ("llamacpp:///models/model.gguf", "/models/model.gguf"),
        ("llamacpp:/models/../other/model.gguf", "/other/model.gguf"),
        ("llamacpp:~/model.gguf", str(Path.home() / "model.gguf")),
        ("http://host/v1", None),
        ("ollama://host", None),
    ],
)
def test_the_address_of_a_model_file_is_its_path(address: str, path: str | None) -> None:
    assert model_file_path(address) == path


@pytest.mark.parametrize(
    "address", ["llamacpp:", "llamacpp:model.gguf", "llamacpp:/a\nb", "llamacpp:~no-such-user/m"]
)
def test_an_address_without_an_absolute_path_is_refused(address: str) -> None:
    """A relative path would name another file in each folder, and a project could choose it."""
    with pytest.raises(ConfigError, match=r"llamacpp:/path/model\.gguf"):
        model_file_path(address)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("llamacpp:qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b"),
        (" LLAMACPP:my_model ", "my_model"),
        ("llamacpp:/models/a.gguf", None),
        ("llamacpp:model.gguf", None),
        ("llamacpp:..", None),
        ("llamacpp:../a", None),
        ("llamacpp:a/../../b", None),
        ("llamacpp:~", None),
        ("llamacpp:a b", None),
        ("llamacpp:a\n", "a"),
        ("llamacpp:a\nb", None),
        ("llamacpp:" + "a" * 101, None),
        ("http://host", None),
    ],
)
def test_the_name_of_a_pulled_model_is_no_path(address: str, name: str | None) -> None:
    """Otherwise an address could lead out of the folder of models."""
    assert pulled_model(address) == name


def test_trust_in_a_pulled_model_is_bound_to_its_name() -> None:
    assert server_address("llamacpp:qwen3-4b") == "llamacpp:qwen3-4b"
    assert server_name("llamacpp:qwen3-4b") == "llamacpp"


def test_a_decision_about_a_model_file_is_bound_to_its_path() -> None:
    """Otherwise trust in one file would cover another."""
    assert server_address("llamacpp:/models/x/../a b.gguf") == "llamacpp:/models/a%20b.gguf"
    assert server_name("llamacpp:/models/model.gguf") == "llamacpp"
