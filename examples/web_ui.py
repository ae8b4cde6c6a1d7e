"""A chat page with attachments, on ``Agent`` and ``AppTransport``: the keys stay on the Newel server.

newel web                                   # prints its address, with its token
python examples/web_ui.py 'http://127.0.0.1:8101/#token=…' MODEL [PORT]
"""

from __future__ import annotations

import base64
import secrets
import sys
from contextlib import aclosing
from pathlib import Path

import anyio.to_thread
import msgspec
from serving import EventStream, Write, read_body, serve
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

import newel
from newel.agent.messages import Attachment

PAGE = Path(__file__).with_name("web_ui.html")


class UploadedFile(msgspec.Struct, frozen=True):
    """A file as the page sends it; ``content`` is base64 in JSON."""

    name: str
    type: str
    content: bytes


class ChatMessage(msgspec.Struct, frozen=True):
    text: str
    files: list[UploadedFile] = []


def attachment(file: UploadedFile) -> Attachment:
    """An image as it is, any other file as text. An application would extract the text of PDFs here."""
    is_image = file.type in {"image/png", "image/jpeg", "image/gif", "image/webp"}
    return Attachment(
        type="image" if is_image else "document",
        file_name=file.name,
        mime_type=file.type,
        size=len(file.content),
        content=base64.b64encode(file.content).decode(),
        extracted_text=None if is_image else f"File {file.name}:\n{file.content.decode(errors='replace')}",
    )


def build_app(agent: newel.Agent, token: str) -> Starlette:
    async def page(_: Request) -> Response:
        text = await anyio.to_thread.run_sync(PAGE.read_text)
        policy = (
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
        )
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def prompt(request: Request) -> Response:
        body = await read_body(request, token)
        try:
            message = msgspec.json.decode(body, type=ChatMessage)
        except msgspec.DecodeError as error:
            raise HTTPException(400, str(error)) from error
        if agent.state.is_streaming:
            raise HTTPException(409, "The last message is still being answered.")

        async def produce(write: Write) -> None:
            async with agent.stream(message.text, [attachment(file) for file in message.files]) as events:
                async for event in events:
                    await write(event)

        return EventStream(produce)

    return Starlette(routes=[Route("/", page), Route("/prompt", prompt, methods=["POST"])])


async def main(address: str, model: str, port: int) -> None:
    url, _, key = address.partition("/#token=")
    config = newel.RunConfig(
        model=newel.Model(model), transform=newel.Transformer(), system_prompt="You are a helpful assistant."
    )
    token = secrets.token_urlsafe(24)
    print(f"http://127.0.0.1:{port}/#{token}", flush=True)
    async with aclosing(newel.AppTransport(url, key)) as transport:
        await serve(build_app(newel.Agent(transport, config), token), port)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3001)
