"""If these fail, a server that rejects one feature becomes unusable, or a rejection is hidden behind another one."""

from __future__ import annotations

from typing import Any

import pytest

from newel.agent.errors import ContextOverflow, ProviderError, RateLimited, RequestRejected
from newel.agent.messages import AssistantMessage, Message, TextContent, ThinkingContent, UserMessage
from newel.agent.ports import Model, ModelRequest
from newel.providers.anthropic.compat import MessagesCompat

THOUGHT = AssistantMessage([ThinkingContent("hm", field="anthropic", signature="s"), TextContent("So.")])
HISTORY: list[Message] = [UserMessage("Why?"), THOUGHT, UserMessage("And?")]


def request(model: str = "claude-opus-4-6", thinking: Any = "low", **options: Any) -> ModelRequest:
    return ModelRequest(Model(model, **options), "", HISTORY, thinking=thinking)


def rejected(words: str) -> ProviderError:
    return RequestRejected(f"http://h/v1/messages rejected the request (400): {words}", status=400)


def learned(words: str, asked: ModelRequest | None = None) -> MessagesCompat:
    adapted = MessagesCompat().adapted_to(rejected(words), asked or request())
    assert adapted is not None
    return adapted[0]


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (
            "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet",
            8192,
        ),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 16384]", 16384),
        (
            "max_tokens is not valid: integer above maximum value, expected a value <= 4096, but got 32000",
            4096,
        ),
    ],
)
def test_the_output_limit_is_learned(words: str, limit: int) -> None:
    """Otherwise a model with an unknown limit cannot be asked at all."""
    assert learned(words).max_tokens == limit


def test_a_limit_without_room_in_a_small_window_is_reduced() -> None:
    """Otherwise a conversation that has just begun is to be compacted, in vain."""
    words = "input length and `max_tokens` exceed context limit: {} + 32000 > 32768, decrease input length"
    adapted = MessagesCompat().adapted_to(ContextOverflow(words.format(1000), status=400), request())
    assert adapted is not None
    assert adapted[0].max_tokens == 16384
    assert MessagesCompat().adapted_to(ContextOverflow(words.format(30000), status=400), request()) is None


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "messages.1.content.0.type: Input tag 'thinking' found using 'type' does not match any of the expected tags",
    ],
)
def test_refused_thoughts_are_left_out_until_now(words: str) -> None:
    """Otherwise a compacted or restored conversation ends for good."""
    assert learned(words) == MessagesCompat(stale_until=THOUGHT.id)


def test_a_turn_that_began_without_thoughts_goes_on_without() -> None:
    """Otherwise the work of another model cannot be continued where the client's own check misjudges it."""
    words = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    assert learned(words, request("claude-haiku-4-5")) == MessagesCompat(unthinking_turn=HISTORY[-1].id)


@pytest.mark.parametrize(
    ("words", "asked", "feature"),
    [
        ('"thinking.type.enabled" is not supported. Use "thinking.type.adaptive" and "output_config.effort"', request("claude-haiku-4-5"), "enabled"),
        ("adaptive thinking is not supported on this model", request(), "adaptive"),
        ("thinking.type: Input tag 'adaptive' found using 'type' does not match any of the expected tags", request(), "adaptive"),
        ("thinking: Extra inputs are not permitted", request(), "adaptive"),
        ("thinking.adaptive.display: Extra inputs are not permitted", request(), "display"),
        ("This model does not support the effort parameter.", request(), "effort"),
        ('"thinking.type.disabled" is not supported for this model.', request("claude-opus-5", "off"), "disabled"),
        ("cache_control: Extra inputs are not permitted", request(), "automatic caching"),
        ('messages: roles must alternate between "user" and "assistant"', request(), "consecutive roles"),
        ("Streaming is not supported for this model", request(), "stream"),
    ],
)  # fmt: skip
def test_a_rejected_feature_is_omitted(words: str, asked: ModelRequest, feature: str) -> None:
    """Otherwise such a server could not be used at all."""
    assert learned(words, asked) == MessagesCompat(refused=frozenset({feature}))


def test_repeated_rejections_end() -> None:
    """Otherwise a server that refuses everything is asked forever."""
    compat, steps = MessagesCompat(), 0
    words = rejected(
        "unsupported: signature in thinking, stream, display, effort, cache_control, roles must alternate"
    )
    while adapted := compat.adapted_to(words, request()):
        compat, steps = adapted[0], steps + 1
        assert steps < 12


@pytest.mark.parametrize(
    "error",
    [
        rejected("messages: at least one message is required"),
        rejected("max_tokens: must be positive"),
        RateLimited("max_tokens > 100 per minute", status=429),
        RequestRejected("thinking is not supported for this key", status=401),
        ContextOverflow("prompt is too long: 208310 tokens > 200000 maximum", status=400),
    ],
)
def test_other_rejections_are_raised(error: ProviderError) -> None:
    """Otherwise the true reason would be hidden behind a second failure."""
    assert MessagesCompat().adapted_to(error, request()) is None
