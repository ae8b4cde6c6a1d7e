"""The APIs that the server speaks. Each reads requests into the same conversation and writes the same answers in its own form."""

from __future__ import annotations

from mock_llm_server.dialects.anthropic import AnthropicMessages
from mock_llm_server.dialects.base import Dialect
from mock_llm_server.dialects.chat_completions import ChatCompletions
from mock_llm_server.dialects.gemini import Gemini
from mock_llm_server.dialects.ollama import Ollama
from mock_llm_server.dialects.responses import Responses

__all__ = ["CHAT_COMPLETIONS", "DIALECTS", "Dialect"]

CHAT_COMPLETIONS = ChatCompletions()
DIALECTS: tuple[Dialect, ...] = (AnthropicMessages(), CHAT_COMPLETIONS, Responses(), Gemini(), Ollama())
"""The first that handles a request answers it. Some list models under the same path; a header tells them apart."""
