"""What a server's refusal means, in words that say what to do next.

The server's own words are quoted, cut short and without the key; what kind of error it is follows from
the status, and where that says too little from the error's code and the phrases that servers use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

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

MAX_BODY = 64 * 1024
"""Bytes of a refusal that are read."""

MAX_QUOTE = 400
"""Characters of a server's words that are shown."""

_OVERFLOW = (
    r"(?i)context[_ ]length[_ ]exceeded|exceed_context_size|maximum context length|context[ -]?(?:window|size|length)"
    r"|(?:prompt|input|request) is too long|too many (?:input )?tokens|reduce the length"
    r"|exceeds? the (?:model's )?(?:maximum )?(?:number of |input )?tokens|maximum number of tokens"
    r"|greater than the context|string_above_max_length"
)
_OVERLOADED = r"(?i)overloaded|loading model|model is loading|temporarily unavailable"
_NO_CREDIT = r"(?i)insufficient_quota|billing|credit balance|payment required"
_RATE = r"(?i)rate.?limit"
_KINDS = {
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "invalid_request": 400,
    "rate_limit": 429,
}

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_TITLE = r"(?i)<title[^>]{0,100}>([^<]{1,400})"
_TAG = r"(?is)<(?:script|style)\b.*?(?:</(?:script|style)>|\Z)|<[^>]{0,300}>"


class EndpointDescription(NamedTuple):
    """Who was asked for what, for the words of an error. ``secret`` never appears in them."""

    url: str
    model: str = ""
    secret: str = ""


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, endpoint: EndpointDescription
) -> ProviderError:
    """The error that an HTTP answer with a status other than 2xx stands for."""
    words, codes = read_error(body, endpoint.secret)
    return classify(status, words, codes, endpoint, retry_after(headers))


def stream_error(error: object, endpoint: EndpointDescription) -> ProviderError:
    """The error that an error object within a stream, or in an answer with status 200, stands for."""
    words, codes = _fields(error)
    code = as_dict(error).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    if status is None:
        status = next((number for kind, number in _KINDS.items() if kind in codes), 500)
    return classify(status, quote(words, endpoint.secret), codes, endpoint, None)


def classify(
    status: int, words: str, codes: str, endpoint: EndpointDescription, pause: float | None
) -> ProviderError:
    """Find the class. ``words``: the server's, fit to be shown; ``codes``: its error's code and type;
    ``pause``: the seconds it asked for.
    """
    said = f"{codes} {words}"
    told = f": {as_sentence(words)}" if words else "."
    if 300 <= status < 400:
        return RequestRejected(
            f"{endpoint.url} redirects requests ({status}){told} Set the base URL to where it points.",
            status=status,
        )
    if (status in (400, 413, 422) or status >= 500) and not regex(_RATE).search(said) and is_overflow(said):
        return ContextOverflow(f"The conversation is too long for {endpoint.model}{told}", status=status)
    if status == 429 or (status == 413 and regex(_RATE).search(said)):
        if regex(_NO_CREDIT).search(said):
            return RequestRejected(f"The account at {endpoint.url} has no credit left{told}", status=status)
        return RateLimited(
            f"Too many requests to {endpoint.url} ({status}){told}", status=status, retry_after=pause
        )
    if status in (408, 425) or status >= 500 or regex(_OVERLOADED).search(said):
        return ServerFailed(
            f"{endpoint.url} {_how_it_failed(status, said)} ({status}){told}",
            status=status,
            retry_after=pause,
        )
    return RequestRejected(_rejection(status, told, endpoint), status=status)


def _how_it_failed(status: int, said: str) -> str:
    if status == 529 or "overloaded" in said.lower():
        return "is overloaded"
    return "is unavailable" if status == 503 or regex(_OVERLOADED).search(said) else "returned an error"


def is_overflow(words: str) -> bool:
    """Whether a refusal says that the conversation is too long for the model."""
    return regex(_OVERFLOW).search(words) is not None


def not_protocol(body: bytes, content_type: str, endpoint: EndpointDescription) -> BadResponse:
    """The error for an answer with status 200 that is something else than an answer."""
    words, _ = read_error(body, endpoint.secret)
    kind = content_type.partition(";")[0].strip() or "no content type"
    return BadResponse(
        f"{endpoint.url} did not answer as a chat completions server does ({kind}): {as_sentence(words or 'nothing')} "
        "Check the base URL; most end in /v1."
    )


def read_error(body: bytes, secret: str) -> tuple[str, str]:
    """A refusal's words, fit to be shown, and its codes: from JSON of any usual shape, HTML or plain text."""
    text = body[:MAX_BODY].decode("utf-8", "replace")
    try:
        value = parse(text)
    except ValueError:
        return quote(_plain(text), secret), ""
    words, codes = _fields(value)
    return quote(words or text, secret), codes


def quote(words: str, secret: str) -> str:
    """A server's words in one line, short, without control characters and without the key."""
    words = regex(_CONTROL).sub(" ", words)
    if secret:
        words = words.replace(secret, "***")
    words = " ".join(words.split())
    return words if len(words) <= MAX_QUOTE else f"{words[:MAX_QUOTE].rstrip()}…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The pause that the server asks for, in seconds: a number or a date; None if it names none."""
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


def _rejection(status: int, told: str, endpoint: EndpointDescription) -> str:
    url, model = endpoint.url, endpoint.model
    if status in (401, 403) and not endpoint.secret:
        return f"{url} requires an API key ({status}){told} Set LLM_AUTH_TOKEN or --api-key to one."
    if status in (401, 403):
        return f"{url} rejected the API key ({status}){told} Set LLM_AUTH_TOKEN or --api-key to a valid one."
    if status == 404:
        return (
            f"{url} was not found, or the server does not have the model '{model}' (404){told} "
            "Check the name of the model and the base URL; most end in /v1."
        )
    return f"{url} rejected the request ({status}){told}"


def _fields(value: Any, depth: int = 4) -> tuple[str, str]:
    """The message in an error object, and its code and type in one lower-case string."""
    if isinstance(value, str):
        return value, ""
    if items := as_list(value):
        value = items[0]
    fields = as_dict(value)
    for key in ("error", "detail"):
        if depth and (inner := fields.get(key)):
            words, codes = _fields(inner, depth - 1)
            return words or as_str(fields.get("message")), codes
    words = as_str(fields.get("message")) or as_str(fields.get("msg"))
    if raw := as_str(as_dict(fields.get("metadata")).get("raw")):
        words = f"{words} ({raw})"
    if location := ".".join(str(part) for part in as_list(fields.get("loc"))):
        words = f"{location}: {words}"
    names = (fields.get("code"), fields.get("type"), fields.get("status"), fields.get("param"))
    return words, " ".join(str(name) for name in names if name).lower()


def _plain(text: str) -> str:
    """The words of a page: its title, else its text."""
    if "<" not in text:
        return text
    if title := regex(_TITLE).search(text):
        return title[1]
    return regex(_TAG).sub(" ", text)
