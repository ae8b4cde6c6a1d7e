"""A scripted model for benchmarks: fast, and it logs when each request was complete and each answer sent.

    python benchmarks/model_server.py LOG STEPS

It answers the k-th request of a conversation (counted by tool results) with a streamed call ``bash {"command": "true
k"}``, and the one after STEPS with the text ``done``; a request that offers the tool ``verdict`` gets a call of it,
satisfied after STEPS. It listens on a free port of 127.0.0.1, prints the port, and writes one line
``step<TAB>received_ns<TAB>sent_ns<TAB>bytes`` per request, in nanoseconds of the monotonic clock. It uses the standard
library only, to cost as little as possible.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import IO

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

NO_MODELS = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"data":[]}'
"""The answer to a request without a body: a list of models without one."""


def answer(step: int, steps: int, *, judged: bool) -> bytes:
    """The body of one answer: chunks of server-sent events."""

    def event(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {
            "id": f"c{step}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    if step < steps or judged:
        arguments = json.dumps({"command": f"true {step}"})
        if judged:
            arguments = json.dumps({"satisfied": step >= steps, "why": "Counted.", "missing": "More."})
        function = {"name": "verdict" if judged else "bash", "arguments": ""}
        events = [
            event({"role": "assistant", "content": ""}),
            event({"content": "Next."}),
            event(
                {"tool_calls": [{"index": 0, "id": f"call_{step}", "type": "function", "function": function}]}
            ),
            event({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}),
            event({}, "tool_calls"),
        ]
    else:
        events = [event({"role": "assistant", "content": ""}), event({"content": "done"}), event({}, "stop")]
    events.append(b"data: [DONE]\n\n")
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in events) + b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """The minimum of HTTP/1.1: requests with a Content-Length, one at a time."""

    def __init__(self, log: IO[str], steps: int) -> None:
        self.log = log
        self.steps = steps
        self.parts: list[bytes] = []
        self.missing: int | None = None
        self.size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        if self.missing is None:
            head, end, body = b"".join(self.parts).partition(b"\r\n\r\n")
            if not end:
                return
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            self.size = int(lengths[0].split(b":")[1]) if lengths else 0
            self.parts, self.missing = [body], self.size - len(body)
        else:
            self.missing -= len(data)
        if self.missing <= 0 and self.size == 0:
            self.parts, self.missing = [], None
            self.transport.write(NO_MODELS)
        elif self.missing <= 0:
            received = time.monotonic_ns()
            body = b"".join(self.parts)
            self.parts, self.missing = [], None
            step = body.count(b'"role":"tool"')
            judged = b"is the contract fulfilled?" in body
            self.transport.write(answer(step, self.steps, judged=judged))
            self.log.write(f"{step}\t{received}\t{time.monotonic_ns()}\t{self.size}\n")


async def main(log: IO[str], steps: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Connection(log, steps), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", buffering=1) as stream:
        asyncio.run(main(stream, int(sys.argv[2])))
