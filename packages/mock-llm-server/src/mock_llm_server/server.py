"""The server: its routes, and two ways to run it in a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from mock_llm_server.completion import build_answer, fill_response
from mock_llm_server.conversation import ChatRequest, StepMatch, find_step, history_problem, read_conversation
from mock_llm_server.faults import apply_fault, due_fault, malform_arguments
from mock_llm_server.http1 import BadRequest, Connection, Request
from mock_llm_server.recording import ExchangeRecorder, Recorder, request_record
from mock_llm_server.reply import Reply, error_reply, json_reply, plain, stream
from mock_llm_server.scenarios import Response, Script, load, parse
from mock_llm_server.templates import TemplateError
from mock_llm_server.upstream import Upstream

_MODEL = "mock-model"
_CHAT = "/chat/completions"
_DISCONNECTED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class MockServer:
    """A running server.

    ``url`` is its address without a path, such as ``http://127.0.0.1:43210``; both ``url`` and ``url + "/v1"`` are valid base
    URLs. ``requests`` are the latest requests, oldest first: ``{"method", "path", "headers", "body"}`` with masked secrets
    and decoded body, and for chat completions the ``{"scenario", "step"}`` of the answer (None for the default response).
    """

    def __init__(
        self,
        script: Script,
        *,
        strict: bool = False,
        keep: int = 0,
        recorder: Recorder | None = None,
        upstream: Upstream | None = None,
    ) -> None:
        self.url = ""
        self.port = 0
        self.requests: list[dict[str, Any]] = []
        self._script = script
        self._strict = strict
        self._recorder = recorder
        self._upstream = upstream
        self._keep = keep
        # Requests of each step, by its identity: the script outlives the server.
        self._requests_of_step: Counter[int] = Counter()

    async def handle(self, stream: SocketStream) -> None:
        """Serve one connection until either side closes it."""
        connection = Connection(stream)
        async with stream:
            with suppress(*_DISCONNECTED):
                try:
                    while (request := await connection.receive()) is not None:
                        await self._exchange(connection, request)
                        if not connection.next_cycle():
                            break
                except BadRequest as error:
                    reply = error_reply(error.status, str(error), headers={"connection": "close"})
                    await connection.reply(reply, lambda _: None)
                await connection.close()

    async def _exchange(self, connection: Connection, request: Request) -> None:
        if self._upstream and _route(request.path) in {_CHAT, "/models"}:
            async with self._upstream.forward(request) as reply:
                await self._send(connection, request, reply)
        else:
            await self._send(connection, request, self.reply(request))

    async def _send(self, connection: Connection, request: Request, reply: Reply) -> None:
        if self._keep:
            self.requests.append(msgspec.structs.asdict(request_record(request)) | reply.note)
            del self.requests[: -self._keep]
        if not self._recorder:
            await connection.reply(reply, lambda _: None)
            return
        recording = ExchangeRecorder(request_record(request), reply)
        try:
            recording.exchange.response.ending = await connection.reply(reply, recording.on_sent)
        finally:
            self._recorder.write(recording.exchange)

    def reply(self, request: Request) -> Reply:
        """The reply to a request, with its faults."""
        route = unquote(_route(request.path))
        allowed = "POST" if route == _CHAT else "GET, HEAD"
        known = route in {_CHAT, "/models", "/health"} or route.startswith("/models/")
        if known and request.method not in allowed.split(", "):
            message = f"{request.path} does not allow {request.method}; use {allowed}."
            return error_reply(405, message, code="method_not_allowed", headers={"allow": allowed})
        if route == _CHAT:
            return self._chat(request.body)
        if route == "/health":
            return json_reply(200, {"status": "ok"})
        if route == "/models":
            return json_reply(200, {"object": "list", "data": self._models()})
        for model in self._models():
            if route == f"/models/{model['id']}":
                return json_reply(200, model)
        if known:
            return error_reply(
                404,
                f"This server has no model {unquote(request.path.rpartition('/')[2])}.",
                code="model_not_found",
            )
        return error_reply(404, f"Not found: {request.path}. Try /v1{_CHAT}.", code="unknown_url")

    def _models(self) -> list[dict[str, Any]]:
        names = dict.fromkeys([_MODEL, *self._script.models])
        return [
            {"id": name, "object": "model", "created": 0, "owned_by": "mock-llm-server"} for name in names
        ]

    def _chat(self, body: bytes) -> Reply:
        try:
            request = msgspec.json.decode(body, type=ChatRequest)
        except (msgspec.DecodeError, RecursionError) as error:
            return error_reply(400, f"The body is not a chat completion request: {error}.")
        if not request.messages:
            return error_reply(400, "The list of messages is empty.", param="messages")
        if self._strict and (problem := history_problem(request.messages)):
            return error_reply(400, problem[1], param=problem[0])
        match = find_step(self._script, read_conversation(request))
        scenario = match.scenario.name if match.scenario else None
        try:
            reply = self._answer(request, match)
        except TemplateError as error:
            message = f"Scenario {scenario!r}, step {match.index + 1}: {error}."
            reply = error_reply(400, message, code="template_not_filled")
        return msgspec.structs.replace(reply, note={"scenario": scenario, "step": match.index})

    def _answer(self, request: ChatRequest, match: StepMatch) -> Reply:
        step = match.step
        response = step.response or Response()
        if not step.literal:
            response = fill_response(response, match.values)
        fault = None
        if match.scenario:
            fault = due_fault(step, self._requests_of_step[id(step)])
            self._requests_of_step[id(step)] += 1
        answer = build_answer(request, malform_arguments(fault, response))
        delay, token_delay = step.delay_ms / 1000, step.token_delay_ms / 1000
        if request.stream:
            usage = request.include_usage
            reply = stream(answer, include_usage=usage, delay=delay, token_delay=token_delay)
        else:
            reply = plain(answer, delay=delay, token_delay=token_delay)
        return apply_fault(fault, reply, streamed=bool(request.stream))


def _route(path: str) -> str:
    return path.removeprefix("/v1")


Scenarios = Script | dict[str, Any] | Path | None


def _script(scenarios: Scenarios) -> Script:
    if isinstance(scenarios, Script):
        return scenarios
    if isinstance(scenarios, dict):
        return parse(msgspec.json.format(msgspec.json.encode(scenarios), indent=2).decode())
    return load(scenarios)


@asynccontextmanager
async def serve(
    scenarios: Scenarios = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    record: Path | None = None,
    strict: bool = False,
    keep: int = 1000,
    upstream: Upstream | None = None,
) -> AsyncGenerator[MockServer]:
    """Run a server in the current event loop.

    :param scenarios: a Script, its JSON as dictionaries, or a file; None: the bundled scenarios.
    :param port: 0 selects a free one.
    :param record: append each exchange to this file.
    :param strict: refuse histories in which tool calls and results do not pair up, as strict endpoints do.
    :param keep: how many of the latest requests ``MockServer.requests`` keeps.
    :param upstream: forward chat completions to a real endpoint instead of answering from the scenarios.

    Raises ``ScenarioError``, and ``OSError`` if the address is in use or the recording cannot be opened.
    """
    script = _script(scenarios)
    recorder = Recorder(record) if record else None
    server = MockServer(script, strict=strict, keep=keep, recorder=recorder, upstream=upstream)
    try:
        async with await anyio.create_tcp_listener(local_host=host, local_port=port) as listener:
            server.port = listener.extra(SocketAttribute.local_port)
            server.url = f"http://{f'[{host}]' if ':' in host else host}:{server.port}"
            failure = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, server.handle)
                try:
                    yield server
                except Exception as error:  # noqa: BLE001 — raised again below, outside of the group
                    failure = error
                tasks.cancel_scope.cancel()
            if failure:
                # The caller gets the error of its own block, not an exception group.
                raise failure
    finally:
        if recorder:
            recorder.close()


@contextmanager
def running(
    scenarios: Scenarios = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    record: Path | None = None,
    strict: bool = False,
    keep: int = 1000,
) -> Generator[MockServer]:
    """``serve`` for synchronous tests: runs the server in a thread."""
    from anyio.from_thread import start_blocking_portal

    context = serve(scenarios, host=host, port=port, record=record, strict=strict, keep=keep)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(context) as server:
        yield server
