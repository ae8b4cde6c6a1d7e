"""Routing between a local and a remote model: each request goes to one of them, by what the run has achieved so far.

A run begins with the local model. It goes on with the remote one, from the same history, if the local one

- fails or is too small for the conversation,
- keeps sending calls that cannot be executed,
- uses up its tool calls without an edit,
- gives an answer that says nothing,
- or takes too long for a step.

The router keeps no state: the conversation tells which model answered, so a run that is resumed is routed alike. A ``ModelRouted``
reports each decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from newel.agent.errors import ContextOverflow, ProviderError
from newel.agent.events import ModelRouted, Retry, TextDelta
from newel.agent.formatting import pluralize
from newel.agent.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from newel.agent.ports import Model, ModelRequest, OnDelta, Provider, ProviderEvent

AgentMode = Literal["local", "remote", "hybrid_auto"]
Place = Literal["local", "remote"]

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


class RoutingProvider:
    """A ``Provider`` that asks the model ``local_model`` of ``local`` first, and falls back to ``remote`` with the model that the
    request names.
    """

    def __init__(
        self, local: Provider, local_model: Model, remote: Provider, limits: RoutingLimits = DEFAULT_ROUTING
    ) -> None:
        self._local = local
        self._local_model = local_model
        self._remote = remote
        self._limits = limits

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask one model, and the other one if that fails; see ``Provider.complete``."""
        run = _current_run(request.messages)
        reason = self._reason_to_leave(request, run)
        if reason is not None:
            return await self._ask_remote(request, on_delta, reason)
        if not _answered(run, self._local_model):
            await _report("local", self._local_model, "the run begins locally", on_delta)
        text_sent = False

        async def pass_on(event: ProviderEvent) -> None:
            nonlocal text_sent
            text_sent = isinstance(event, TextDelta) or (text_sent and not isinstance(event, Retry))
            await on_delta(event)

        try:
            answer = await self._ask_local(request, pass_on)
        except ProviderError as error:
            if isinstance(error, ContextOverflow) and not self._limits.remote_on_context_overflow:
                raise
            reason = f"the local model failed: {str(error).rstrip('.')}"
        else:
            if answer.text.strip() or answer.tool_calls:
                return answer
            reason = "the local model gave an empty answer"
        if text_sent:  # what the local model has written is void
            await on_delta(Retry(attempt=1, max_attempts=1, delay=0.0, reason=reason))
        return await self._ask_remote(request, on_delta, reason)

    def _reason_to_leave(self, request: ModelRequest, run: Sequence[Message]) -> str | None:
        """Why the next step is the remote model's; None if it is the local one's. Empty if nothing has changed."""
        limits = self._limits
        if _answered(run, request.model):
            return ""
        window = self._local_model.context_window
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

    async def _ask_local(self, request: ModelRequest, on_delta: OnDelta) -> AssistantMessage:
        import anyio  # not with the settings, which import the limits

        from newel.agent.errors import ConnectionFailed

        limit = self._limits.remote_on_timeout_ms
        own = msgspec.structs.replace(request, model=self._local_model)
        try:
            with anyio.fail_after(None if limit is None else limit / 1000):
                return await self._local.complete(own, on_delta)
        except TimeoutError as error:
            raise ConnectionFailed(f"no complete answer within {(limit or 0) / 1000:g} s") from error

    async def _ask_remote(self, request: ModelRequest, on_delta: OnDelta, reason: str) -> AssistantMessage:
        if reason:
            await _report("remote", request.model, reason, on_delta)
        return await self._remote.complete(request, on_delta)


async def _report(place: Place, model: Model, reason: str, on_delta: OnDelta) -> None:
    await on_delta(ModelRouted(place=place, provider=model.provider, model=model.id, reason=reason))


def _current_run(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages of the current run. A user's message after results only steers the run."""
    for at in range(len(messages) - 1, 0, -1):
        if isinstance(messages[at], UserMessage) and isinstance(messages[at - 1], AssistantMessage):
            return messages[at:]
    return messages


def _answered(run: Sequence[Message], model: Model) -> bool:
    return any(
        isinstance(message, AssistantMessage)
        and (message.provider, message.model) == (model.provider, model.id)
        for message in run
    )


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
