"""Handle a server's requests during a call: elicitation, sampling, roots.

A request belongs to the call during which it is made. Newer protocols and HTTP name the call; for an older server
over pipes it is the latest active one. A request without a call is declined, because the user could not tell its
reason.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import AssistantMessage, ImageContent, Message, TextContent, UserMessage
from newel.mcp.elicitation_form import with_defaults
from newel.mcp.types import Caller, ElicitAnswer, ElicitRequest, Sample, SampleRequest

if TYPE_CHECKING:
    from mcp import types
    from mcp.client import ClientRequestContext

MAX_OPEN: Final = 4
"""Open requests of one server; further ones are declined without being shown."""

MAX_QUESTION: Final = 64 * 1024
"""Bytes of a request and its form."""

STOP_REASONS: Final = {"stop": "endTurn", "length": "maxTokens", "toolUse": "toolUse"}


class Call:
    """An active call of ``caller``. ``deadline`` is the deadline of ``scope`` while no request is open."""

    def __init__(self, caller: Caller, scope: anyio.CancelScope, timeout: float) -> None:
        self.caller = caller
        self._scope = scope
        self._timeout = timeout
        self.requests: set[anyio.CancelScope] = set()
        """The requests of the server that are open during this call."""

    def alive(self) -> None:
        """The server showed activity: restart its timeout, unless it waits for us."""
        if not self.requests:
            self._scope.deadline = anyio.current_time() + self._timeout

    @contextmanager
    def asking(self) -> Generator[None]:
        """Suspend the timeout while a request is open. Requests end with their call."""
        with anyio.CancelScope() as request:
            self.requests.add(request)
            self._scope.deadline = float("inf")
            try:
                yield
            finally:
                self.requests.discard(request)
                self.alive()

    def close(self) -> None:
        for request in self.requests:
            request.cancel()


CURRENT: ContextVar[Call | None] = ContextVar("newel_mcp_call", default=None)


class ClientHandlers:
    """The handlers of one server; ``calls`` are its active calls, the latest last."""

    def __init__(self, server: str, *, sample: Sample | None, root: Path) -> None:
        self.calls: list[Call] = []
        self._server = server
        self._sample = sample
        self._root = root

    @property
    def samples(self) -> bool:
        """Whether the model can be asked."""
        return self._sample is not None

    async def list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG002 — the SDK's shape
        from mcp import types
        from pydantic import FileUrl

        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(self._root.as_uri()), name=self._root.name)]
        )

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002 — the SDK's shape
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        from mcp import types

        call = self._asker()
        if call is None or call.caller.elicit is None:
            return types.ElicitResult(action="decline")
        schema: dict[str, Any] | None = getattr(params, "requested_schema", None)
        url: str | None = getattr(params, "url", None)
        if len(msgspec.json.encode([params.message, schema, url])) > MAX_QUESTION:
            return types.ElicitResult(action="decline")
        request = ElicitRequest(server=self._server, message=params.message, schema=schema, url=url)
        answer = ElicitAnswer(action="cancel")
        with call.asking():
            answer = await call.caller.elicit(request)
        if answer.action != "accept":
            return types.ElicitResult(action=answer.action)
        content = None if schema is None else with_defaults(schema, answer.content or {})
        return types.ElicitResult(action="accept", content=content)

    async def sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002 — the SDK's shape
        params: types.CreateMessageRequestParams,
    ) -> types.CreateMessageResult | types.ErrorData:
        from mcp import types

        call = self._asker()
        sample = (call and call.caller.sample) or self._sample
        if call is None or self._sample is None or sample is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="The model is not available now.")
        try:
            with call.asking():
                answer = await sample(to_request(self._server, params))
                return types.CreateMessageResult(
                    role="assistant",
                    content=types.TextContent(text=answer.text),
                    model=answer.model,
                    stop_reason=STOP_REASONS.get(answer.stop_reason, answer.stop_reason),
                )
        except NewelError as error:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=str(error))
        return types.ErrorData(code=types.INVALID_REQUEST, message="The call has ended.")

    async def reach(self, address: str) -> bool:
        """Whether the server may reach another one on the network, as its caller decides; not if there is none, or if it is unclear for
        which of several it would.
        """
        callers = {call.caller.reach for call in self.calls}
        reach = callers.pop() if len(callers) == 1 else None
        if reach is not None:
            with self.calls[-1].asking():
                return await reach(self._server, address)
        return False

    def _asker(self) -> Call | None:
        """The call that a request belongs to; None if there is none, or if too many requests are open."""
        if sum(len(call.requests) for call in self.calls) >= MAX_OPEN:
            return None
        # An older server's request over pipes arrives in a task of the session, where no call is current.
        return CURRENT.get() or (self.calls[-1] if self.calls else None)


def to_request(server: str, params: types.CreateMessageRequestParams) -> SampleRequest:
    """A server's sampling request as messages of the agent. Content other than text and images is replaced by its
    name.
    """
    messages: list[Message] = []
    for message in params.messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        parts = [_part(block) for block in blocks]
        if message.role == "user":
            messages.append(UserMessage(content=parts))
        else:
            texts = [part for part in parts if isinstance(part, TextContent)]
            messages.append(AssistantMessage(content=[*texts]))
    return SampleRequest(
        server=server,
        messages=messages,
        max_tokens=max(1, params.max_tokens),
        system_prompt=params.system_prompt or "",
        temperature=params.temperature,
        stop_sequences=params.stop_sequences or [],
    )


def _part(block: types.SamplingMessageContentBlock) -> TextContent | ImageContent:
    match block.type:
        case "text":
            return TextContent(block.text)
        case "image":
            return ImageContent(data=block.data, mime_type=block.mime_type)
        case other:
            return TextContent(f"[{other} left out]")
