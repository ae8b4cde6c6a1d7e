"""Map error responses of model servers to our errors, with messages that say what to do next.

The server's message is quoted, shortened and without the key. The status determines the class; where it is ambiguous, the
error's code and the phrases that servers use do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from newel.agent.errors import (
    BadResponse,
    ContextOverflow,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
    as_sentence,
)
from newel.text.json import as_dict, as_list, as_str, parse, regex

if TYPE_CHECKING:
    from newel.providers.http.client import HttpResponse

MAX_ERROR_BODY = 64 * 1024
"""Bytes of an error response that are read."""

MAX_QUOTE = 400
"""Characters of a server's message that are shown."""

SHORTEST_KEY = 6
"""Characters: a shorter key is a placeholder, which may be part of any word (`x`, `none`, `token`)."""

_OVERFLOW = (
    r"(?i)context[_ ]length[_ ]exceeded|exceed_context_size|maximum context length|context[ -]?(?:window|size|length|limit)"
    r"|(?:prompt|input|request) is too long|too many (?:input )?tokens|reduce the length"
    r"|exceeds? the (?:model's )?(?:maximum )?(?:number of |input )?tokens|maximum number of tokens"
    r"|greater than the context|string_above_max_length|request_too_large"
)
_OVERLOADED = r"(?i)overloaded|loading model|model is loading|temporarily unavailable"
_NO_CREDIT = r"(?i)insufficient_quota|billing|credit balance|payment required"
_RATE = r"(?i)rate.?limit"
_EXHAUSTED = "resource_exhausted"
"""The status of Google's APIs both for a short pause and for a quota that is gone; their text mentions billing in either case."""
_QUOTA_GONE = r"(?i)per_?day|credits? (?:are|is) depleted|spend(?:ing)? cap|\blimit: 0\b"
_BAD_KEY = "api_key_invalid"
_UNSUPPORTED_PLACE = "failed_precondition"
_MISSING = (404, 405, 501)
_NO_ENDPOINT = r"(?i)unexpected endpoint"
"""LM Studio's words for a path that it does not serve, with status 200."""
_NO_ITEM = r"(?i)\bmodel|\bitem\b|deployment"
"""What a server that has the path may not find."""
_KINDS = {
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "invalid_request": 400,
    "rate_limit": 429,
    "billing": 402,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "invalid_": 400,
    "unsupported_": 400,
    "image": 400,
    "policy": 400,
}
"""Statuses by a part of the code or type of an error without one."""

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_TITLE = r"(?i)<title[^>]{0,100}>([^<]{1,400})"
_TAG = r"(?is)<(?:script|style)\b.*?(?:</(?:script|style)>|\Z)|<[^>]{0,300}>"


class EndpointMissing(RequestRejected, code="request_rejected"):
    """The server does not have the path; a model that it does not have is another error."""


class KeyRejected(RequestRejected, code="request_rejected"):
    """The server refuses the key, or requires one. ``reason`` is the message without the remedy, for a program that asks for a key."""

    def __init__(self, message: str, *, reason: str = "", status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.reason = reason or message


class EndpointDescription(msgspec.Struct, frozen=True):
    """The URL and model of a request, for error messages. ``secret`` never appears in them, unless it is too
    short to be a key. ``api`` is what the server should be,
    ``base_hint`` what to check about its address, ``key_hint`` how to set a key.
    """

    url: str
    model: str = ""
    secret: str = ""
    api: str = "a chat completions server"
    base_hint: str = "most end in /v1"
    key_hint: str = "Set LLM_AUTH_TOKEN or --api-key"


def error_from_response(
    status: int, headers: Mapping[str, str], body: bytes, endpoint: EndpointDescription
) -> ProviderError:
    """Return the error for a response with a status other than 2xx."""
    message, codes = parse_error_body(body, endpoint.secret)
    pause = retry_after(headers)
    return classify(
        status, message, codes, endpoint, _retry_delay(_decoded(body)) if pause is None else pause
    )


async def read_error(response: HttpResponse, endpoint: EndpointDescription) -> ProviderError:
    """Read the body of a response with a status other than 2xx, and return its error."""
    body = await response.read_prefix(MAX_ERROR_BODY)
    return error_from_response(response.status, response.headers, body, endpoint)


def error_from_event(error: object, endpoint: EndpointDescription) -> ProviderError:
    """Return the error for an error object within a stream, or in a response with status 200."""
    message, codes = _message_and_codes(error)
    code = as_dict(error).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    if status is None:
        status = next((number for kind, number in _KINDS.items() if kind in codes), 500)
    pause = _retry_delay(error)
    return classify(status, quote(message, endpoint.secret), codes, endpoint, pause)


def classify(
    status: int, message: str, codes: str, endpoint: EndpointDescription, pause: float | None
) -> ProviderError:
    """Return the error of the right class.

    ``message`` is the server's, as ``quote`` returns it; ``codes`` its error's code and type; ``pause`` the seconds that it
    asks for.
    """
    text = f"{codes} {message}"
    detail = f": {as_sentence(message)}" if message else "."
    if 300 <= status < 400:
        return RequestRejected(
            f"{endpoint.url} redirects requests ({status}){detail} Set the base URL to where it points.",
            status=status,
        )
    if _is_missing(status, text):
        status = status if status in _MISSING else 404
        return EndpointMissing(_rejection_message(status, detail, endpoint), status=status)
    if (status in (400, 413, 422) or status >= 500) and not regex(_RATE).search(text) and is_overflow(text):
        return ContextOverflow(f"The conversation is too long for {endpoint.model}{detail}", status=status)
    if status == 402:
        return RequestRejected(f"The account at {endpoint.url} has no credit left{detail}", status=status)
    if status == 429 or (status == 413 and regex(_RATE).search(text)):
        if _EXHAUSTED in codes and regex(_QUOTA_GONE).search(text):
            return RequestRejected(
                f"The quota for {endpoint.model} at {endpoint.url} is used up{detail} Wait until it is renewed, choose "
                "another model, or raise the quota.",
                status=status,
            )
        if _EXHAUSTED not in codes and regex(_NO_CREDIT).search(text):
            return RequestRejected(f"The account at {endpoint.url} has no credit left{detail}", status=status)
        return RateLimited(
            f"Too many requests to {endpoint.url} ({status}){detail}", status=status, retry_after=pause
        )
    if status in (408, 425, 499) or status >= 500 or regex(_OVERLOADED).search(text):
        return ServerFailed(
            f"{endpoint.url} {_failure_phrase(status, text)} ({status}){detail}",
            status=status,
            retry_after=pause,
        )
    if _BAD_KEY in codes:
        status = 401
    elif _UNSUPPORTED_PLACE in codes and "location" in message:
        detail += " Use a server that serves your location."
    if status in (401, 403):
        return _key_error(status, detail, endpoint)
    return RequestRejected(_rejection_message(status, detail, endpoint), status=status)


def _is_missing(status: int, text: str) -> bool:
    if status in _MISSING:
        return not regex(_NO_ITEM).search(text)
    return regex(_NO_ENDPOINT).search(text) is not None


def _failure_phrase(status: int, text: str) -> str:
    if status == 529 or "overloaded" in text.lower():
        return "is overloaded"
    return "is unavailable" if status == 503 or regex(_OVERLOADED).search(text) else "returned an error"


def is_overflow(message: str) -> bool:
    """Whether an error message says that the conversation is too long for the model."""
    return regex(_OVERFLOW).search(message) is not None


def error_from_foreign_body(body: bytes, content_type: str, endpoint: EndpointDescription) -> BadResponse:
    """Return the error for a response with status 200 that is not one of the API."""
    message, _ = parse_error_body(body, endpoint.secret)
    kind = content_type.partition(";")[0].strip() or "no content type"
    return BadResponse(
        f"{endpoint.url} did not answer like {endpoint.api} ({kind}): {as_sentence(message or 'nothing')} "
        f"Check the base URL; {endpoint.base_hint}."
    )


def parse_error_body(body: bytes, secret: str) -> tuple[str, str]:
    """Return the quoted message and the codes of an error body: JSON of any common shape, HTML or plain text."""
    text = body[:MAX_ERROR_BODY].decode("utf-8", "replace")
    try:
        value = parse(text)
    except ValueError:
        return quote(_page_text(text), secret), ""
    message, codes = _message_and_codes(value)
    return quote(message or text, secret), codes


def quote(message: str, secret: str) -> str:
    """Return a server's message on one line, shortened, without control characters and without the key."""
    message = regex(_CONTROL).sub(" ", message)
    if len(secret) >= SHORTEST_KEY:
        message = message.replace(secret, "***")
    message = " ".join(message.split())
    return message if len(message) <= MAX_QUOTE else f"{message[:MAX_QUOTE].rstrip()}…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause that the server asks for, in seconds, given as a number or a date; None if it names none."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if regex(r"\d{1,9}(?:\.\d{1,9})?").fullmatch(value):
            return float(value) * unit
    if not value:
        return None
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _retry_delay(value: object) -> float | None:
    """Return the pause in the details of an error of Google's APIs, such as ``"1.5s"``, in seconds; None if they name none."""
    fields = as_dict(next(iter(as_list(value)), value))
    for each in map(as_dict, as_list(as_dict(fields.get("error") or fields).get("details"))):
        delay = as_str(each.get("retryDelay"))
        if regex(r"\d{1,9}(?:\.\d{1,9})?s").fullmatch(delay):
            return float(delay[:-1])
    return None


def _decoded(body: bytes) -> object:
    try:
        return parse(body)
    except ValueError:
        return None


def _key_error(status: int, detail: str, endpoint: EndpointDescription) -> KeyRejected:
    fault, remedy = ("rejected the", "a valid one") if endpoint.secret else ("requires an", "one")
    reason = f"{endpoint.url} {fault} API key ({status}){detail}"
    return KeyRejected(
        f"{reason} {endpoint.key_hint} to {remedy}, or run `newel setup`.", reason=reason, status=status
    )


def _rejection_message(status: int, detail: str, endpoint: EndpointDescription) -> str:
    url, model = endpoint.url, endpoint.model
    if status in _MISSING and not model:
        return f"{url} was not found ({status}){detail} Check the base URL; {endpoint.base_hint}."
    if status in _MISSING:
        return (
            f"{url} was not found, or the server does not have the model '{model}' ({status}){detail} "
            f"Check the name of the model and the base URL; {endpoint.base_hint}."
        )
    return f"{url} rejected the request ({status}){detail}"


def _message_and_codes(value: Any, depth: int = 4) -> tuple[str, str]:
    """Return the message of an error object, and its code and type in one lower-case string."""
    if isinstance(value, str):
        return value, ""
    if items := as_list(value):
        value = items[0]
    fields = as_dict(value)
    for key in ("error", "detail"):
        if depth and (inner := fields.get(key)):
            message, codes = _message_and_codes(inner, depth - 1)
            return message or as_str(fields.get("message")), codes
    message = as_str(fields.get("message")) or as_str(fields.get("msg"))
    if raw := as_str(as_dict(fields.get("metadata")).get("raw")):
        message = f"{message} ({raw})"
    if location := ".".join(str(part) for part in as_list(fields.get("loc"))):
        message = f"{location}: {message}"
    names = [fields.get("code"), fields.get("type"), fields.get("status"), fields.get("param")]
    for each in map(as_dict, as_list(fields.get("details"))):
        names.append(each.get("reason"))
        names += [as_dict(violation).get("quotaId") for violation in as_list(each.get("violations"))]
    return message, " ".join(str(name) for name in names if name).lower()


def _page_text(text: str) -> str:
    """Return the title of a page, else its text."""
    if "<" not in text:
        return text
    if title := regex(_TITLE).search(text):
        return title[1]
    return regex(_TAG).sub(" ", text)
