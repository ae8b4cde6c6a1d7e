"""One request without an agent: no streaming, no retry, no folding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from newel.providers.encode import to_json
from newel.providers.failures import Endpoint, not_protocol, refusal
from newel.providers.http import check_headers, check_url, client_options, too_long, translated
from newel.providers.loose import as_dict, parse
from newel.providers.sse import MAX_EVENT

MAX_TOKENS = 4096


def chat(
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]] | None = None,
    *,
    model: str,
    base_url: str,
    api_key: str | None,
    timeout: float = 120.0,
) -> dict[str, Any]:
    """Send messages in OpenAI's format, return the server's ``chat.completion`` object as it came.

    Raises ``ProviderError`` for every failure, ``ConfigError`` for a URL or key that cannot be.
    """
    import httpx2

    payload: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": MAX_TOKENS}
    if tools:
        payload["tools"] = tools
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    base_url = check_url(base_url)
    endpoint = Endpoint(f"{base_url}/chat/completions", model, api_key or "")
    with (
        translated(endpoint.url, timeout),
        httpx2.Client(**client_options(base_url, timeout)) as client,
        client.stream(
            "POST", endpoint.url, content=to_json(payload), headers=check_headers(headers), auth=None
        ) as response,
    ):
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > MAX_EVENT:
                raise too_long(MAX_EVENT)
    if not response.is_success:
        raise refusal(response.status_code, response.headers, bytes(body), endpoint)
    try:
        answer = as_dict(parse(bytes(body)))
    except ValueError:
        answer = {}
    if "choices" not in answer:
        raise not_protocol(bytes(body), response.headers.get("content-type", ""), endpoint)
    return answer
