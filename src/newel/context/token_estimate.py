"""Estimates of token counts, where no server has counted."""

from __future__ import annotations

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)

IMAGE = 1_200
MESSAGE = 4
"""Tokens of a message in addition to its content."""


def estimate_text(text: str) -> int:
    """Four bytes a token: right for English and code, and close for other scripts."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) // 4


def estimate_message(message: AppMessage) -> int:
    match message:
        case UserMessage():
            parts = [TextContent(message.content)] if isinstance(message.content, str) else message.content
            tokens = sum(
                IMAGE if isinstance(part, ImageContent) else estimate_text(part.text) for part in parts
            )
            for attachment in message.attachments:
                tokens += (
                    IMAGE if attachment.type == "image" else estimate_text(attachment.extracted_text or "")
                )
        case AssistantMessage():
            tokens = 0
            for part in message.content:
                match part:
                    case TextContent():
                        tokens += estimate_text(part.text)
                    case ThinkingContent():
                        tokens += estimate_text(part.thinking)
                    case _:
                        tokens += estimate_text(part.name) + estimate_text(repr(part.arguments)) + MESSAGE
        case ToolResultMessage():
            tokens = estimate_text(message.output) + IMAGE * len(message.images)
        case CustomMessage():
            return 0
    return tokens + MESSAGE
