"""The least that a step can cost: ask, run ``true`` in a shell, send the result. Not an agent.

python benchmarks/floor.py httpx2|sockets BASE_URL
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

Ask = Callable[[bytes], Awaitable[bytes]]


async def steps(ask: Ask) -> None:
    """Continue until the model calls no tool; the body grows by a call and a result per step."""
    messages = [json.dumps({"role": "user", "content": "Run the steps."})]
    while True:
        answer = await ask(f'{{"model":"m","stream":true,"messages":[{",".join(messages)}]}}'.encode())
        if b'"tool_calls"' not in answer:
            return
        step = len(messages) // 2
        subprocess.run(  # noqa: ASYNC221 — nothing else is to do: it is a floor
            ["/bin/sh", "-c", f"true {step}"], stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        function = {"name": "bash", "arguments": json.dumps({"command": f"true {step}"})}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        messages.append(json.dumps({"role": "assistant", "content": "Next.", "tool_calls": [call]}))
        messages.append(f'{{"role":"tool","tool_call_id":"call_{step}","content":""}}')


async def by_httpx2(base_url: str) -> None:
    import httpx2

    async with httpx2.AsyncClient(verify=False, trust_env=False) as client:

        async def ask(body: bytes) -> bytes:
            answer = await client.post(base_url + "/chat/completions", content=body)
            return answer.content

        await steps(ask)


async def by_sockets(base_url: str) -> None:
    place = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"

    async def ask(body: bytes) -> bytes:
        writer.write((head % len(body)).encode() + body)
        return await reader.readuntil(b"0\r\n\r\n")

    await steps(ask)
    writer.close()


if __name__ == "__main__":
    asyncio.run({"httpx2": by_httpx2, "sockets": by_sockets}[sys.argv[1]](sys.argv[2]))
