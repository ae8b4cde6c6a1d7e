"""A client of ``newel rpc`` for code without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from newel.client.rpc_client import TIMEOUT_S, RpcClient
from newel.client.streams import ClientEvent, RpcClientError, RunResult

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

Result = TypeVar("Result")


class BlockingRpcClient:
    """``RpcClient`` for code without an event loop, as a context manager; it takes the same arguments. ``call`` calls any method:

    with BlockingRpcClient(cwd="/src/shop") as newel:
        print(newel.call(newel.client.state).model)
    """

    def __init__(
        self,
        *arguments: str,
        cwd: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT_S,
        command: Sequence[str] = (),
    ) -> None:
        self._open = partial(
            RpcClient, *arguments, cwd=cwd, environ=environ, timeout=timeout, command=command
        )
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._client: RpcClient | None = None

    @property
    def client(self) -> RpcClient:
        """The client, for ``call``."""
        if self._client is None:
            raise RpcClientError("The client is not open. Use it in `with`.")
        return self._client

    def __enter__(self) -> Self:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            client: RpcClient = portal.call(self._make)
            stack.enter_context(portal.wrap_async_context_manager(client))
            self._portal, self._client = portal, client
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def call(self, method: Callable[..., Awaitable[Result]], *arguments: Any, **named: Any) -> Result:
        """Call a method of ``client`` and wait for its result."""
        if self._portal is None:
            raise RpcClientError("The client is not open. Use it in `with`.")
        return self._portal.call(partial(method, *arguments, **named))

    def run(self, text: str, *, on_event: Callable[[ClientEvent], object] | None = None) -> RunResult:
        """``RpcClient.run``; ``on_event`` is called in the thread of the client."""
        return self.call(self.client.run, text, on_event=on_event)

    async def _make(self) -> RpcClient:
        return self._open()
