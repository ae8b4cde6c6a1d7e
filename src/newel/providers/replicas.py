"""Several servers of the same model: a conversation stays with one of them, and goes to another while that one is full or does not answer.

New conversations go to the servers in turn. One that stays finds its beginning in the server's cache, which for a long conversation is
most of the work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import ConnectionFailed, ProviderError
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta, ProviderEvent
from newel.text.json import to_json

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel
    from newel.providers.model_server import ModelServer

REST_S: Final = 20.0
"""How long a server that was full or did not answer is passed over, if it names no time itself."""

MAX_REST_S: Final = 300.0

MAX_CONVERSATIONS: Final = 10_000


class ReplicatedServer:
    """A ``ModelServer`` of several, the first of which describes the models."""

    def __init__(self, servers: Sequence[ModelServer], *, rest: float = REST_S) -> None:
        self._servers = list(servers)
        self._rest = rest
        self._until = [0.0] * len(self._servers)
        """When each may be asked again, by the clock of the event loop."""
        self._next = 0
        self._of: dict[bytes, int] = {}
        """The server of a conversation, by its beginning."""

    @property
    def name(self) -> str:
        return self._servers[0].name

    @property
    def way(self) -> str | None:
        return self._servers[0].way

    @property
    def is_local(self) -> bool:
        return all(server.is_local for server in self._servers)

    @property
    def supports_schema(self) -> bool:
        return all(server.supports_schema for server in self._servers)

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the conversation's server, or the next one that answers; see ``Provider.complete``. Raises the error of the last one."""
        beginning = _beginning(request)
        order = self._order(beginning)
        for place, at in enumerate(order):
            has_begun = False

            async def pass_on(event: ProviderEvent) -> None:
                nonlocal has_begun
                has_begun = has_begun or not isinstance(event, Retry)
                await on_delta(event)

            try:
                message = await self._servers[at].complete(request, pass_on)
            except ProviderError as error:
                if not (error.retryable or isinstance(error, ConnectionFailed)):
                    raise
                pause = self._rest if error.retry_after is None else min(error.retry_after, MAX_REST_S)
                self._until[at] = anyio.current_time() + pause
                if has_begun or place == len(order) - 1:
                    raise
            else:
                self._remember(beginning, at)
                return message
        raise AssertionError  # there is at least one server

    def _order(self, beginning: bytes) -> list[int]:
        """The conversation's server and then the others in turn, those that rest last: the one that rests for the shortest time first."""
        count, now = len(self._servers), anyio.current_time()
        first = self._of.get(beginning)
        if first is None:
            first, self._next = self._next, (self._next + 1) % count
        in_turn = [(first + step) % count for step in range(count)]
        return sorted(in_turn, key=lambda at: max(self._until[at] - now, 0.0))

    def _remember(self, beginning: bytes, at: int) -> None:
        self._of.pop(beginning, None)
        self._of[beginning] = at
        if len(self._of) > MAX_CONVERSATIONS:
            del self._of[next(iter(self._of))]

    async def models(self) -> list[str]:
        return await self._servers[0].models()

    async def list_models(self) -> list[ListedModel]:
        return await self._servers[0].list_models()

    async def window(self, model: str) -> int | None:
        return await self._servers[0].window(model)

    async def is_priced(self, model: str) -> bool:
        return await self._servers[0].is_priced(model)

    async def aclose(self) -> None:
        for server in self._servers:
            await server.aclose()


def _beginning(request: ModelRequest) -> bytes:
    """What a conversation keeps: its system prompt and its first message."""
    first = to_json(request.messages[0]) if request.messages else b""
    return hashlib.blake2b(
        request.system_prompt.encode("utf-8", "replace") + b"\0" + first, digest_size=16
    ).digest()
