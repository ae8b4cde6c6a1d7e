"""An agent behind HTTP: each session has a folder of its own, and its events are streamed.

    python examples/headless_server.py [FOLDER [PORT]]

    curl -N http://127.0.0.1:3000/api/prompt -H "Authorization: Bearer TOKEN" \
      -d '{"prompt": "Write a hello world", "sessionId": "s1"}'

A client that disconnects aborts its run. The agents run commands as you: let nobody in whom you would not give a shell.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
from serving import EventStream, Write, read_body, serve
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import newel


class PromptRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The session's ID is the name of its folder, so it has nothing in it that means something in a path."""

    prompt: Annotated[str, msgspec.Meta(min_length=1)]
    session_id: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]


def build_app(root: Path, token: str) -> Starlette:
    busy: set[str] = set()

    async def prompt(request: Request) -> Response:
        body = await read_body(request, token)
        try:
            asked = msgspec.json.decode(body, type=PromptRequest)
        except msgspec.DecodeError as error:
            raise HTTPException(400, str(error)) from error
        if asked.session_id in busy:
            raise HTTPException(409, "A prompt of this session is running.")
        busy.add(asked.session_id)

        async def produce(write: Write) -> None:
            try:
                folder = root / asked.session_id
                folder.mkdir(parents=True, exist_ok=True)
                options = newel.open_coding_agent(working_directory=folder, continue_=True)
                async with options as agent, agent.stream(asked.prompt) as events:
                    async for event in events:
                        await write(event)
            finally:
                busy.discard(asked.session_id)

        return EventStream(produce)

    return Starlette(routes=[Route("/api/prompt", prompt, methods=["POST"])])


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "workspaces").absolute()
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    token = secrets.token_urlsafe(24)
    print(f"http://127.0.0.1:{port}/api/prompt  token {token}", flush=True)
    anyio.run(serve, build_app(root, token), port)
