"""The names and values of OpenTelemetry's semantic conventions for generative AI, in the version that Newel follows (1.42)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from newel.agent.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    UserMessage,
)
from newel.session.masking import Masker
from newel.text.json import to_json

MAX_CONTENT: Final = 32_000
"""Characters of a captured text."""


_VENDORS: Final = (
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("openai.azure.com", "azure.ai.openai"),
    ("amazonaws.com", "aws.bedrock"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.x.ai", "x_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.cohere.com", "cohere"),
)
"""Ends of addresses, and the names that the conventions have for who is there."""
_FINISH: Final = {"toolUse": "tool_call", "aborted": "cancelled"}

Attributes = dict[str, Any]


def provider_name(host: str) -> str:
    """The conventions' name of a model's host. It stands for the format: every other server speaks OpenAI's."""
    return next(
        (name for end, name in _VENDORS if host == end or host.endswith((f".{end}", f"-{end}"))), "openai"
    )


def server_attributes(base_url: str | None) -> Attributes:
    """Where the model is, without the path and credentials."""
    try:
        parts = urlsplit(base_url or "")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return {}
    if not parts.hostname or port is None:
        return {}
    return {"server.address": parts.hostname, "server.port": port}


def usage_attributes(usage: Usage, cost: float | None) -> Attributes:
    """Tokens as the server reported them, and the cost in US dollars if the price is known; the conventions have no name for that."""
    found: Attributes = {}
    if usage.total:
        found["gen_ai.usage.input_tokens"] = usage.input
        found["gen_ai.usage.output_tokens"] = usage.output
    if usage.cache_read:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
    if usage.cache_write:
        found["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write
    if cost is not None:
        found["newel.cost"] = cost
    return found


def finish_reason(message: AssistantMessage) -> str:
    return _FINISH.get(message.stop_reason, message.stop_reason)


class CapturedText:
    """Texts for attributes, with secrets masked and cut."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets

    def text(self, text: str) -> str:
        masked = Masker(self._secrets).text(text[: 2 * MAX_CONTENT])
        return masked if len(masked) <= MAX_CONTENT else masked[:MAX_CONTENT] + "…"

    def json(self, value: Any) -> str:
        return self.text(to_json(value).decode())

    def of_user(self, message: UserMessage) -> str:
        return self._messages("user", [{"type": "text", "content": self.text(message.text)}])

    def of_answer(self, message: AssistantMessage) -> str:
        parts = [self._part(part) for part in message.content]
        return self._messages("assistant", parts, finish_reason=finish_reason(message))

    def _messages(self, role: str, parts: list[Attributes], **more: str) -> str:
        return to_json([{"role": role, "parts": parts, **more}]).decode()

    def _part(self, part: TextContent | ThinkingContent | ToolCall) -> Attributes:
        match part:
            case TextContent():
                return {"type": "text", "content": self.text(part.text)}
            case ThinkingContent():
                return {"type": "reasoning", "content": self.text(part.thinking)}
            case ToolCall():
                return {
                    "type": "tool_call",
                    "id": part.id,
                    "name": part.name,
                    "arguments": self.json(part.arguments),
                }
