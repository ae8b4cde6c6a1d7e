"""The debugging pipe of a Chromium (``--remote-debugging-pipe``): JSON messages that end with a null byte."""

from __future__ import annotations

import contextlib
from typing import Final

import anyio
import msgspec

from newel.app.window_process import WindowProcess

_POLL_S: Final = 0.05
_SIGN_IN_TIMEOUT_S: Final = 30.0


class _Reply(msgspec.Struct):
    """A reply, or an event, which has no ``id``."""

    id: int = 0
    result: dict[str, object] = {}


class DebuggingPipe:
    """Sends commands of the DevTools protocol, one at a time."""

    def __init__(self, process: WindowProcess) -> None:
        self._process = process
        self._count = 0
        self._pending = b""

    async def ask(self, method: str, session: str | None = None, **parameters: object) -> dict[str, object]:
        """The result of a command; empty if it failed. Raises what the process's streams raise."""
        self._count += 1
        message: dict[str, object] = {"id": self._count, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        await self._process.send(msgspec.json.encode(message) + b"\0")
        while (reply := await self._receive()).id != self._count:
            pass
        return reply.result

    async def _receive(self) -> _Reply:
        while b"\0" not in self._pending:
            self._pending += await self._process.receive()
        message, _, self._pending = self._pending.partition(b"\0")
        return msgspec.json.decode(message, type=_Reply)


async def sign_in(process: WindowProcess, address: str, url: str) -> None:
    """Give the page at ``address`` its token: ``url`` is the same with a fragment. A browser that runs already with this profile
    has the page's key; then the new process only hands the address over and ends.
    """
    pipe = DebuggingPipe(process)
    with (
        contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream),
        anyio.move_on_after(_SIGN_IN_TIMEOUT_S),
    ):
        while (target := await _find_page(pipe, address)) is None:  # noqa: ASYNC110 — events would need another reader
            await anyio.sleep(_POLL_S)
        attached = await pipe.ask("Target.attachToTarget", targetId=target, flatten=True)
        session = str(attached.get("sessionId"))
        await pipe.ask("Page.navigate", session, url=url)
        await pipe.ask("Target.detachFromTarget", sessionId=session)


async def _find_page(pipe: DebuggingPipe, address: str) -> str | None:
    """The id of the first page at an address."""
    found = (await pipe.ask("Target.getTargets")).get("targetInfos", [])
    for target in msgspec.convert(found, list[dict[str, object]]):
        if target.get("type") == "page" and str(target.get("url")).startswith(address):
            return str(target.get("targetId"))
    return None
