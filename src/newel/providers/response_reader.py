"""Reads a model's response. Loaded when the request has been sent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Protocol

import anyio
from anyio.lowlevel import checkpoint

from newel.agent.errors import BadResponse, ConnectionFailed, ProviderError
from newel.agent.events import Delta
from newel.agent.messages import AssistantMessage
from newel.agent.ports import OnDelta
from newel.providers.errors import (
    MAX_ERROR_BODY,
    EndpointDescription,
    error_from_event,
    error_from_foreign_body,
    quote,
)
from newel.providers.http.client import HttpResponse, collect
from newel.providers.http.sse import MAX_EVENT, EventParser, ServerEvent
from newel.text.json import as_dict, as_list, is_cut, parse

DONE_EVENT = b"[DONE]"
BLANK = b" \t\r\n\xef\xbb\xbf"
AFTER_DONE_S = 0.25
AFTER_FINISH_S = 2.0
"""Time for a server after it has declared the response complete: for the usage, and for the end of the body, without which
the connection cannot be reused."""

TURN_S = 0.002
"""Time after which other tasks, such as keys, have their turn: a piece from the network can hold hundreds of events."""


class Accumulator(Protocol):
    """Turns the objects of a response, events of its stream or one document, into deltas, and finally into a message."""

    started: bool
    """Whether any part of a response has arrived."""

    @property
    def finished(self) -> bool:
        """Whether the server has declared the response complete."""
        ...

    def feed(self, fields: dict[str, Any], /) -> list[Delta]:
        """Accumulate one object. Raises ``ProviderError`` if the server gave up on the response."""
        ...

    def on_done(self) -> None:
        """Handle the end of a document, and of a stream that says ``[DONE]``."""
        ...

    def close(self) -> list[Delta]:
        """Return the deltas that were held back, after the last object."""
        ...

    def message(self, *, model: str, provider: str) -> AssistantMessage:
        """Return the message. Raises ``BadResponse`` if nothing arrived."""
        ...


class ResponseReader:
    """Reads one response with status 200 into an accumulator: a stream of events, or one JSON document."""

    def __init__(
        self,
        response: HttpResponse,
        accumulator: Accumulator,
        endpoint: EndpointDescription,
        on_delta: OnDelta,
    ) -> None:
        self.response = response
        self.accumulator = accumulator
        self.endpoint = endpoint
        self.on_delta = on_delta
        self.parser = EventParser()
        self.done = False

    async def read(self) -> None:
        async with aclosing(self.response.chunks()) as chunks:
            prefix = b""
            async for chunk in chunks:
                if prefix := (prefix + chunk).lstrip(BLANK):
                    break
            # The first character decides: content types are missing or wrong too often.
            if prefix.startswith((b"{", b"[")):
                await self.read_json(await collect(chunks, MAX_EVENT, prefix))
            elif prefix.startswith(b"<"):
                raise self.foreign(prefix)
            else:
                await self.read_events(prefix, chunks)

    async def read_json(self, body: bytes) -> None:
        try:
            value = parse(body)
        except ValueError as error:
            raise (self.incomplete() if is_cut(error) else self.foreign(body)) from error
        for each in as_list(value) or [value]:  # some servers send the events of a stream as an array
            await self.emit(self.feed(each))
        if not self.accumulator.started:
            raise self.foreign(body)
        self.accumulator.on_done()

    async def read_events(self, prefix: bytes, chunks: AsyncIterator[bytes]) -> None:
        await self.feed_events(self.parser.feed(prefix))
        if not self.accumulator.finished:
            async for chunk in chunks:
                await self.feed_events(self.parser.feed(chunk))
                if self.accumulator.finished:
                    break
        if self.accumulator.finished:
            await self.read_rest(chunks)
            return
        try:
            await self.feed_events(self.parser.close())
        except BadResponse as error:
            raise self.incomplete() from error  # an incomplete event
        if not self.accumulator.finished:
            is_foreign = (
                prefix and not self.accumulator.started and "event-stream" not in self.response.content_type
            )
            raise self.foreign(prefix) if is_foreign else self.incomplete()

    async def read_rest(self, chunks: AsyncIterator[bytes]) -> None:
        """Read what follows a complete response, for a short time; failures no longer count."""
        rest: list[ServerEvent] = []
        with suppress(ProviderError), anyio.move_on_after(AFTER_FINISH_S) as scope:
            if self.done:
                scope.deadline = anyio.current_time() + AFTER_DONE_S
            async for chunk in chunks:
                rest += self.parser.feed(chunk)
                if not self.done and any(event.data == DONE_EVENT for event in rest):
                    self.done = True
                    scope.deadline = anyio.current_time() + AFTER_DONE_S
        await self.feed_events(rest)

    async def feed_events(self, feed_events: list[ServerEvent]) -> None:
        until = time.monotonic() + TURN_S
        for event in feed_events:
            if time.monotonic() > until:
                await checkpoint()
                until = time.monotonic() + TURN_S
            if event.data == DONE_EVENT:
                self.done = True
                self.accumulator.on_done()
            elif event.data:
                await self.emit(self.feed(self.value(event), is_error=event.name == "error"))

    def value(self, event: ServerEvent) -> object:
        try:
            return parse(event.data)
        except ValueError as error:
            if self.accumulator.finished:
                return None
            quoted = quote(event.data[:MAX_ERROR_BODY].decode("utf-8", "replace"), self.endpoint.secret)
            raise BadResponse(f"{self.endpoint.url} sent an event that is not JSON: {quoted}") from error

    def feed(self, value: object, *, is_error: bool = False) -> list[Delta]:
        """Accumulate one object. After the end of the response an error no longer counts."""
        fields = as_dict(value)
        error = fields.get("error")
        if not error and (is_error or fields.get("object") == "error"):
            error = value
        if error and not self.accumulator.finished:
            raise error_from_event(error, self.endpoint)
        return self.accumulator.feed(fields)

    async def emit(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            await self.on_delta(delta)

    def foreign(self, body: bytes) -> BadResponse:
        return error_from_foreign_body(body, self.response.content_type, self.endpoint)

    def incomplete(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self.endpoint.url} closed the connection before the response was complete."
        )
