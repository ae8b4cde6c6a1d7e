"""Routing between a local and a remote model: each request goes to one of them, by its ``agent_mode``.

With ``hybrid_auto`` a run begins with the local model. It goes on with the remote one, from the same history, if the local one

- fails or is too small for the conversation,
- keeps sending calls that cannot be executed,
- uses up its tool calls without an edit,
- gives an answer that says nothing,
- or takes too long for a step.

The router keeps no state: the conversation tells which model answered, so a run that is resumed is routed alike. A ``ModelRouted``
reports each decision. A request in the mode ``local`` never reaches the remote model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, Literal, get_args

import msgspec

from newel.agent.errors import ContextOverflow, NewelError, ProviderError
from newel.agent.events import ModelRouted, Retry, TextDelta
from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from newel.agent.ports import AgentMode, Model, ModelRequest, OnDelta, Provider, ProviderEvent

Place = Literal["local", "remote"]

AgentModeName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(get_args(AgentMode))})]
"""An ``AgentMode`` in a request; ``read_agent_mode`` checks it."""

EDITS: Final = frozenset({"write", "edit", "propose_edits"})
"""The tools whose results count as edits."""

CHARACTERS_PER_TOKEN: Final = 4
WINDOW_SHARE: Final = 0.9
"""The part of the local window that a prompt may fill; the rest is for the answer."""


class RoutingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a run leaves the local model. ``max_local_attempts`` is the number of useless steps in a row, ``max_tool_calls`` that
    of calls without an edit, ``remote_on_timeout_ms`` the time for one step; None is no limit.
    """

    max_local_attempts: int = 2
    max_tool_calls: int | None = 25
    remote_on_schema_fail: bool = True
    remote_on_context_overflow: bool = True
    remote_on_timeout_ms: int | None = 120_000


DEFAULT_ROUTING: Final = RoutingLimits()


class UnknownAgentMode(NewelError, code="bad_request"):
    """There is no such mode."""


def read_agent_mode(name: str) -> AgentMode:
    """The mode with a name. Raises ``UnknownAgentMode``, which lists them."""
    for mode in get_args(AgentMode):
        if mode == name:
            return mode
    raise UnknownAgentMode(
        f"There is no agent mode {name[:40]!r}. It is one of {', '.join(get_args(AgentMode))}."
    )


class LocalRoute(msgspec.Struct, frozen=True):
    """The local model of ``hybrid_auto``."""

    provider: Provider
    model: Model


class Route(msgspec.Struct, frozen=True):
    """``provider`` answers, if ``first`` is None or cannot."""

    provider: Provider
    first: LocalRoute | None = None


FindRoute = Callable[[AgentMode], Awaitable[Route]]
"""The way of the requests in a mode, which may connect to a server first. Raises ``ConfigError`` and ``ProviderError``."""


class RoutingProvider:
    """A ``Provider`` that asks the models of a request's mode. Without one it is in the mode ``configured``."""

    def __init__(
        self, find_route: FindRoute, configured: AgentMode, limits: RoutingLimits = DEFAULT_ROUTING
    ) -> None:
        self._find_route = find_route
        self._configured: AgentMode = configured
        self._limits = limits

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask one model, and the other one if that fails; see ``Provider.complete``."""
        mode = request.agent_mode or self._configured
        route = await self._find_route(mode)
        if route.first is not None:
            return await _HybridRequest(
                request, route.provider, route.first, self._limits, on_delta
            ).complete()
        if mode == "local" and _previous_model(request.messages) != (
            request.model.provider,
            request.model.id,
        ):
            await _report("local", request.model, "agent_mode is local", on_delta)
        return await route.provider.complete(request, on_delta)


class _HybridRequest:
    """A request for which the local model ``first`` is asked, or ``remote``, with the model that the request names."""

    def __init__(
        self,
        request: ModelRequest,
        remote: Provider,
        first: LocalRoute,
        limits: RoutingLimits,
        on_delta: OnDelta,
    ) -> None:
        self._request = request
        self._remote = remote
        self._first = first
        self._limits = limits
        self._on_delta = on_delta

    async def complete(self) -> AssistantMessage:
        run = _current_run(self._request.messages)
        reason = self._reason_to_leave(run)
        if reason is not None:
            return await self._ask_remote(reason)
        if not _answered(run, self._first.model):
            await _report("local", self._first.model, "the run begins locally", self._on_delta)
        text_sent = False

        async def pass_on(event: ProviderEvent) -> None:
            nonlocal text_sent
            text_sent = isinstance(event, TextDelta) or (text_sent and not isinstance(event, Retry))
            await self._on_delta(event)

        try:
            answer = await self._ask_local(pass_on)
        except ProviderError as error:
            if isinstance(error, ContextOverflow) and not self._limits.remote_on_context_overflow:
                raise
            reason = f"the local model failed: {str(error).rstrip('.')}"
        else:
            if answer.text.strip() or answer.tool_calls:
                return answer
            reason = "the local model gave an empty answer"
        if text_sent:  # what the local model has written is void
            await self._on_delta(Retry(attempt=1, max_attempts=1, delay=0.0, reason=reason))
        return await self._ask_remote(reason)

    def _reason_to_leave(self, run: Sequence[Message]) -> str | None:
        """Why the next step is the remote model's; None if it is the local one's. Empty if nothing has changed."""
        limits, request = self._limits, self._request
        if _answered(run, request.model):
            return ""
        window = self._first.model.context_window
        if (
            limits.remote_on_context_overflow
            and window is not None
            and _tokens(request) > WINDOW_SHARE * window
        ):
            return f"the conversation is too long for the local model's {window:,} tokens"
        failures = _invalid_steps(run)
        if limits.remote_on_schema_fail and failures >= limits.max_local_attempts:
            return f"{pluralize(failures, 'step')} in a row had calls that cannot be executed"
        calls = _calls_without_edit(run)
        if limits.max_tool_calls is not None and calls >= limits.max_tool_calls:
            return f"{pluralize(calls, 'tool call')} brought no edit"
        return None

    async def _ask_local(self, on_delta: OnDelta) -> AssistantMessage:
        import anyio  # not with the settings, which import the limits

        from newel.agent.errors import ConnectionFailed

        limit = self._limits.remote_on_timeout_ms
        own = msgspec.structs.replace(self._request, model=self._first.model)
        try:
            with anyio.fail_after(None if limit is None else limit / 1000):
                return await self._first.provider.complete(own, on_delta)
        except TimeoutError as error:
            raise ConnectionFailed(f"no complete answer within {(limit or 0) / 1000:g} s") from error

    async def _ask_remote(self, reason: str) -> AssistantMessage:
        if reason:
            await _report("remote", self._request.model, reason, self._on_delta)
        return await self._remote.complete(self._request, self._on_delta)


async def _report(place: Place, model: Model, reason: str, on_delta: OnDelta) -> None:
    await on_delta(ModelRouted(place=place, provider=model.provider, model=model.id, reason=reason))


def _current_run(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages of the current run. A user's message after results only steers the run."""
    for at in range(len(messages) - 1, 0, -1):
        if isinstance(messages[at], UserMessage) and isinstance(messages[at - 1], AssistantMessage):
            return messages[at:]
    return messages


def _answered(run: Sequence[Message], model: Model) -> bool:
    """Whether the model has completed a step. One that failed or was aborted does not tell which model it was."""
    return any(
        isinstance(message, AssistantMessage)
        and not message.is_incomplete
        and (message.provider, message.model) == (model.provider, model.id)
        for message in run
    )


def _previous_model(messages: Sequence[Message]) -> tuple[str, str] | None:
    """The provider and name of the model that answered last; None if none has."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and not message.is_incomplete:
            return message.provider, message.model
    return None


def _tokens(request: ModelRequest) -> int:
    """An estimate of the prompt's size. Images are left out: servers count them in their own ways."""
    size = len(request.system_prompt)
    for message in request.messages:
        match message:
            case UserMessage():
                size += len(message.text)
            case AssistantMessage():
                size += len(message.text) + sum(len(str(call.arguments)) for call in message.tool_calls)
            case ToolResultMessage():
                size += len(message.output)
    return size // CHARACTERS_PER_TOKEN


def _invalid_steps(run: Sequence[Message]) -> int:
    """The number of latest steps of which no call could be executed."""
    count = 0
    results: list[ToolResultMessage] = []
    for message in reversed(run):
        if isinstance(message, ToolResultMessage):
            results.append(message)
        elif isinstance(message, AssistantMessage):
            if not results or not all(result.is_invalid for result in results):
                break
            count, results = count + 1, []
    return count


def _calls_without_edit(run: Sequence[Message]) -> int:
    """The number of tool calls since the last edit that succeeded."""
    count = 0
    for message in reversed(run):
        if isinstance(message, ToolResultMessage):
            if message.tool_name in EDITS and not message.is_error:
                break
            count += 1
    return count
