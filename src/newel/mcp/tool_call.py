"""One call of a server's tool: progress is shown, its time is limited, and there is always a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from newel.agent.ports import OnOutput, ToolResult
from newel.concurrency import task_group
from newel.mcp.client_handlers import CURRENT, Call, ClientHandlers
from newel.mcp.elicitation import Elicit
from newel.mcp.results import to_result

if TYPE_CHECKING:
    from mcp import types
    from mcp.client import Client

LONGEST_CALL: Final = 3600.0
"""Seconds after which a call ends, even if it reports progress."""
TELL_EVERY: Final = 0.1
"""Seconds between two displayed progress messages."""
MAX_WORDS: Final = 1_000


class Progress:
    """The latest progress of a call; messages that arrive too fast are skipped."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._news = ""
        self._changed = anyio.Event()
        self._over = anyio.Event()

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        self._call.alive()
        count = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        self._news = f"{message[:MAX_WORDS]} ({count})" if message else count
        self._changed.set()

    def close(self) -> None:
        self._over.set()
        self._changed.set()

    async def tell(self, on_output: OnOutput) -> None:
        """Report progress until it is closed."""
        while not self._over.is_set() or self._news:
            await self._changed.wait()
            self._changed = anyio.Event()
            news, self._news = self._news, ""
            if news:
                await on_output(f"{news}\n")
            with anyio.move_on_after(TELL_EVERY):
                await self._over.wait()
            if self._over.is_set():
                self._changed.set()


async def call_tool(
    client: Client,
    callbacks: ClientHandlers,
    *,
    server: str,
    tool: str,
    arguments: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 — begins again with each sign of life, which a scope of the caller's cannot
    on_output: OnOutput,
    elicit: Elicit | None,
    why_lost: Callable[[], Awaitable[str]],
) -> ToolResult:
    """Make the call. The result is an error if the server returns one, is silent for ``timeout`` seconds, or is
    lost; then it says whether the outcome is known. Raises the errors of ``on_output``. Cancellation cancels the
    call at the server.
    """
    answered: ToolResult | None = None
    with anyio.move_on_after(LONGEST_CALL), anyio.move_on_after(timeout) as scope:
        call = Call(elicit, scope, timeout)
        token = CURRENT.set(call)
        callbacks.calls.append(call)
        progress = Progress(call)
        ask = partial(client.call_tool, tool, arguments)
        try:
            async with task_group() as tasks:
                tasks.start_soon(progress.tell, on_output)
                answered = await _answer(ask, server, tool, progress, why_lost)
                progress.close()
        finally:
            callbacks.calls.remove(call)
            call.close()
            CURRENT.reset(token)
    if answered is not None:
        return answered
    return _failure(
        f"The call was cancelled: '{server}' showed no progress for {timeout:g} seconds. "
        "It may have had an effect; check before you repeat it."
    )


async def _answer(
    ask: Callable[..., Awaitable[types.CallToolResult]],
    server: str,
    tool: str,
    progress: Progress,
    why_lost: Callable[[], Awaitable[str]],
) -> ToolResult:
    from mcp import types
    from mcp.shared.exceptions import MCPError

    try:
        answer = await ask(progress_callback=progress.note)
    except MCPError as error:
        if error.code != types.CONNECTION_CLOSED:
            return _failure(f"{server}: {error.message}")
        return _failure(
            f"'{server}' was lost during the call. {await why_lost()} "
            "The call may have had an effect; check before you repeat it."
        )
    except Exception as error:  # noqa: BLE001 — what a server sends may fail in the SDK in any way
        return _failure(f"The response of '{server}' is invalid: {type(error).__name__}: {error}")
    return to_result(answer, server=server, tool=tool)


def _failure(words: str) -> ToolResult:
    return ToolResult(
        words if len(words) <= 10 * MAX_WORDS else f"{words[: 10 * MAX_WORDS]} …", is_error=True
    )
