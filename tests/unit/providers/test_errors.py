"""If these fail, an agent retries what cannot succeed, gives up too early, or errors do not say what to do next."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest

from newel.agent.errors import ContextOverflow, ProviderError, RateLimited, RequestRejected, ServerFailed
from newel.providers.errors import (
    EndpointDescription,
    KeyRejected,
    error_from_event,
    error_from_response,
    parse_error_body,
    retry_after,
)

KEY = "sk-secret-1234"
WHERE = EndpointDescription("https://api.example/v1/chat/completions", "gpt-9", KEY)


def openai(message: str, code: str | None = None, kind: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, openai("Bad tool schema"), RequestRejected),
        (401, openai("Incorrect API key"), KeyRejected),
        (404, openai("No such model"), RequestRejected),
        (408, b"", ServerFailed),
        (429, openai("Slow down", kind="rate_limit_exceeded"), RateLimited),
        (429, openai("You exceeded your current quota", "insufficient_quota"), RequestRejected),
        (413, openai("Request too large: tokens per minute", "rate_limit_exceeded"), RateLimited),
        (500, b"oops", ServerFailed),
        (502, b"<html><title>Bad Gateway</title></html>", ServerFailed),
        (503, openai("Loading model", kind="unavailable_error"), ServerFailed),
        (529, openai("Overloaded", kind="overloaded_error"), ServerFailed),
        (400, openai("Overloaded", kind="overloaded_error"), ServerFailed),
        (302, b"", RequestRejected),
        (400, openai("This model's maximum context length is 8192 tokens."), ContextOverflow),
        (400, openai("too long", "context_length_exceeded"), ContextOverflow),
        (
            400,
            openai("the request exceeds the available context size", kind="exceed_context_size_error"),
            ContextOverflow,
        ),
        (400, openai("prompt is too long: 210000 tokens > 200000 maximum"), ContextOverflow),
        (
            400,
            openai("The input token count (9) exceeds the maximum number of tokens allowed (8)"),
            ContextOverflow,
        ),
        (500, openai("Context size has been exceeded."), ContextOverflow),
        (429, openai("context length exceeded"), RateLimited),
    ],
)
def test_rejections_have_the_right_class(status: int, body: bytes, kind: type[ProviderError]) -> None:
    """Otherwise the agent would try again in vain, give up too early, or not compact when it must."""
    error = error_from_response(status, {}, body, WHERE)
    assert type(error) is kind
    assert error.status == status


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (openai("No."), "No."),
        (b'{"error": "No."}', "No."),
        (b'{"error": {"message": {"deep": 1}}}', '{"error": {"message": {"deep": 1}}}'),
        (b'{"message": "No."}', "No."),
        (b'[{"error": {"message": "No."}}]', "No."),
        (b'{"detail": "No."}', "No."),
        (b'{"detail": [{"loc": ["body", "stream_options"], "msg": "extra"}]}', "body.stream_options: extra"),
        (b'{"error": {"message": "Provider error", "metadata": {"raw": "No."}}}', "Provider error (No.)"),
        (
            b"<!DOCTYPE html><html><head><title>502 Bad\nGateway</title></head><body>x</body></html>",
            "502 Bad Gateway",
        ),
        (b"<p>Nothing <b>here</b></p><script>alert(1)</script>", "Nothing here"),
        (b"plain\x1b[31m words\r\n", "plain [31m words"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 5000, "x" * 400 + "…"),
        (b'{"error":' * 900 + b"1" + b"}" * 900, None),
        (b"[" * 60000, None),
        (b"<title" * 10000, None),
        (b"<" * 60000, None),
        (b"<script" * 9000, None),
        (b"", ""),
    ],
)
def test_the_servers_message_is_quoted(body: bytes, words: str | None) -> None:
    """Otherwise the one sentence that explains the failure would be lost in a page, or harm the screen."""
    said, _ = parse_error_body(body, "")
    assert words is None or said == words
    assert len(said) <= 401


def test_the_key_is_never_shown() -> None:
    """Otherwise a key would stand in terminals, logs and session files: servers quote it."""
    error = error_from_response(401, {}, openai(f"Incorrect API key provided: {KEY}."), WHERE)
    assert str(error) == (
        "https://api.example/v1/chat/completions rejected the API key (401): Incorrect API key provided: ***. "
        "Set LLM_AUTH_TOKEN or --api-key to a valid one, or run `newel setup`."
    )


@pytest.mark.parametrize("placeholder", ["x", "none", "token", "EMPTY"])
def test_a_placeholder_for_a_key_is_no_secret(placeholder: str) -> None:
    """Otherwise the user of a local server, who enters any word for its key, would get messages with holes, and a long conversation
    would end instead of being summarized: the holes hide that it is too long.
    """
    where = msgspec.structs.replace(WHERE, secret=placeholder)
    words = "This model's maximum context length is exceeded: EMPTY none of the next 9000 tokens."
    error = error_from_response(400, {}, openai(words), where)
    assert isinstance(error, ContextOverflow)
    assert words.rstrip(".") in str(error)


def test_a_missing_key_and_a_wrong_name_have_a_remedy() -> None:
    """Otherwise a first user would not know what to do."""
    missing = error_from_response(401, {}, b"", msgspec.structs.replace(WHERE, secret=""))
    assert "requires an API key (401). Set LLM_AUTH_TOKEN or --api-key to one, or run `newel setup`." in str(
        missing
    )
    wrong = error_from_response(404, {}, openai("not found"), WHERE)
    assert "the model 'gpt-9' (404): not found" in str(wrong)
    assert "most end in /v1" in str(wrong)
    listing = error_from_response(404, {}, b"", msgspec.structs.replace(WHERE, model=""))
    assert "model" not in str(listing)  # nobody has asked for one


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "9" * 4000}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_in_seconds_is_used(headers: dict[str, str], seconds: float | None) -> None:
    """Otherwise the agent retries too early and is locked out for longer."""
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date_is_used() -> None:
    """Otherwise half of the gateways would be asked again at once."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    pause = retry_after({"retry-after": date})
    assert pause is not None
    assert 60 < pause <= 90


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "busy", "code": 429}, RateLimited),
        ({"message": "busy", "type": "rate_limit_error"}, RateLimited),
        ({"message": "bad", "type": "invalid_request_error"}, RequestRejected),
        ({"message": "who", "type": "authentication_error"}, KeyRejected),
        ({"message": "too long", "code": "context_length_exceeded"}, ContextOverflow),
        ({"message": "out of memory", "code": 500}, ServerFailed),
        ("out of memory", ServerFailed),
        ({"message": None}, ServerFailed),
        (True, ServerFailed),
    ],
)
def test_errors_inside_an_answer_have_the_right_class(error: object, kind: type[ProviderError]) -> None:
    """Otherwise an error in mid-stream would end a run that another try would save."""
    assert type(error_from_event(error, WHERE)) is kind


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "scripted-denial"}}', "(401): scripted-denial. Set LLM_AUTH_TOKEN"),
        (b'{"error": {"message": "Who are you?"}}', "(401): Who are you? Set LLM_AUTH_TOKEN"),
        (b'{"error": {"message": "No \\"key\\"."}}', '(401): No "key". Set LLM_AUTH_TOKEN'),
        (b'{"error": {"message": "See the docs:"}}', "(401): See the docs. Set LLM_AUTH_TOKEN"),
        (b"", "(401). Set LLM_AUTH_TOKEN"),
    ],
)
def test_the_servers_message_does_not_run_into_the_remedy(body: bytes, words: str) -> None:
    assert words in str(error_from_response(401, {}, body, WHERE))
