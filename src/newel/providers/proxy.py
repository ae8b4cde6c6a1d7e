"""A model asked through a Newel server: the server keeps the keys, the tools run here.

The wire::

    POST {url}/api/transport/run
    Authorization: Bearer <token>
    Content-Type: application/json

    <ModelRequest>

answers with server-sent events, each with the JSON of one struct of ``newel.agent`` as its data:

    ===========  ==========================================================================
    ``delta``    ``TextDelta``, ``ThinkingDelta`` or ``ToolCallDelta``
    ``retry``    ``Retry``: the server asks the model again, and what came before is void
    ``routed``   ``ModelRouted``: which of the server's models answers
    ``message``  ``AssistantMessage``: the whole answer; the last event
    ``error``    ``ErrorEvent``: there is no answer; the last event
    ===========  ==========================================================================

The server retries and computes costs; closing the connection cancels its request. A refusal by the
proxy itself is an HTTP status with ``{"error": {"message": …}}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from functools import cache
from typing import TypeVar

import msgspec

from newel.agent.agent import ProviderTransport
from newel.agent.errors import BadResponse, ConnectionFailed, ProviderError
from newel.agent.events import Delta, ErrorEvent, ModelRouted, Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.providers.errors import EndpointDescription, read_error
from newel.providers.http.client import HttpClient, HttpResponse
from newel.providers.http.sse import EventParser, ServerEvent
from newel.text.json import decode_json, to_json

PATH = "/api/transport/run"
TIMEOUT_S = 300.0
"""Seconds without a byte."""

T = TypeVar("T")


class AppTransport(ProviderTransport):
    """Runs the loop and the tools here, and sends model requests through the Newel server at ``url``."""

    def __init__(self, url: str, token: str) -> None:
        self._relay = ModelProxy(url, token)
        super().__init__(self._relay)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._relay.aclose()


class ModelProxy:
    """A ``Provider`` behind a Newel server at ``url``."""

    def __init__(self, url: str, token: str) -> None:
        self._token = token
        headers = {"Accept": "text/event-stream", "Content-Type": "application/json", "User-Agent": "newel"}
        self._http = HttpClient(
            url, headers=headers | {"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S
        )

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Send the request through the server; see ``Provider.complete``."""
        endpoint = EndpointDescription(self._http.display_url(PATH), request.model.id, self._token)
        async with self._http.request("POST", PATH, to_json(request)) as response:
            if not response.ok:
                raise await read_error(response, endpoint)
            message = await _read(response, on_delta)
        if message is None:
            raise ConnectionFailed(f"{endpoint.url} closed the connection before the response was complete.")
        return message

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


async def _read(response: HttpResponse, on_delta: OnDelta) -> AssistantMessage | None:
    """Pass on the deltas and return the message; None if the stream ends before it."""
    parser = EventParser()
    message: AssistantMessage | None = None
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            for event in parser.feed(chunk):
                match event.name:
                    case "delta":
                        await on_delta(_decode(event, _decoder(Delta)))
                    case "retry":
                        await on_delta(_decode(event, _decoder(Retry)))
                    case "routed":
                        await on_delta(_decode(event, _decoder(ModelRouted)))
                    case "message":
                        message = _decode(event, _decoder(AssistantMessage))
                    case "error":
                        raise _error(_decode(event, _decoder(ErrorEvent)))
                    case _:
                        pass  # a newer server may send more
    return message


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def _decode(event: ServerEvent, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decode_json(event.data, decoder)
    except msgspec.DecodeError as error:
        raise BadResponse(
            f"The Newel server sent a '{event.name}' event that is invalid: {error}."
        ) from error


def _error(event: ErrorEvent) -> ProviderError:
    """The server's error, as the same class if it is a provider's."""
    return next((kind for kind in _kinds(ProviderError) if kind("").code == event.code), ProviderError)(
        event.message
    )


def _kinds(kind: type[ProviderError]) -> Iterator[type[ProviderError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
