"""Ollama's own API: roles, tools, images, thinking, a schema for the response, and a context size that grows as
needed.

``POST /api/chat`` answers with one JSON object per line; the last has ``done``, ``done_reason`` and token counts.
Errors before the first line have an HTTP status; later ones are a line with ``error``. From ``docs/api.md`` and
``server/routes.go`` of Ollama v0.33.0.

A server on loopback accepts only requests with a loopback ``Host``, so a tunnelled server is addressed as
``http://127.0.0.1:11434``, whatever the local end of the tunnel.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from newel.agent.errors import BadResponse, ConnectionFailed, ProviderError, RequestRejected, as_sentence
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.concurrency import task_group
from newel.providers.errors import (
    MAX_ERROR_BODY,
    EndpointDescription,
    classify,
    error_from_response,
    parse_error_body,
)
from newel.providers.http.client import HttpClient, HttpResponse
from newel.providers.http.urls import is_private
from newel.providers.ollama.encoder import MessageEncoder, body
from newel.providers.ollama.model_info import (
    DEFAULT_MAX_CONTEXT,
    ModelProfile,
    describe_model,
    is_cloud_model,
    missing_model_error,
    parse_profile,
)
from newel.providers.openai.stream import ResponseAccumulator
from newel.text.json import as_count, as_dict, as_list, as_str, is_cut, parse, regex
from newel.text.lines import LineSplitter

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel

URL = "http://127.0.0.1:11434"
PATH = "/api/chat"
TIMEOUT_S = 330.0
"""Seconds without a byte: a server may load a large model for five minutes in silence."""

VERSION = "/api/version"
QUERY_TIMEOUT_S = 10.0
"""Seconds for a query."""

DESCRIBE_TIMEOUT_S = 5.0
"""Seconds to describe all models of a list, for which a user waits. By then each has its name at least."""

DESCRIBED_AT_ONCE = 8

AFTER_DONE_S = 0.25
PULL_SUCCEEDED = "success"
MAX_QUERY_BYTES = 8 * 2**20
MAX_LINE_BYTES = 8 * 2**20
"""Bytes of a short response, and of one line of a stream."""

_NOT_FOUND = r"not found"
_NO_MEMORY = r"(?i)more system memory|out of memory"
_SIGN_IN = b"signin_url"
_NOTHING: dict[str, Any] = {}


class Ollama:
    """A ``ModelServer`` over Ollama's API at ``base_url``, or behind the Unix socket at the path ``socket``.

    ``api_key`` is for Ollama's cloud or a gateway; ``place`` names the server for users; ``timeout`` is in
    seconds without a byte, ``describe_timeout`` for the facts about all models of a list. Features that a server rejects are omitted from
    then on; a ``Retry`` without delay reports it.

    Raises ``ModelMissing`` for a model that the server does not have: nothing is downloaded without asking.
    """

    way = PATH
    supports_schema = True

    def __init__(
        self,
        base_url: str = URL,
        *,
        api_key: str | None = None,
        socket: str | None = None,
        place: str = "",
        name: str = "ollama",
        timeout: float = TIMEOUT_S,
        describe_timeout: float = DESCRIBE_TIMEOUT_S,
    ) -> None:
        headers = {
            "Accept": "application/x-ndjson",
            "Content-Type": "application/json",
            "User-Agent": "newel",
        }
        self._secret = (api_key or "").strip()
        self.is_local = is_private(base_url)
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        self.name = name
        self._http = HttpClient(base_url, headers=headers, timeout=timeout, socket=socket, display_name=place)
        self._describe_timeout = describe_timeout
        self._encoder = MessageEncoder(name)
        self._profiles: dict[str, ModelProfile] = {}

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        model = request.model.id
        profile = self._profiles.get(model) or await self._load_profile(model)
        attempt = 0
        while True:
            messages = self._encoder.encode(request, profile)
            profile = self._profiles[model] = profile.with_room_for(len(messages), request)
            try:
                return await self._ask(messages, request, profile, on_delta)
            except ProviderError as error:
                adapted = profile.adapted_to(error, request)
                if adapted is None:
                    raise
                attempt += 1
                profile = self._profiles[model] = adapted[0]
                reason = f"the server rejected the request; retrying {adapted[1]}"
            await on_delta(Retry(attempt=attempt, max_attempts=attempt, delay=0.0, reason=reason))

    async def models(self) -> list[str]:
        """The names of the server's models, in its order. Raises ``ProviderError``."""
        fields = await self._query("GET", "/api/tags")
        return [
            name for model in as_list(fields.get("models")) if (name := as_str(as_dict(model).get("name")))
        ]

    async def list_models(self) -> list[ListedModel]:
        """The server's models, in its order, with the facts that it tells in time. Raises ``ProviderError``."""
        names = await self.models()
        described: dict[str, ListedModel] = {}
        limit = anyio.CapacityLimiter(DESCRIBED_AT_ONCE)

        async def describe(name: str) -> None:
            async with limit:
                described[name] = await self._describe(name)

        with anyio.move_on_after(self._describe_timeout):
            async with task_group() as tasks:
                for name in names:
                    tasks.start_soon(describe, name)
        return [described.get(name) or describe_model(name, _NOTHING) for name in names]

    async def version(self) -> str:
        """The server's version; only an Ollama server has one. Raises ``ProviderError``."""
        response_fields = await self._query("GET", VERSION)
        if version := as_str(response_fields.get("version")):
            return version
        raise _not_ollama(msgspec.json.encode(response_fields), self._endpoint(VERSION))

    async def is_priced(self, model: str) -> bool:
        """Local models are free; the prices of cloud models are unknown."""
        return self.is_local and not is_cloud_model(model)

    async def window(self, model: str) -> int | None:
        """The context size of a model in tokens, up to the size that will be requested. Raises ``ProviderError``."""
        profile = self._profiles.get(model) or await self._load_profile(model)
        return profile.limit(None)

    async def pull(self, model: str, on_progress: Callable[[str], Awaitable[None]]) -> None:
        """Download a model on the server; ``on_progress`` gets messages. Raises ``ProviderError``."""
        endpoint = self._endpoint("/api/pull", model)
        status = ""
        async with self._http.request("POST", "/api/pull", msgspec.json.encode({"model": model})) as response:
            if not response.ok:
                raise await self._error(response, endpoint)
            async with aclosing(_objects(response, endpoint)) as objects:
                async for fields in objects:
                    status = as_str(fields.get("status"))
                    total, done = as_count(fields.get("total")), as_count(fields.get("completed"))
                    await on_progress(f"{status}: {100 * done // total} %" if total else status)
        if status != PULL_SUCCEEDED:
            raise ConnectionFailed(
                f"{endpoint.url} closed the connection before the download of '{model}' was complete."
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _describe(self, model: str) -> ListedModel:
        try:
            details = await self._query("POST", "/api/show", {"model": model}, model)
        except ProviderError:  # the others can be described
            details = _NOTHING
        return describe_model(model, details)

    async def _load_profile(self, model: str) -> ModelProfile:
        details = await self._query("POST", "/api/show", {"model": model}, model)
        running = _NOTHING
        with suppress(ProviderError):  # the loaded size is useful, but not required
            running = await self._query("GET", "/api/ps")
        profile = self._profiles[model] = parse_profile(details, running, model)
        return profile

    async def _query(self, method: str, path: str, payload: object = None, model: str = "") -> dict[str, Any]:
        """A query, and its answer."""
        endpoint = self._endpoint(path, model)
        try:
            with anyio.fail_after(QUERY_TIMEOUT_S):
                async with self._http.request(
                    method, path, msgspec.json.encode(payload) if payload else b""
                ) as response:
                    if not response.ok:
                        raise await self._error(response, endpoint)
                    answer = await response.read(MAX_QUERY_BYTES)
        except TimeoutError as error:
            raise ConnectionFailed(
                f"{endpoint.url} sent no complete response within {QUERY_TIMEOUT_S:g} s."
            ) from error
        try:
            return as_dict(parse(answer))
        except ValueError as error:
            raise _not_ollama(answer, endpoint) from error

    async def _ask(
        self, messages: bytes, request: ModelRequest, profile: ModelProfile, on_delta: OnDelta
    ) -> AssistantMessage:
        endpoint = self._endpoint(PATH, request.model.id)
        accumulator = ResponseAccumulator(request.tools)
        payload = body(messages, request, profile)
        async with self._http.request("POST", PATH, payload) as response:
            if not response.ok:
                raise await self._error(response, endpoint)
            async with aclosing(_objects(response, endpoint)) as objects:
                indices = count()
                async for fields in objects:
                    for delta in accumulator.feed(_as_chunk(fields, indices)):
                        await on_delta(delta)
                    if accumulator.finished:
                        break
                else:
                    raise _incomplete(endpoint)
                # A connection is reused only if the body was read to its end.
                with suppress(ProviderError), anyio.move_on_after(AFTER_DONE_S):
                    async for _ in objects:
                        pass
        for delta in accumulator.close():
            await on_delta(delta)
        return accumulator.message(model=request.model.id, provider=self.name)

    async def _error(self, response: HttpResponse, endpoint: EndpointDescription) -> ProviderError:
        """The error for a status other than 2xx."""
        answer = await response.read_prefix(MAX_ERROR_BODY)
        message, _ = parse_error_body(answer, endpoint.secret)
        if response.status == 404 and endpoint.model and regex(_NOT_FOUND).search(message) and b"{" in answer:
            return missing_model_error(endpoint.model, self._http.display_url(""))
        if response.status == 404:
            return _not_ollama(answer, endpoint)
        if response.status == 401 and _SIGN_IN in answer:
            problem = f"{endpoint.url} is not signed in to Ollama's cloud, where '{endpoint.model}' runs."
            return RequestRejected(f"{problem} Sign in there: ollama signin", status=401)
        return _no_memory(message, endpoint) or error_from_response(
            response.status, response.headers, answer, endpoint
        )

    def _endpoint(self, path: str, model: str = "") -> EndpointDescription:
        return EndpointDescription(self._http.display_url(path), model, self._secret)


def _not_ollama(answer: bytes, endpoint: EndpointDescription) -> BadResponse:
    message, _ = parse_error_body(answer, endpoint.secret)
    return BadResponse(
        f"{endpoint.url} did not answer like Ollama: {as_sentence(message or 'nothing')} Check the address."
    )


def _incomplete(endpoint: EndpointDescription) -> ConnectionFailed:
    return ConnectionFailed(f"{endpoint.url} closed the connection before the response was complete.")


def _no_memory(message: str, endpoint: EndpointDescription) -> RequestRejected | None:
    """The error for a model that is too large for the host; retrying would not help."""
    if not regex(_NO_MEMORY).search(message):
        return None
    return RequestRejected(
        f"{endpoint.url} has too little memory for '{endpoint.model}': {as_sentence(message)} Use a smaller model, or set its "
        f"context_window to fewer than {DEFAULT_MAX_CONTEXT:,} tokens."
    )


async def _objects(response: HttpResponse, endpoint: EndpointDescription) -> AsyncGenerator[dict[str, Any]]:
    """The objects of a response with status 200, one per line; raises if one is an error."""
    lines = LineSplitter(MAX_LINE_BYTES)
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            complete = lines.feed(chunk)
            if lines.overflow:
                raise BadResponse(
                    f"The server sent a line of more than {MAX_LINE_BYTES // 2**20} MiB; refused."
                )
            for line in filter(bytes.strip, complete):
                yield _object(line, endpoint)
    if (rest := lines.flush()).strip():
        yield _object(rest, endpoint)


def _object(line: bytes, endpoint: EndpointDescription) -> dict[str, Any]:
    try:
        fields = as_dict(parse(line))
    except ValueError as error:
        raise (_incomplete(endpoint) if is_cut(error) else _not_ollama(line, endpoint)) from error
    if error := fields.get("error"):
        message, codes = parse_error_body(msgspec.json.encode(error), endpoint.secret)
        raise _no_memory(message, endpoint) or classify(500, message, codes, endpoint, None)
    if not fields.keys() & {"message", "done", "status"}:
        raise _not_ollama(line, endpoint)
    return fields


def _as_chunk(fields: dict[str, Any], indices: Iterator[int]) -> dict[str, Any]:
    """An object of a chat as the equivalent chunk of a chat completion. ``indices`` number its calls: each is
    complete, and the server's own numbers are optional.
    """
    message = as_dict(fields.get("message"))
    delta = {"thinking": message.get("thinking"), "content": message.get("content")}
    if calls := as_list(message.get("tool_calls")):
        delta["tool_calls"] = [as_dict(call) | {"index": next(indices)} for call in calls]
    if fields.get("done") is not True:
        return {"choices": [{"delta": delta}]}
    finish = as_str(fields.get("done_reason")) or "stop"
    counts = {"prompt_tokens": "prompt_eval_count", "completion_tokens": "eval_count"}
    usage = {name: fields.get(count) for name, count in counts.items()}
    return {"choices": [{"delta": delta, "finish_reason": finish}], "usage": usage}
