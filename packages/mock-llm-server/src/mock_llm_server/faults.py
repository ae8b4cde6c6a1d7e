"""Faults. Each changes the reply; only a reset also needs the connection."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from typing import assert_never

import msgspec

from mock_llm_server.dialects.base import Dialect
from mock_llm_server.reply import Piece, Reply, json_reply
from mock_llm_server.scenarios import (
    EndEarlyFault,
    EndlessBodyFault,
    Fault,
    Function,
    MalformedArgumentsFault,
    MissingDoneFault,
    ResetFault,
    Response,
    StallFault,
    StatusFault,
    Step,
    StreamErrorFault,
    TruncatedJsonFault,
    WrongContentTypeFault,
)

_JUNK = b"x"
_PING = b": ping\n\n"
_BLOCK = 65536


def due_fault(step: Step, before: int) -> Fault | None:
    """The fault of a step for the next request, after ``before`` earlier ones since the server started."""
    for fault in step.faults:
        if fault.times is None or before < fault.times:
            return fault
        before -= fault.times
    return None


def malform_arguments(fault: Fault | None, response: Response) -> Response:
    """Malform the arguments of the response's calls, if that is the fault."""
    if not isinstance(fault, MalformedArgumentsFault):
        return response
    calls = [
        msgspec.structs.replace(
            call, function=Function(name=call.function.name, arguments=_malformed(fault, call.function))
        )
        for call in response.tool_calls
    ]
    return msgspec.structs.replace(response, tool_calls=calls)


def _malformed(fault: MalformedArgumentsFault, function: Function) -> str:
    if fault.arguments is not None:
        return fault.arguments
    arguments = function.arguments
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return text[: len(text) // 2]


def apply_fault(fault: Fault | None, reply: Reply, dialect: Dialect, *, streamed: bool) -> Reply:
    """Apply a fault to a reply of an API. A plain body counts as two chunks, its halves."""
    pieces = reply.pieces if streamed else _halves(reply.pieces[0])
    if isinstance(fault, (ResetFault, StallFault, TruncatedJsonFault, EndEarlyFault, StreamErrorFault)):
        return _interrupted(fault, reply, pieces, dialect, streamed=streamed)
    match fault:
        case None | MalformedArgumentsFault():
            return reply
        case StatusFault():
            return _status(fault, reply, dialect)
        case MissingDoneFault():
            return _chunked(reply, [piece for piece in pieces if piece.data != dialect.end])
        case WrongContentTypeFault():
            return msgspec.structs.replace(
                reply, headers=reply.headers | {"content-type": fault.content_type}
            )
        case EndlessBodyFault():
            return _endless(fault, reply, pieces, dialect, streamed=streamed)
        case _:
            assert_never(fault)


def _interrupted(
    fault: ResetFault | StallFault | TruncatedJsonFault | EndEarlyFault | StreamErrorFault,
    reply: Reply,
    pieces: list[Piece],
    dialect: Dialect,
    *,
    streamed: bool,
) -> Reply:
    # Not after the last piece: the answer would be complete, without a fault.
    count = min(fault.after_chunks, len(pieces) - (dialect.closing if streamed else 1))
    sent, rest = pieces[:count], pieces[count:]
    match fault:
        case ResetFault():
            return msgspec.structs.replace(reply, pieces=sent, reset=True)
        case StallFault():
            wait = math.inf if fault.seconds is None else fault.seconds
            if not sent:
                return msgspec.structs.replace(reply, wait=reply.wait + wait)
            return msgspec.structs.replace(reply, pieces=[*sent, Piece(rest[0].data, wait), *rest[1:]])
        case TruncatedJsonFault():
            return _chunked(reply, [*sent, Piece(rest[0].data[: len(rest[0].data) // 2], rest[0].wait)])
        case EndEarlyFault():
            return _chunked(reply, sent)
        case StreamErrorFault():
            error = dialect.stream_error(fault.message, fault.type, fault.code)
            if not streamed:
                return json_reply(200, error)
            return _chunked(reply, [*sent, Piece(dialect.error_event(error))])


def _halves(body: Piece) -> list[Piece]:
    middle = len(body.data) // 2
    return [Piece(body.data[:middle], body.wait), Piece(body.data[middle:])]


def _chunked(reply: Reply, pieces: list[Piece]) -> Reply:
    headers = {name: value for name, value in reply.headers.items() if name != "content-length"}
    return msgspec.structs.replace(reply, headers=headers, pieces=pieces)


def _status(fault: StatusFault, reply: Reply, dialect: Dialect) -> Reply:
    headers = {name.lower(): value for name, value in fault.headers.items()}
    body = fault.body
    if body is None:
        message = fault.message or f"This is a scripted fault with status {fault.status}."
        base = dialect.error(fault.status, message, headers=headers)
    elif isinstance(body, dict):
        base = json_reply(fault.status, body)
    else:
        texts = [body] if isinstance(body, str) else body
        base = Reply(
            fault.status, {"content-type": "text/plain; charset=utf-8"}, [Piece(t.encode()) for t in texts]
        )
    return msgspec.structs.replace(base, headers=base.headers | headers, wait=reply.wait, reset=fault.reset)


def _endless(
    fault: EndlessBodyFault, reply: Reply, pieces: list[Piece], dialect: Dialect, *, streamed: bool
) -> Reply:
    has_events = "event-stream" in dialect.content_type
    if not streamed or (fault.of == "junk" and not has_events):
        first, repeated = b'{"id": "', _JUNK
    elif fault.of == "junk":
        first, repeated = b"data: ", _JUNK
    elif fault.of == "content":
        first, repeated = pieces[0].data, pieces[1].data
    else:
        first, repeated = pieces[0].data, _PING if has_events else b"\n"
    return msgspec.structs.replace(_chunked(reply, [Piece(first)]), more=_forever(repeated))


async def _forever(data: bytes) -> AsyncGenerator[Piece]:
    block = Piece(data * (_BLOCK // len(data)))
    while True:
        yield block
