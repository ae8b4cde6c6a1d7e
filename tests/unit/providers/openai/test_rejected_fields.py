"""If these fail, a server that rejects one field becomes unusable."""

from __future__ import annotations

import pytest

from newel.agent.errors import ContextOverflow, ProviderError, RateLimited, RequestRejected
from newel.agent.ports import Model, ModelRequest
from newel.providers.openai.encoder import ServerCompat

REQUEST = ModelRequest(Model("m", max_output=100), "", [], thinking="low")
PLAIN = ModelRequest(Model("m"), "", [])


def rejected(words: str) -> ProviderError:
    return RequestRejected(f"http://h/v1/chat/completions rejected the request (400): {words}", status=400)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("body.stream_options: Extra inputs are not permitted", ServerCompat(stream_options=False)),
        ("Unrecognized request argument supplied: stream_options", ServerCompat(stream_options=False)),
        ("Unrecognized request argument supplied: reasoning_effort", ServerCompat(reasoning_effort=False)),
        ('"llama3" does not support thinking', ServerCompat(reasoning_effort=False)),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            ServerCompat(limit="max_completion_tokens"),
        ),
        ("Streaming is not supported for this model", ServerCompat(stream=False)),
        ("stream: true cannot be used with tools", ServerCompat(stream=False)),
        (
            "Missing reasoning_content field in the assistant message",
            ServerCompat(reasoning_back="reasoning_content"),
        ),
        (
            "The `reasoning_content` in the thinking mode must be passed back",
            ServerCompat(reasoning_back="reasoning_content"),
        ),
    ],
)
def test_a_rejected_field_is_omitted(words: str, expected: ServerCompat) -> None:
    """Otherwise such a server could not be used at all."""
    adapted = ServerCompat().adapted_to(rejected(words), REQUEST)
    assert adapted is not None
    assert adapted[0] == expected


def test_repeated_rejections_end() -> None:
    """Otherwise a server that refuses everything is asked forever."""
    compat, steps = ServerCompat(), 0
    words = rejected("stream_options stream reasoning_effort max_tokens max_completion_tokens unsupported")
    while adapted := compat.adapted_to(words, REQUEST):
        compat, steps = adapted[0], steps + 1
        assert steps < 9
    assert compat == ServerCompat(stream=False, stream_options=False, reasoning_effort=False, limit=None)


@pytest.mark.parametrize(
    ("error", "request_"),
    [
        (rejected("'messages' is too short"), REQUEST),
        (rejected("max_tokens must be positive"), PLAIN),
        (rejected("reasoning_effort is unknown"), PLAIN),
        (RateLimited("max_tokens per minute", status=429), REQUEST),
        (RequestRejected("stream not supported for this key", status=401), REQUEST),
        (ContextOverflow("too long; stream_options", status=400), REQUEST),
    ],
)
def test_other_rejections_are_raised(error: ProviderError, request_: ModelRequest) -> None:
    """Otherwise the true reason would be hidden behind a second failure."""
    assert ServerCompat().adapted_to(error, request_) is None


def test_an_output_limit_beyond_the_window_is_dropped() -> None:
    """Otherwise a small model would be told to compact a conversation that has just begun."""
    error = ContextOverflow("'max_tokens' is too large; maximum context length is 4096", status=400)
    adapted = ServerCompat().adapted_to(error, REQUEST)
    assert adapted is not None
    assert adapted[0] == ServerCompat(limit=None)
