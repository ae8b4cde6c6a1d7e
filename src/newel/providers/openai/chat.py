"""Any server that speaks OpenAI's chat completions, and those that nearly do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any

import anyio
import msgspec

from newel.agent.errors import BadResponse, ConnectionFailed, ProviderError
from newel.agent.events import Delta, Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, Price
from newel.providers.errors import MAX_BODY, EndpointDescription, not_protocol, quote, refusal, stream_error
from newel.providers.http.client import HttpClient, HttpResponse, collect
from newel.providers.http.sse import MAX_EVENT, EventParser, ServerEvent
from newel.providers.openai.compat import ServerCompat
from newel.providers.openai.encoder import Encoder
from newel.providers.openai.stream import ResponseAccumulator
from newel.providers.parsing.json_repair import NEVER_MEND
from newel.text.json import as_dict, as_list, as_str, is_cut, parse

DONE = b"[DONE]"
BLANK = b" \t\r\n\xef\xbb\xbf"
AFTER_DONE = 0.25
AFTER_FINISH = 2.0
"""Seconds that a server may still take after it has said that the answer is whole: for the usage, and for
the end of the body, without which the connection cannot be used again."""

LIST_TIME = 10.0
"""Seconds that a list of models may take: somebody waits for it before the work has begun."""

PATH = "/chat/completions"
MAX_MODELS = 8 * 2**20
WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""What vLLM, OpenRouter, Groq and LM Studio call the size of a model's context in their lists."""


class OpenAIChat:
    """A ``ModelServer`` over HTTP.

    ``base_url`` is what stands before ``/chat/completions``, its query behind it; ``timeout`` is in seconds without a byte,
    ``list_timeout`` for the whole list of models; ``headers`` go with each request. ``price``, ``is_listed`` (whether that
    knows a model), and ``listed_window`` for the context of a model that the server does not tell, may be slow and are called in a thread. A call of a tool in
    ``never_mend`` is not run on guessed arguments. Raises ``ConfigError`` for a URL or a key that cannot be.

    What a server refuses (streaming, ``stream_options``, ``reasoning_effort``, the name of the output limit)
    is left out from then on; a ``Retry`` without delay tells of it.
    """

    way = PATH

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        name: str = "openai",
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 120.0,
        list_timeout: float = LIST_TIME,
        price: Price | None = None,
        is_listed: Callable[[str], bool] | None = None,
        listed_window: Callable[[str], int | None] | None = None,
        never_mend: frozenset[str] = NEVER_MEND,
    ) -> None:
        self.name = name
        self._secret = (api_key or "").strip()
        sent = {"Accept": "text/event-stream, application/json", "Content-Type": "application/json"}
        sent |= {"User-Agent": "newel"} | dict(headers)
        if self._secret:
            sent["Authorization"] = f"Bearer {self._secret}"
        self._http = HttpClient(base_url, headers=sent, timeout=timeout)
        self._list_timeout = list_timeout
        self._price = price
        self._is_listed = is_listed
        self._listed_window = listed_window
        self._never_mend = never_mend
        self._encoder = Encoder()
        self._dialects: dict[str, ServerCompat] = {}

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        tries = 0
        while True:
            dialect = self._dialects.get(request.model.id, ServerCompat())
            try:
                message = await self._ask(request, dialect, on_delta)
            except ProviderError as error:
                change = dialect.after(error, request)
                if change is None:
                    raise
                tries += 1
                self._dialects[request.model.id] = change[0]
                reason = f"the server rejected the request; retrying {change[1]}"
                retry = Retry(attempt=tries, max_attempts=tries, delay=0.0, reason=reason)
            else:
                return await self._priced(message)
            await on_delta(retry)

    async def models(self) -> list[str]:
        """The names of the server's models, in its order. Raises ``ProviderError``."""
        return [name for model in await self._catalogue() if (name := _name(model))]

    async def window(self, model: str) -> int | None:
        """The size of a model's context in tokens: what the server's list of models tells, else what is known of it
        elsewhere. Raises ``ProviderError``.
        """
        try:
            told = await self._told_window(model)
        except ProviderError:
            if self._listed_window is None:
                raise
            told = None
        if told or self._listed_window is None:
            return told
        return await anyio.to_thread.run_sync(self._listed_window, model, abandon_on_cancel=True)

    async def is_priced(self, model: str) -> bool:
        """Whether it is known what the answers of a model cost. Never raises."""
        if self._is_listed is None:
            return False
        return await anyio.to_thread.run_sync(self._is_listed, model, abandon_on_cancel=True)

    async def _told_window(self, model: str) -> int | None:
        nothing: dict[str, Any] = {}
        listed = next((each for each in await self._catalogue() if _name(each) == model), nothing)
        told = [listed.get(name) for name in WINDOW_FIELDS] + [as_dict(listed.get("meta")).get("n_ctx")]
        return next((size for size in told if isinstance(size, int) and size > 0), None)

    async def _catalogue(self) -> list[dict[str, Any]]:
        endpoint = self._endpoint("/models", "")
        what = "nothing"
        try:
            with anyio.fail_after(self._list_timeout):
                async with self._http.ask("GET", "/models") as reply:
                    what = "no complete list"
                    if not reply.ok:
                        raise refusal(reply.status, reply.headers, await reply.beginning(MAX_BODY), endpoint)
                    body = await reply.read(MAX_MODELS)
        except TimeoutError as error:
            raise ConnectionFailed(f"{endpoint.url} sent {what} for {self._list_timeout:g} s.") from error
        try:
            fields = as_dict(parse(body))
        except ValueError:
            fields = {}
        if "data" not in fields and "models" not in fields:
            raise not_protocol(body, reply.content_type, endpoint)
        return [as_dict(model) for model in as_list(fields.get("data")) or as_list(fields.get("models"))]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _ask(self, request: ModelRequest, dialect: ServerCompat, on_delta: OnDelta) -> AssistantMessage:
        endpoint = self._endpoint(PATH, request.model.id)
        fold = ResponseAccumulator(request.tools, self._never_mend)
        body = self._encoder.body(request, dialect)
        async with self._http.ask("POST", PATH, body) as reply:
            if not reply.ok:
                raise refusal(reply.status, reply.headers, await reply.beginning(MAX_BODY), endpoint)
            await _StreamedResponse(reply, fold, endpoint, on_delta).read()
        for delta in fold.close():
            await on_delta(delta)
        return fold.message(model=request.model.id, provider=self.name)

    async def _priced(self, message: AssistantMessage) -> AssistantMessage:
        if self._price is None:
            return message
        cost = await anyio.to_thread.run_sync(self._price, message, abandon_on_cancel=True)
        return message if cost is None else msgspec.structs.replace(message, cost=cost)

    def _endpoint(self, path: str, model: str) -> EndpointDescription:
        return EndpointDescription(self._http.shown(path), model, self._secret)


def _name(model: dict[str, Any]) -> str:
    return as_str(model.get("id")) or as_str(model.get("name")) or ""


class _StreamedResponse:
    """Reads one answer with status 200 into a fold: a stream of events, or JSON in one piece."""

    def __init__(
        self, reply: HttpResponse, fold: ResponseAccumulator, endpoint: EndpointDescription, on_delta: OnDelta
    ) -> None:
        self.reply = reply
        self.fold = fold
        self.endpoint = endpoint
        self.on_delta = on_delta
        self.parser = EventParser()
        self.done = False

    async def read(self) -> None:
        async with aclosing(self.reply.chunks()) as chunks:
            lead = b""
            async for chunk in chunks:
                if lead := (lead + chunk).lstrip(BLANK):
                    break
            # What it is shows in its first character: content types are missing or wrong too often.
            if lead.startswith((b"{", b"[")):
                await self.whole(await collect(chunks, MAX_EVENT, lead))
            elif lead.startswith(b"<"):
                raise self.foreign(lead)
            else:
                await self.stream(lead, chunks)

    async def whole(self, body: bytes) -> None:
        try:
            value = parse(body)
        except ValueError as error:
            raise (self.broken() if is_cut(error) else self.foreign(body)) from error
        await self.tell(self.take(value))
        if not self.fold.started:
            raise self.foreign(body)
        self.fold.done()

    async def stream(self, lead: bytes, chunks: AsyncIterator[bytes]) -> None:
        await self.events(self.parser.feed(lead))
        if not self.fold.finished:
            async for chunk in chunks:
                await self.events(self.parser.feed(chunk))
                if self.fold.finished:
                    break
        if self.fold.finished:
            await self.drain(chunks)
            return
        try:
            await self.events(self.parser.close())
        except BadResponse as error:
            raise self.broken() from error  # an event that is not whole
        if not self.fold.finished:
            strange = lead and not self.fold.started and "event-stream" not in self.reply.content_type
            raise self.foreign(lead) if strange else self.broken()

    async def drain(self, chunks: AsyncIterator[bytes]) -> None:
        """Read what follows the answer's last word, but do not wait long, and let nothing spoil it."""
        rest: list[ServerEvent] = []
        with suppress(ProviderError), anyio.move_on_after(AFTER_FINISH) as scope:
            if self.done:
                scope.deadline = anyio.current_time() + AFTER_DONE
            async for chunk in chunks:
                rest += self.parser.feed(chunk)
                if not self.done and any(event.data == DONE for event in rest):
                    self.done = True
                    scope.deadline = anyio.current_time() + AFTER_DONE
        await self.events(rest)

    async def events(self, events: list[ServerEvent]) -> None:
        for event in events:
            if event.data == DONE:
                self.done = True
                self.fold.done()
            elif event.data:
                await self.tell(self.take(self.value(event), named_error=event.name == "error"))

    def value(self, event: ServerEvent) -> object:
        try:
            return parse(event.data)
        except ValueError as error:
            if self.fold.finished:
                return None
            words = quote(event.data[:MAX_BODY].decode("utf-8", "replace"), self.endpoint.secret)
            raise BadResponse(f"{self.endpoint.url} sent an event that is not JSON: {words}") from error

    def take(self, value: object, *, named_error: bool = False) -> list[Delta]:
        """Fold one object. After the answer's end an error no longer counts."""
        fields = as_dict(value)
        error = fields.get("error")
        if not error and (named_error or fields.get("object") == "error"):
            error = value
        if error and not self.fold.finished:
            raise stream_error(error, self.endpoint)
        return self.fold.feed(fields)

    async def tell(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            await self.on_delta(delta)

    def foreign(self, body: bytes) -> BadResponse:
        return not_protocol(body, self.reply.content_type, self.endpoint)

    def broken(self) -> ConnectionFailed:
        return ConnectionFailed(
            f"{self.endpoint.url} closed the connection before the response was complete."
        )
