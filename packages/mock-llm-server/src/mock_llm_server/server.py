"""The server: its routes, and two ways to run it in a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import SocketAttribute, SocketStream

from mock_llm_server.answer import Answer, build_answer, fill_response, tokens
from mock_llm_server.conversation import ChatRequest, Conversation, StepMatch, find_step, read_conversation
from mock_llm_server.dialects import CHAT_COMPLETIONS, DIALECTS, Dialect
from mock_llm_server.dialects.chat_completions import PATH as CHAT_PATH
from mock_llm_server.faults import apply_fault, due_fault, malform_arguments
from mock_llm_server.http1 import BadRequest, Connection, Request
from mock_llm_server.recording import ExchangeRecorder, Recorder, request_record
from mock_llm_server.reply import Piece, Reply, json_reply
from mock_llm_server.scenarios import Response, Script, load, parse
from mock_llm_server.templates import TemplateError
from mock_llm_server.upstream import Upstream

Choose: TypeAlias = Callable[[Conversation], StepMatch]
"""Chooses the step that answers a conversation. It may keep state, which scenarios cannot."""

_DISCONNECTED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class MockServer:
    """A running server.

    ``url`` is its address without a path, such as ``http://127.0.0.1:43210``; both ``url`` and ``url + "/v1"`` are valid base
    URLs. ``requests`` are the latest requests, oldest first: ``{"method", "path", "headers", "body"}`` with masked secrets
    and decoded body, and for questions to a model the ``{"scenario", "step"}`` of the answer (None for the default response).
    ``bodies`` are their bodies as received. ``abandoned`` counts the replies during which the client disconnected.
    """

    def __init__(
        self,
        script: Script,
        *,
        strict: bool = False,
        keep: int = 0,
        recorder: Recorder | None = None,
        upstream: Upstream | None = None,
        choose: Choose | None = None,
    ) -> None:
        self.url = ""
        self.port = 0
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.abandoned = 0
        self._script = script
        self._choose = choose or partial(find_step, script)
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
                    reply = CHAT_COMPLETIONS.error(error.status, str(error), headers={"connection": "close"})
                    await connection.reply(reply, lambda _: None)
                await connection.close()

    async def _exchange(self, connection: Connection, request: Request) -> None:
        if self._upstream and request.path.removeprefix("/v1") in {CHAT_PATH, "/models"}:
            async with self._upstream.forward(request) as reply:
                await self._send(connection, request, reply)
        else:
            await self._send(connection, request, self.reply(request))

    async def _send(self, connection: Connection, request: Request, reply: Reply) -> None:
        if self._keep:
            self.requests.append(msgspec.structs.asdict(request_record(request)) | reply.note)
            self.bodies.append(request.body)
            del self.requests[: -self._keep], self.bodies[: -self._keep]
        recording = ExchangeRecorder(request_record(request), reply) if self._recorder else None
        try:
            ending = await connection.reply(reply, recording.on_sent if recording else lambda _: None)
            if recording:
                recording.exchange.response.ending = ending
        except _DISCONNECTED:
            self.abandoned += 1
            raise
        finally:
            if recording and self._recorder:
                self._recorder.write(recording.exchange)

    def reply(self, request: Request) -> Reply:
        """The reply to a request, with its faults."""
        for dialect in DIALECTS:
            if dialect.handles(request):
                return _only(dialect, "POST", request) or self._answer(dialect, request)
        if request.path.removeprefix("/v1") == "/health":
            return _only(CHAT_COMPLETIONS, "GET, HEAD", request) or json_reply(200, {"status": "ok"})
        for dialect in DIALECTS:
            if reply := dialect.query(request, self._script):
                return _only(dialect, reply.methods, request) or reply
        message = f"Not found: {request.path}. Try {CHAT_COMPLETIONS.path}."
        return CHAT_COMPLETIONS.error(404, message, code="unknown_url")

    def _answer(self, dialect: Dialect, http: Request) -> Reply:
        try:
            request = dialect.read(http)
        except (msgspec.DecodeError, RecursionError) as error:
            return dialect.error(400, f"The body is not a request for {dialect.path}: {error}.")
        if not request.messages:
            return dialect.error(400, "The list of messages is empty.", param="messages")
        if refusal := dialect.refusal(http, request, self._script):
            return refusal
        if self._strict and (problem := dialect.problem(http, request)):
            return dialect.error(400, problem[1], param=problem[0])
        match = self._choose(read_conversation(request))
        scenario = match.scenario.name if match.scenario else None
        try:
            reply = self._scripted(dialect, request, match)
        except TemplateError as error:
            message = f"Scenario {scenario!r}, step {match.index + 1}: {error}."
            reply = dialect.error(400, message, code="template_not_filled")
        return msgspec.structs.replace(reply, note={"scenario": scenario, "step": match.index})

    def _scripted(self, dialect: Dialect, request: ChatRequest, match: StepMatch) -> Reply:
        step = match.step
        response = step.response or Response()
        if not step.literal:
            response = fill_response(response, match.values)
        fault = None
        if match.scenario:
            fault = due_fault(step, self._requests_of_step[id(step)])
            self._requests_of_step[id(step)] += 1
        answer = build_answer(request, malform_arguments(fault, response))
        delays = (step.delay_ms / 1000, step.token_delay_ms / 1000)
        make = _stream if request.stream else _plain
        return apply_fault(
            fault, make(dialect, answer, request, *delays), dialect, streamed=bool(request.stream)
        )


def _plain(dialect: Dialect, answer: Answer, _: ChatRequest, delay: float, token_delay: float) -> Reply:
    """The answer as one JSON document, sent after the time that streaming it takes. Delays are in seconds."""
    words = sum(len(tokens(text)) for text in [answer.content or "", *answer.reasoning.values()])
    return msgspec.structs.replace(
        json_reply(200, dialect.document(answer)), wait=delay + token_delay * words
    )


def _stream(
    dialect: Dialect, answer: Answer, request: ChatRequest, delay: float, token_delay: float
) -> Reply:
    """The answer piece by piece. Delays are in seconds."""
    first, *others = dialect.events(answer, request)
    pieces = [Piece(first), *(Piece(data, token_delay) for data in others)]
    if dialect.end:
        pieces.append(Piece(dialect.end))
    headers = {"content-type": dialect.content_type, "cache-control": "no-cache"}
    return Reply(200, headers, pieces, wait=delay)


def _only(dialect: Dialect, methods: str, request: Request) -> Reply | None:
    """The error for a request by another method; None if it is allowed."""
    if request.method in methods.split(", "):
        return None
    message = f"{request.path} does not allow {request.method}; use {methods}."
    return dialect.error(405, message, code="method_not_allowed", headers={"allow": methods})


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
    choose: Choose | None = None,
) -> AsyncGenerator[MockServer]:
    """Run a server in the current event loop.

    :param scenarios: a Script, its JSON as dictionaries, or a file; None: the bundled scenarios.
    :param port: 0 selects a free one.
    :param record: append each exchange to this file.
    :param strict: refuse histories in which tool calls and results do not pair up, as strict endpoints do.
    :param keep: how many of the latest requests ``MockServer.requests`` keeps.
    :param upstream: forward chat completions to a real endpoint instead of answering from the scenarios.
    :param choose: chooses the step that answers a conversation, in place of the triggers of the scenarios.

    Raises ``ScenarioError``, and ``OSError`` if the address is in use or the recording cannot be opened.
    """
    script = _script(scenarios)
    recorder = Recorder(record) if record else None
    server = MockServer(script, strict=strict, keep=keep, recorder=recorder, upstream=upstream, choose=choose)
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
