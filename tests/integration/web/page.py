"""A page without a screen: it sends requests on the socket and keeps what it receives."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import websockets

from newel.runs.run_events import RunEvent, is_lasting
from tests.integration.web.served_workbench import ServedWorkbench

Heard = dict[str, Any]


class Page:
    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket
        self.heard: list[Heard] = []
        self._looked_at = 0
        self._ids = itertools.count(1)

    async def next(self) -> Heard:
        """The next message of the server."""
        with anyio.fail_after(10):
            message = msgspec.json.decode(await self.socket.recv())
        self.heard.append(message)
        return message

    async def until(self, kind: str, **fields: Any) -> Heard:
        """Read until a message of a type with these fields. What came before the reply to a request counts."""
        while True:
            if self._looked_at == len(self.heard):
                await self.next()
            message = self.heard[self._looked_at]
            self._looked_at += 1
            if message["type"] == kind and all(message.get(name) == value for name, value in fields.items()):
                return message

    async def event(self, kind: str) -> Heard:
        """Read until an event of a type."""
        while (message := await self.until("event"))["event"]["type"] != kind:
            pass
        return message

    async def send(self, kind: str, **fields: Any) -> str:
        """Send a request; returns its id."""
        name = str(next(self._ids))
        await self.socket.send(msgspec.json.encode({"type": kind, "id": name, **fields}).decode())
        return name

    async def ask(self, kind: str, **fields: Any) -> Heard:
        """Send a request and wait for the reply or the error."""
        name = await self.send(kind, **fields)
        while True:
            message = await self.next()
            if message.get("re") == name:
                return message

    async def open_chat(self) -> str:
        """Open a chat and watch it."""
        tab = (await self.ask("openChat"))["tab"]
        await self.send("watch", tab=tab)
        await self.until("snapshot", tab=tab)
        return tab

    def lasting(self, tab: str) -> list[tuple[int, str]]:
        """The numbers and types of the durable events received of a tab."""
        return [
            (message["seq"], message["event"]["type"])
            for message in self.heard
            if message["type"] == "event"
            and message["tab"] == tab
            and is_lasting(msgspec.convert(message["event"], RunEvent))
        ]


@asynccontextmanager
async def page(server: ServedWorkbench, *subprotocols: str, **headers: str) -> AsyncGenerator[Page]:
    """A connected page that has received the welcome message."""
    async with server.socket(*subprotocols, **headers) as socket:
        opened = Page(socket)
        assert (await opened.next())["type"] == "welcome"
        yield opened
