"""Ollama's own API: roles, tools, images, thinking, a schema for the answer, and a context that is as large as needed.

``POST /api/chat`` answers with one JSON object a line; the last has ``done``, ``done_reason`` and the counts of
tokens. Before anything has been sent, a failure has a status of its own; later it is a line with ``error``. From
``docs/api.md`` and ``server/routes.go`` of Ollama v0.33.0.

A server on loopback answers only requests whose ``Host`` is loopback, too: through a tunnel it is asked as
``http://127.0.0.1:11434``, whatever the tunnel's end is called here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from itertools import count
from typing import Any

import anyio
import msgspec

from newel.agent.errors import BadResponse, ConnectionFailed, ProviderError, RequestRejected, as_sentence
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.providers.errors import MAX_BODY, EndpointDescription, classify, read_error, refusal
from newel.providers.http.client import HttpClient, HttpResponse
from newel.providers.http.ndjson import NdjsonParser
from newel.providers.http.urls import is_private
from newel.providers.ollama.encoder import body, messages_json
from newel.providers.ollama.model_info import MOST, Served, is_of_the_cloud, missing, read_served
from newel.providers.openai.stream import ResponseAccumulator
from newel.providers.parsing.json_repair import NEVER_MEND
from newel.text.json import as_count, as_dict, as_list, as_str, parse, regex

URL = "http://127.0.0.1:11434"
PATH = "/api/chat"
TIMEOUT = 330.0
"""Seconds without a byte: a server gives a large model five minutes to load, and says nothing meanwhile."""

VERSION = "/api/version"
ASIDE = 10.0
"""Seconds that a question beside the conversation may take."""

AFTER_DONE = 0.25
PULLED = "success"
MAX_ASIDE = 8 * 2**20
_NOT_FOUND = r"not found"
_NO_MEMORY = r"(?i)more system memory|out of memory"
_SIGN_IN = b"signin_url"
_NOTHING: dict[str, Any] = {}


class Ollama:
    """A ``ModelServer`` over Ollama's API at ``base_url``, or behind the Unix socket at the path ``socket``.

    ``api_key`` is for Ollama's cloud, or a gateway; ``place`` names the server in words; ``timeout`` is in seconds without
    a byte; ``schema``, a JSON Schema, is what each answer's text must fit; ``keep_alive`` is how long the model stays
    loaded after a request, as ``"30m"`` or seconds, None for what the server does by itself. A call of a tool in
    ``never_mend`` is not run on guessed arguments. What a server refuses is left out from then on; a ``Retry`` without delay tells of it.

    Raises ``ModelMissing`` for a model that the server does not have: nothing is downloaded unasked.
    """

    way = PATH

    def __init__(
        self,
        base_url: str = URL,
        *,
        api_key: str | None = None,
        socket: str | None = None,
        place: str = "",
        name: str = "ollama",
        timeout: float = TIMEOUT,
        schema: dict[str, Any] | None = None,
        keep_alive: str | int | None = None,
        never_mend: frozenset[str] = NEVER_MEND,
    ) -> None:
        headers = {
            "Accept": "application/x-ndjson",
            "Content-Type": "application/json",
            "User-Agent": "newel",
        }
        self._secret = (api_key or "").strip()
        self._is_own = is_private(base_url)
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        self.name = name
        self._http = HttpClient(base_url, headers=headers, timeout=timeout, socket=socket, place=place)
        self._schema = schema
        self._keep_alive = keep_alive
        self._never_mend = never_mend
        self._served: dict[str, Served] = {}

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        model = request.model.id
        served = self._served.get(model) or await self._look_up(model)
        tries = 0
        while True:
            messages = messages_json(request, served)
            served = self._served[model] = served.with_room(len(messages), request)
            try:
                return await self._ask(messages, request, served, on_delta)
            except ProviderError as error:
                change = served.after(error, request)
                if change is None:
                    raise
                tries += 1
                served = self._served[model] = change[0]
                reason = f"the server refused the request; asking again {change[1]}"
            await on_delta(Retry(attempt=tries, max_attempts=tries, delay=0.0, reason=reason))

    async def models(self) -> list[str]:
        """The names of the server's models, in its order. Raises ``ProviderError``."""
        fields = await self._aside("GET", "/api/tags")
        return [name for each in as_list(fields.get("models")) if (name := as_str(as_dict(each).get("name")))]

    async def version(self) -> str:
        """The server's version, which shows that it is one of Ollama. Raises ``ProviderError``."""
        told = await self._aside("GET", VERSION)
        if version := as_str(told.get("version")):
            return version
        raise _foreign(msgspec.json.encode(told), self._endpoint(VERSION))

    async def is_priced(self, model: str) -> bool:
        """Models of one's own cost nothing; of those that Ollama runs elsewhere nothing is known."""
        return self._is_own and not is_of_the_cloud(model)

    async def window(self, model: str) -> int | None:
        """The size of a model's context in tokens, as far as it will be asked for. Raises ``ProviderError``."""
        served = self._served.get(model) or await self._look_up(model)
        return served.limit(None)

    async def pull(self, model: str, tell: Callable[[str], Awaitable[None]]) -> None:
        """Have the server download a model; ``tell`` is given what it does, in words. Raises ``ProviderError``."""
        endpoint = self._endpoint("/api/pull", model)
        status = ""
        async with self._http.ask("POST", "/api/pull", msgspec.json.encode({"model": model})) as reply:
            if not reply.ok:
                raise await self._refused(reply, endpoint)
            async with aclosing(_objects(reply, endpoint)) as objects:
                async for fields in objects:
                    status = as_str(fields.get("status"))
                    total, done = as_count(fields.get("total")), as_count(fields.get("completed"))
                    await tell(f"{status}: {100 * done // total} %" if total else status)
        if status != PULLED:
            raise ConnectionFailed(f"{endpoint.url} closed the connection before '{model}' was there.")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _look_up(self, model: str) -> Served:
        shown = await self._aside("POST", "/api/show", {"model": model}, model)
        running = _NOTHING
        with suppress(ProviderError):  # what is loaded is good to know, no more
            running = await self._aside("GET", "/api/ps")
        served = self._served[model] = read_served(shown, running, model)
        return served

    async def _aside(self, method: str, path: str, sent: object = None, model: str = "") -> dict[str, Any]:
        """A short question, and the object that answers it."""
        endpoint = self._endpoint(path, model)
        try:
            with anyio.fail_after(ASIDE):
                async with self._http.ask(method, path, msgspec.json.encode(sent) if sent else b"") as reply:
                    if not reply.ok:
                        raise await self._refused(reply, endpoint)
                    answer = await reply.read(MAX_ASIDE)
        except TimeoutError as error:
            raise ConnectionFailed(f"{endpoint.url} sent no whole answer for {ASIDE:g} s.") from error
        try:
            return as_dict(parse(answer))
        except ValueError as error:
            raise _foreign(answer, endpoint) from error

    async def _ask(
        self, messages: bytes, request: ModelRequest, served: Served, on_delta: OnDelta
    ) -> AssistantMessage:
        endpoint = self._endpoint(PATH, request.model.id)
        fold = ResponseAccumulator(request.tools, self._never_mend)
        sent = body(messages, request, served, schema=self._schema, keep_alive=self._keep_alive)
        async with self._http.ask("POST", PATH, sent) as reply:
            if not reply.ok:
                raise await self._refused(reply, endpoint)
            async with aclosing(_objects(reply, endpoint)) as objects:
                numbers = count()
                async for fields in objects:
                    for delta in fold.feed(_as_chunk(fields, numbers)):
                        await on_delta(delta)
                    if fold.finished:
                        break
                else:
                    raise ConnectionFailed(
                        f"{endpoint.url} closed the connection before the answer was whole."
                    )
                # Only a body that is read to its end leaves a connection for the next request.
                with suppress(ProviderError), anyio.move_on_after(AFTER_DONE):
                    async for _ in objects:
                        pass
        for delta in fold.close():
            await on_delta(delta)
        return fold.message(model=request.model.id, provider=self.name)

    async def _refused(self, reply: HttpResponse, endpoint: EndpointDescription) -> ProviderError:
        """The error that a status other than 2xx stands for."""
        answer = await reply.beginning(MAX_BODY)
        words, _ = read_error(answer, endpoint.secret)
        if reply.status == 404 and endpoint.model and regex(_NOT_FOUND).search(words) and b"{" in answer:
            return missing(endpoint.model, self._http.shown(""))
        if reply.status == 404:
            return _foreign(answer, endpoint)
        if reply.status == 401 and _SIGN_IN in answer:
            told = f"{endpoint.url} is not signed in to Ollama's cloud, where '{endpoint.model}' runs."
            return RequestRejected(f"{told} Sign in there: ollama signin", status=401)
        return _no_memory(words, endpoint) or refusal(reply.status, reply.headers, answer, endpoint)

    def _endpoint(self, path: str, model: str = "") -> EndpointDescription:
        return EndpointDescription(self._http.shown(path), model, self._secret)


def _foreign(answer: bytes, endpoint: EndpointDescription) -> BadResponse:
    words, _ = read_error(answer, endpoint.secret)
    return BadResponse(
        f"{endpoint.url} did not answer as Ollama does: {as_sentence(words or 'nothing')} Check the address."
    )


def _no_memory(words: str, endpoint: EndpointDescription) -> RequestRejected | None:
    """The error for a model that is too large for the host: trying again would not help."""
    if not regex(_NO_MEMORY).search(words):
        return None
    return RequestRejected(
        f"{endpoint.url} has too little memory for '{endpoint.model}': {as_sentence(words)} Use a smaller model, or set its "
        f"context_window to fewer than {MOST:,} tokens."
    )


async def _objects(reply: HttpResponse, endpoint: EndpointDescription) -> AsyncGenerator[dict[str, Any]]:
    """The objects of an answer with status 200, one a line; raises for one that is an error."""
    lines = NdjsonParser()
    async with aclosing(reply.chunks()) as chunks:
        async for chunk in chunks:
            for line in lines.feed(chunk):
                yield _object(line, endpoint)
    for line in lines.close():
        yield _object(line, endpoint)


def _object(line: bytes, endpoint: EndpointDescription) -> dict[str, Any]:
    try:
        fields = as_dict(parse(line))
    except ValueError as error:
        raise _foreign(line, endpoint) from error
    if error := fields.get("error"):
        words, codes = read_error(msgspec.json.encode(error), endpoint.secret)
        raise _no_memory(words, endpoint) or classify(500, words, codes, endpoint, None)
    if not fields.keys() & {"message", "done", "status"}:
        raise _foreign(line, endpoint)
    return fields


def _as_chunk(fields: dict[str, Any], numbers: Iterator[int]) -> dict[str, Any]:
    """An object of a chat as the chunk of a chat completion that says the same. ``numbers`` are for its calls: each
    comes whole, and the server's own numbers are not always there.
    """
    message = as_dict(fields.get("message"))
    delta = {"thinking": message.get("thinking"), "content": message.get("content")}
    if calls := as_list(message.get("tool_calls")):
        delta["tool_calls"] = [as_dict(call) | {"index": next(numbers)} for call in calls]
    if fields.get("done") is not True:
        return {"choices": [{"delta": delta}]}
    finish = as_str(fields.get("done_reason")) or "stop"
    counts = {"prompt_tokens": "prompt_eval_count", "completion_tokens": "eval_count"}
    usage = {name: fields.get(count) for name, count in counts.items()}
    return {"choices": [{"delta": delta, "finish_reason": finish}], "usage": usage}
