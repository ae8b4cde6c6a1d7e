"""If these fail, a newcomer reads of the models on this machine in a line that the terminal breaks."""

from __future__ import annotations

import pytest

from newel.app.local_server import describe
from newel.providers.discovery import LocalServer

CODER = "qwen2.5-coder:14b-instruct"


@pytest.mark.parametrize(
    ("models", "listed"),
    [
        ([], "(no model)"),
        (["phi3", "gemma3"], "(phi3, gemma3)"),
        (["a", "b", "c", "d"], "(a, b, c …)"),
        ([CODER, "phi3", "gemma3:4b-it-qat"], f"({CODER}, phi3 …)"),
        ([CODER, CODER], f"({CODER} …)"),
        (["long" * 20, "phi3"], "(longlonglonglonglonglonglonglonglonglon… …)"),
    ],
)
def test_as_many_models_are_listed_as_fit_in_a_line(models: list[str], listed: str) -> None:
    line = f"{describe(LocalServer('Ollama', 'ollama://127.0.0.1:11434', models))}."
    assert line == f"Ollama answers at http://127.0.0.1:11434 {listed}."
