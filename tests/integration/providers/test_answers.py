"""If these fail, answers that arrive in pieces, compressed or broken lose content over a real connection."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from newel.agent.errors import (
    BadResponse,
    ConnectionFailed,
    ContextOverflow,
    NewelError,
    RateLimited,
    ServerFailed,
)
from newel.agent.events import TextDelta
from newel.agent.messages import Message, Usage, UserMessage
from newel.agent.ports import Model, ModelRequest, ProviderEvent
from newel.concurrency import task_group
from tests.integration.providers.raw import (
    DONE,
    HELLO,
    STREAM_HEAD,
    Connect,
    Handler,
    Serve,
    ask,
    chunk,
    event,
    floods,
    http,
    resets,
    sends,
    sse,
    stalls,
)

pytestmark = pytest.mark.anyio

USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
WHOLE = {
    "choices": [{"message": {"role": "assistant", "content": "Hello, wörld"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}
JSON = json.dumps(WHOLE).encode()
STREAM = HELLO + USAGE + DONE
CALL = {
    "tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]
}


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def byte_by_byte(answer: bytes) -> Handler:
    return sends(*(answer[at : at + 1] for at in range(len(answer))), then=stalls)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(sse(STREAM), id="as it should be"),
        pytest.param(sends(STREAM_HEAD + STREAM), id="ended by closing"),
        pytest.param(
            sends(STREAM_HEAD, *(STREAM[at : at + 1] for at in range(len(STREAM)))), id="byte by byte"
        ),
        pytest.param(sse(STREAM.replace(b"\n", b"\r\n")), id="CRLF"),
        pytest.param(sse(STREAM.replace(b"\n", b"\r")), id="CR"),
        pytest.param(
            sse(b": ping\n\n" + STREAM.replace(b"data:", b": ping\nevent: x\ndata:")), id="comments"
        ),
        pytest.param(sse(b"\xef\xbb\xbf" + STREAM.replace(b"data: ", b"data:")), id="BOM and no space"),
        pytest.param(sse(HELLO + USAGE), id="no [DONE]"),
        pytest.param(sse(HELLO + USAGE + DONE.rstrip()), id="no empty line at the end"),
        pytest.param(sse(HELLO + USAGE + DONE + b"data: rubbish\n\n"), id="rubbish after the end"),
        pytest.param(sends(STREAM_HEAD + HELLO + USAGE, then=resets), id="reset after the last word"),
        pytest.param(sends(STREAM_HEAD + STREAM, then=stalls), id="left open after [DONE]"),
        pytest.param(http(STREAM), id="no content type"),
        pytest.param(http(STREAM, content_type="text/html"), id="a wrong content type"),
        pytest.param(http(JSON, content_type="application/json"), id="JSON, though a stream was asked for"),
        pytest.param(http(b"\n\n \xef\xbb\xbf" + JSON), id="JSON after blank lines, no content type"),
        pytest.param(http(JSON, content_type="text/event-stream"), id="JSON under the name of a stream"),
        pytest.param(sse(gzip.compress(STREAM), content_encoding="gzip"), id="gzip"),
        pytest.param(http(zlib.compress(JSON), content_encoding="deflate"), id="deflate"),
        pytest.param(http(bare(JSON), content_encoding="deflate"), id="deflate without zlib's header"),
        pytest.param(http(gzip.compress(JSON), content_encoding="deflate"), id="gzip that is called deflate"),
        pytest.param(http(zlib.compress(JSON), content_encoding="X-GZIP"), id="deflate that is called gzip"),
        pytest.param(
            sse(*map(gzip.compress, STREAM.splitlines(keepends=True)), content_encoding="gzip"),
            id="gzip of many members",
        ),
        pytest.param(
            sse(
                gzip.compress(HELLO), b"\0" * 9, gzip.compress(USAGE + DONE), b"\0\0", content_encoding="gzip"
            ),
            id="padded gzip",
        ),
        pytest.param(http(gzip.compress(JSON) + b"junk", content_encoding="gzip"), id="junk behind gzip"),
        pytest.param(
            byte_by_byte(sse(gzip.compress(HELLO), gzip.compress(USAGE + DONE), content_encoding="gzip")),
            id="gzip of two members, byte by byte",
        ),
        pytest.param(
            byte_by_byte(http(bare(JSON), content_encoding="deflate")), id="bare deflate, byte by byte"
        ),
        pytest.param(sse(HELLO.replace(b"w\xc3\xb6", b"w\\u00f6") + USAGE + DONE), id="escapes"),
        pytest.param(sse(HELLO.replace(b'"index": 0', b'"logprob": NaN') + USAGE + DONE), id="NaN"),
    ],
)
async def test_the_same_answer_in_every_form(answer: bytes | Handler, serve: Serve, connect: Connect) -> None:
    """Otherwise some servers, gateways or networks would give no answer, or another one."""
    message, seen = await ask(connect(serve(answer).url))
    assert message.text == "Hello, wörld"
    assert message.text == "".join(delta.delta for delta in seen if isinstance(delta, TextDelta))
    assert (message.usage, message.stop_reason) == (Usage(input=7, output=3), "stop")


@pytest.mark.parametrize("size", [2**20 - 100, 2**20, 2**20 + 1, 5 * 2**20])
@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, bare])
async def test_a_long_compressed_answer_is_complete(
    pack: Callable[[bytes], bytes], size: int, serve: Serve, connect: Connect
) -> None:
    """A few kilobytes decompress to more than is decompressed at once. Otherwise the rest is lost."""
    answer = {"choices": [{"message": {"content": "x" * size}, "finish_reason": "stop"}]}
    encoding = "gzip" if pack is gzip.compress else "deflate"
    message, _ = await ask(
        connect(serve(http(pack(json.dumps(answer).encode()), content_encoding=encoding)).url)
    )
    assert message.text == "x" * size


async def test_a_call_and_the_model_that_made_it(serve: Serve, connect: Connect) -> None:
    """Otherwise no tool runs, and a session does not know its model."""
    provider = connect(serve(sse(chunk(None, **CALL), chunk("stop"), DONE)).url, name="box")
    message, _ = await ask(provider)
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("c", "bash", {"command": "ls"})
    ]
    assert (message.model, message.provider, message.stop_reason) == ("m", "box", "toolUse")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(sends(STREAM_HEAD + chunk(content="Half"), then=resets), id="reset"),
        pytest.param(sse(chunk(content="Half")), id="no finish reason"),
        pytest.param(
            sends(STREAM_HEAD + chunk(content="Half") + b'data: {"choices": [{"de'), id="within an event"
        ),
        pytest.param(sends(STREAM_HEAD), id="nothing"),
        pytest.param(sends(http(JSON)[:-9]), id="JSON, shorter than its length"),
        pytest.param(sends(b"HTTP/1.1 200 OK\r\n\r\n" + JSON[:-9]), id="JSON without its end"),
        pytest.param(
            sends(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffff\r\ndata: {"),
            id="within a chunk",
        ),
        pytest.param(sends(http(gzip.compress(STREAM), content_encoding="gzip")[:-90]), id="within gzip"),
        pytest.param(sends(), id="no answer at all"),
        pytest.param(sends(b"SSH-2.0-OpenSSH_9.6\r\n"), id="not HTTP"),
    ],
)
async def test_a_broken_answer_can_be_retried(
    answer: bytes | Handler, serve: Serve, connect: Connect
) -> None:
    """Otherwise half an answer counts as a whole one, or a dropped connection ends the run."""
    with pytest.raises(ConnectionFailed) as caught:
        await ask(connect(serve(answer).url))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(
            http(b"<html><title>Log in</title></html>", content_type="text/html"), "Log in", id="a page"
        ),
        pytest.param(http(b"Welcome", content_type="text/plain"), "Welcome", id="a text"),
        pytest.param(http(b'{"status": "ok"}'), '{"status": "ok"}', id="another JSON"),
        pytest.param(http(b"[1, 2"), "", id="no JSON"),
        pytest.param(http(b"{nonsense}"), "{nonsense}", id="nearly JSON"),
        pytest.param(
            sse(b"data: {nonsense}\n\n", HELLO, DONE), "not JSON: {nonsense}", id="an event that is not JSON"
        ),
        pytest.param(
            sse(b"data: " + b"[" * 90_000 + b"\n\n", DONE), "not JSON: [[[", id="an event of brackets"
        ),
        pytest.param(http(b"not gzip", content_encoding="gzip"), "content encoding", id="a wrong encoding"),
    ],
)
async def test_a_body_that_is_not_an_answer_is_quoted(
    answer: bytes, words: str, serve: Serve, connect: Connect
) -> None:
    """Otherwise a wrong base URL looks like a model without an answer."""
    with pytest.raises(NewelError) as caught:
        await ask(connect(serve(answer).url))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"message": "Out of memory", "code": 500}}, ServerFailed),
        ({"error": {"message": "Slow down", "code": 429}}, RateLimited),
        ({"error": "the context window is full"}, ContextOverflow),
        ({"object": "error", "message": "Out of memory", "code": 500}, ServerFailed),
    ],
)
async def test_an_error_inside_an_answer_is_raised(
    error: dict[str, Any], kind: type[NewelError], serve: Serve, connect: Connect
) -> None:
    """Otherwise an answer seems complete where the server gave up."""
    for answer in (sse(chunk(content="Half"), event(error), DONE), http(json.dumps(error).encode())):
        with pytest.raises(kind):
            await ask(connect(serve(answer).url))


OPEN = b"HTTP/1.1 200 OK\r\n\r\n"


def bomb(connection: socket.socket) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = b"".join(packer.compress(b"x" * 2**20) for _ in range(100)) + packer.flush()
    connection.sendall(http(packed, content_encoding="gzip"))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(floods(OPEN + b"{", b"x" * 65536), id="JSON that never ends"),
        pytest.param(floods(OPEN, b" " * 65536), id="white space for ever"),
        pytest.param(bomb, id="100 MB in 100 KB"),
    ],
)
async def test_an_endless_answer_is_refused(answer: bytes | Handler, serve: Serve, connect: Connect) -> None:
    """Otherwise one broken server fills the memory. ``test_memory`` also sends endless bodies."""
    with pytest.raises(BadResponse, match="refused"):
        await ask(connect(serve(answer).url))


async def test_keys_have_their_turn_within_one_piece_of_many_events(serve: Serve, connect: Connect) -> None:
    """Otherwise no key is shown and Escape stops nothing until all of the piece is on the screen."""
    server = serve(sse(*(chunk(content=f"{number} ") for number in range(300)), chunk("stop"), DONE))
    turns, turns_between = 0, set[int]()

    async def on_delta(_: ProviderEvent) -> None:
        until = time.monotonic() + 0.001  # painting, which waits for nothing
        while time.monotonic() < until:
            pass
        turns_between.add(turns)

    async def press_keys() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async with task_group() as group:
        group.start_soon(press_keys)
        messages: list[Message] = [UserMessage("Hi")]
        request = ModelRequest(system_prompt="", messages=messages, tools=[], model=Model("m"))
        answer = await connect(server.url).complete(request, on_delta)
        group.cancel_scope.cancel()
    assert answer.text.split() == [str(number) for number in range(300)]
    assert len(turns_between) > 20
