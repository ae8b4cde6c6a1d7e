"""The loop: ask the model, run the tools it calls, until it calls none.

``run`` is a coroutine. Its caller owns the cancel scope; ``emit`` gets every event. However a run ends, every provider accepts
the history that its ``message_end`` events make up: each tool call has a result, if only one that says that the outcome is
unknown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import anyio
import msgspec

from newel.agent.errors import ContextOverflow, NewelError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    EndReason,
    ErrorEvent,
    Interrupted,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelRouted,
    Retry,
    TextDelta,
    ThinkingDelta,
    TurnEnd,
    TurnStart,
)
from newel.agent.formatting import describe_error, pluralize
from newel.agent.limits import UsageLimiter
from newel.agent.messages import AppMessage, AssistantMessage, TextContent, ThinkingContent, now, open_calls
from newel.agent.ports import Emit, ModelRequest, Provider, ProviderEvent, RunConfig
from newel.agent.tool_executor import ToolExecutor, milliseconds_since
from newel.concurrency import contained

MAX_COMPACTIONS = 4
"""Of one request. Each leaves about a quarter of the conversation."""


class MessageAccumulator:
    """Follows one stream of events: the loop's own, an agent's, or one that is published.

    Tool calls are left out: an incomplete one must never look as if it could run.
    """

    def __init__(self) -> None:
        self._start: AssistantMessage | None = None
        self._parts: list[tuple[type[TextContent | ThinkingContent], list[str]]] = []

    def fold(self, event: object) -> None:
        start = self._start
        match event:
            case MessageStart(message=AssistantMessage() as message):
                self._start, self._parts = message, []
            case MessageUpdate(assistant_message_event=TextDelta(delta)) if start:
                self._add(TextContent, delta)
            case MessageUpdate(assistant_message_event=ThinkingDelta(delta)) if start:
                self._add(ThinkingContent, delta)
            case Retry():
                self._parts = []  # the request is repeated from its beginning
            case MessageEnd() if start and event.message.id == start.id:
                self._start = None
            case _:
                pass

    def _add(self, kind: type[TextContent | ThinkingContent], text: str) -> None:
        if not self._parts or self._parts[-1][0] is not kind:
            self._parts.append((kind, []))
        self._parts[-1][1].append(text)

    def content(self) -> list[TextContent | ThinkingContent]:
        return [kind("".join(pieces)) for kind, pieces in self._parts]

    def message(self) -> AssistantMessage | None:
        """The message so far; None if none is being written."""
        return self._start and msgspec.structs.replace(self._start, content=self.content())


async def run(
    messages: Sequence[AppMessage],
    prompts: Sequence[AppMessage],
    *,
    provider: Provider,
    config: RunConfig,
    emit: Emit,
) -> AgentEnd:
    """Answer ``prompts``, given the history ``messages``. Returns the last event.

    Raises the errors of the provider, the policy, the compaction and ``emit``, after the closing events. Errors of tools go to
    the model. On cancellation, too, the closing events are emitted.
    """
    return await _Run(messages, provider, config, emit).run(prompts)


class _Run:
    def __init__(
        self, messages: Sequence[AppMessage], provider: Provider, config: RunConfig, emit: Emit
    ) -> None:
        self.history = list(messages)
        self.provider = provider
        self.config = config
        self.emit = emit
        self.limiter = UsageLimiter(config.limits)
        self.executor = ToolExecutor(config, self.limiter, emit)

    async def run(self, prompts: Sequence[AppMessage]) -> AgentEnd:
        await self.emit(AgentStart())
        try:
            await self.check_cost()
            await self.executor.resume(open_calls(self.history), self.append_message)
            for prompt in prompts:
                await self.append_message(prompt)
            reason = await self.turns()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.emit(Interrupted())
                await self.end("aborted", "Stopped.")
            raise
        except Exception as error:
            code = error.code if isinstance(error, NewelError) else "internal"
            text = describe_error(error)
            await self.emit(ErrorEvent(code=code, message=text))
            await self.end("error", text)
            raise
        return await self.end(*reason)

    async def turns(self) -> tuple[EndReason, str]:
        queue = self.config.queue
        while True:
            if queue.stop_requested():
                ran = pluralize(self.limiter.tool_calls, "tool call")
                return "stopped", f"Stopped before the next request. {ran} had run."
            if exceeded := self.limiter.exceeded_limit():
                return exceeded
            await self.refresh_config()
            await self.emit(TurnStart())
            message = await self.ask_model()
            results = await self.executor.run(message.tool_calls, self.append_message)
            await self.emit(TurnEnd(message_id=message.id, tool_result_ids=results))
            if not results:
                await self.finish()  # messages may arrive meanwhile
            queued = queue.steering() or ([] if results else queue.follow_up())
            if not results and not queued:
                return "done", ""
            for message in queued:
                await self.append_message(message)
            self.limiter.check_progress(queued)

    async def refresh_config(self) -> None:
        model = self.config.model
        self.config = self.config.refreshed()
        self.executor.offer(self.config.tools)
        if self.config.model != model:
            await self.check_cost()

    async def check_cost(self) -> None:
        if self.config.limits.max_cost is not None and self.config.check_cost is not None:
            await self.config.check_cost(self.config.model)

    async def append_message(self, message: AppMessage) -> None:
        """Add a complete message to the history, and emit it."""
        await self.emit(MessageStart(message=message))
        self.history.append(message)
        await self.emit(MessageEnd(message=message))

    async def ask_model(self) -> AssistantMessage:
        """Make a request. If the conversation is too long, compact it and try again."""
        await self.compact(overflow=False)
        for _ in range(MAX_COMPACTIONS):
            try:
                return await self.request()
            except ContextOverflow:
                if not await self.compact(overflow=True):
                    raise
        return await self.request()

    async def compact(self, *, overflow: bool) -> bool:
        if self.config.compact is None:
            return False
        message = await self.config.compact(self.history, self.limiter.last_usage, overflow=overflow)
        if message is not None:
            self.limiter.count_compaction(message)
            await self.append_message(message)
        return message is not None

    async def request(self) -> AssistantMessage:
        config = self.config
        start = AssistantMessage(content=[], model=config.model.id, provider=config.model.provider)
        partial = MessageAccumulator()
        began, retries = time.monotonic(), list[int]()

        async def emit(event: AgentEvent) -> None:
            partial.fold(event)
            await self.emit(event)

        async def on_delta(event: ProviderEvent) -> None:
            if isinstance(event, Retry):
                retries.append(milliseconds_since(began))
            if isinstance(event, Retry | ModelRouted):
                await emit(event)
            else:
                await emit(MessageUpdate(message_id=start.id, assistant_message_event=event))

        async def end(message: AssistantMessage) -> AssistantMessage:
            took = milliseconds_since(began)
            message = msgspec.structs.replace(message, timestamp=now(), duration=took, retries=retries)
            self.history.append(message)
            self.limiter.count_response(message)
            await self.emit(MessageEnd(message=message))
            return message

        await emit(MessageStart(message=start))
        try:
            request = ModelRequest(
                model=config.model,
                system_prompt=config.system_prompt,
                messages=config.transform(self.history),
                tools=[tool.spec for tool in self.executor.offered],
                thinking=config.thinking,
                short_prompt=config.short_prompt,
                agent_mode=config.agent_mode,
            )
            answer = await contained(self.provider.complete(request, on_delta))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await end(msgspec.structs.replace(start, content=partial.content(), stop_reason="aborted"))
            raise
        except Exception as error:
            await end(
                msgspec.structs.replace(
                    start, content=partial.content(), stop_reason="error", error_message=str(error)
                )
            )
            raise
        content = [self.executor.canonical(part) for part in answer.content]
        return await end(msgspec.structs.replace(answer, id=start.id, content=content))

    async def finish(self) -> None:
        if self.config.finish is not None:
            await self.config.finish()

    async def end(self, reason: EndReason, text: str) -> AgentEnd:
        event = AgentEnd(reason=reason, message=text, usage=self.limiter.usage, cost=self.limiter.cost)
        with anyio.CancelScope(shield=True):  # an abort comes too late, and must not cost the last event
            if reason != "done":
                await self.finish()
            await self.emit(event)
        return event
