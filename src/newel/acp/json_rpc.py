"""JSON-RPC 2.0 over lines: requests and notifications in both directions, on one connection.

A line that is not JSON, an unknown method and wrong parameters are answered with the standard's errors; the connection goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import checkpoint

from newel.agent.errors import NewelError
from newel.concurrency import task_group
from newel.text.json import decode_json, to_json

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_FOUND: Final = -32002
AUTH_REQUIRED: Final = -32000
"""The last two are the Agent Client Protocol's own."""

MAX_UNSENT: Final = 256 * 1024 * 1024
"""Bytes that wait for a peer that does not read."""

FLUSH_S: Final = 2.0
"""Seconds to send the last answers to a peer that has closed its side."""

T = TypeVar("T")


class JsonRpcError(NewelError):
    """An error of a request. ``number`` is its code in JSON-RPC, ``data`` is for programs."""

    def __init__(self, number: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.number = number
        self.data = data


class PeerGone(NewelError):
    """The other side has closed the connection."""


class Lines(Protocol):
    async def next(self) -> str | None:
        """The next line; None at the end. Raises ``ValueError`` for one that is too long, which is skipped."""
        ...


class Handler(Protocol):
    """Serves a peer. ``request`` runs in a task of its own, up to its first ``await`` before the next line is read."""

    async def request(self, method: str, params: msgspec.Raw, /) -> Any: ...

    async def notification(self, method: str, params: msgspec.Raw, /) -> None: ...


class _Incoming(msgspec.Struct):
    jsonrpc: str = ""
    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | None = None


_incoming = msgspec.json.Decoder(_Incoming)


def read_params(params: msgspec.Raw, kind: type[T]) -> T:
    """Decode parameters. Raises ``JsonRpcError`` with the place of the first mistake."""
    try:
        return decode_json(params, kind)
    except msgspec.DecodeError as error:
        raise JsonRpcError(INVALID_PARAMS, f"Invalid parameters: {error}.") from error


class JsonRpcConnection:
    """``lines`` are the peer's; ``write`` sends bytes to it, and may block."""

    def __init__(self, lines: Lines, write: Callable[[bytes], object], handler: Handler) -> None:
        self._lines = lines
        self._write = write
        self._handler = handler
        self._waiting: dict[int, _Answer] = {}
        self._last_id = 0
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._has_unsent = anyio.Event()
        self._sending = anyio.Lock(fast_acquire=True)
        self._is_open = True

    async def run(self) -> None:
        """Serve the peer until it closes the connection; its open requests are cancelled then. Raises ``OSError`` if nothing can
        be sent to it any more.
        """
        async with task_group() as tasks:
            tasks.start_soon(self._send_all)
            try:
                await self._read_all(tasks.start_soon)
            finally:
                self._close()
                with anyio.move_on_after(FLUSH_S, shield=True):
                    await self._flush()
            tasks.cancel_scope.cancel()

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        kind: type[T],
        on_answer: Callable[[], object] | None = None,
    ) -> T:
        """Send a request and return its result. ``on_answer`` is called when the peer has answered or gone, also if the caller waits no
        longer. Raises ``JsonRpcError`` and ``PeerGone``.
        """
        if not self._is_open:
            if on_answer is not None:
                on_answer()
            raise PeerGone("The client has gone.")
        self._last_id += 1
        number = self._last_id
        answer = self._waiting[number] = _Answer(on_answer)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            await answer.arrived.wait()
        finally:
            if on_answer is None:
                self._waiting.pop(number, None)
        if answer.error is not None:
            raise answer.error
        try:
            return decode_json(answer.result, kind)
        except msgspec.DecodeError as error:
            raise JsonRpcError(
                INTERNAL_ERROR, f"The client's answer to {method} is not valid: {error}."
            ) from error

    def notify(self, method: str, params: msgspec.Struct) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    # -- reading ----------------------------------------------------------------------------------

    async def _read_all(self, start: Callable[..., object]) -> None:
        while True:
            try:
                line = await self._lines.next()
            except ValueError as error:
                self._fail(None, JsonRpcError(PARSE_ERROR, f"The message is too long: {error}."))
                continue
            if line is None:
                return
            if line.strip():
                await self._take(line, start)

    async def _take(self, line: str, start: Callable[..., object]) -> None:
        try:
            message = decode_json(line, _incoming)
        except msgspec.DecodeError as error:
            is_json = isinstance(error, msgspec.ValidationError)
            number = INVALID_REQUEST if is_json else PARSE_ERROR
            what = "not a JSON-RPC message" if is_json else "not JSON"
            self._fail(None, JsonRpcError(number, f"The line is {what}: {error}."))
            return
        if message.method is None:
            self._answered(message)
        elif message.id is msgspec.UNSET:
            await self._handler.notification(message.method, message.params)
        else:
            start(self._serve, message.id, message.method, message.params)
            await checkpoint()  # the request has begun when the next line is read: a cancellation may follow

    async def _serve(self, number: Any, method: str, params: msgspec.Raw) -> None:
        try:
            result = await self._handler.request(method, params)
        except JsonRpcError as error:
            self._fail(number, error)
        except NewelError as error:
            self._fail(number, JsonRpcError(INTERNAL_ERROR, str(error), {"code": error.code}))
        except Exception as error:  # noqa: BLE001 — one request must not end the others
            self._fail(number, JsonRpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}"))
        else:
            self._send({"jsonrpc": "2.0", "id": number, "result": {} if result is None else result})

    def _answered(self, message: _Incoming) -> None:
        answer = self._waiting.pop(message.id, None) if isinstance(message.id, int) else None
        if answer is None:
            return  # it was answered before
        if message.error is not None:
            number, text = message.error.get("code"), str(message.error.get("message", ""))
            code = number if isinstance(number, int) else INTERNAL_ERROR
            answer.error = JsonRpcError(code, text, message.error.get("data"))
        elif message.result is not msgspec.UNSET:
            answer.result = message.result
        answer.arrive()

    # -- writing ----------------------------------------------------------------------------------

    def _fail(self, number: Any, error: JsonRpcError) -> None:
        body: dict[str, Any] = {"code": error.number, "message": str(error)}
        if error.data is not None:
            body["data"] = error.data
        self._send({"jsonrpc": "2.0", "id": number, "error": body})

    def _send(self, message: dict[str, Any]) -> None:
        if not self._is_open:
            return
        data = to_json(message) + b"\n"
        self._unsent_bytes += len(data)
        if self._unsent_bytes > MAX_UNSENT:
            raise BrokenPipeError("the client does not read what it is sent")
        self._unsent.append(data)
        self._has_unsent.set()

    async def _send_all(self) -> None:
        """Send in a thread, so that a peer that reads slowly does not keep us from reading: both would wait for each other."""
        while True:
            await self._has_unsent.wait()
            self._has_unsent = anyio.Event()
            await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            data = b"".join(self._unsent)
            self._unsent.clear()
            if data:
                await anyio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)
                self._unsent_bytes -= len(data)

    def _close(self) -> None:
        self._is_open = False
        for answer in self._waiting.values():
            answer.error = PeerGone("The client has gone.")
            answer.arrive()
        self._waiting.clear()


class _Answer:
    def __init__(self, on_answer: Callable[[], object] | None) -> None:
        self._on_answer = on_answer
        self.arrived = anyio.Event()
        self.result = msgspec.Raw(b"null")
        self.error: NewelError | None = None

    def arrive(self) -> None:
        self.arrived.set()
        if self._on_answer is not None:
            self._on_answer()
