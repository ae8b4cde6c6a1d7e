"""``Agent``: a conversation with a model, its state and its subscribers.

Data goes one way: the transport emits events; ``emit`` records each, folds it into the state, and then calls the subscribers.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import anyio
import msgspec

from newel.agent.errors import UsageError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    Retry,
    StateUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from newel.agent.loop import MessageAccumulator, run
from newel.agent.messages import AppMessage, AssistantMessage, Attachment, UserMessage
from newel.agent.ports import AgentMode, Emit, Model, Provider, RunConfig, ThinkingLevel, Tool
from newel.concurrency import background_task, is_async

Finish = Callable[[], Awaitable[None]]
"""Awaited whenever the model is done, and at any other end of a run, before its ``AgentEnd``. It may emit events, and must not
raise.
"""

Subscriber = Callable[[AgentEvent], None]
"""Called with each event, in order. Must be quick. An exception ends the run and the subscription; other subscribers still get
the closing events."""


class AgentTransport(Protocol):
    """Runs prompts: in this process, or through a server."""

    async def run(
        self,
        messages: Sequence[AppMessage],
        prompts: Sequence[AppMessage],
        config: RunConfig,
        emit: Emit,
        /,
    ) -> AgentEnd:
        """Answer ``prompts``, given the history ``messages``. See ``newel.agent.loop.run``."""
        ...


class ProviderTransport:
    """Runs the loop in this process."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def run(
        self,
        messages: Sequence[AppMessage],
        prompts: Sequence[AppMessage],
        config: RunConfig,
        emit: Emit,
        /,
    ) -> AgentEnd:
        return await run(messages, prompts, provider=self.provider, config=config, emit=emit)


class AgentState:
    """The current state of an agent. Read it freely; change it through the agent's setters."""

    def __init__(self, config: RunConfig, messages: Sequence[AppMessage] = ()) -> None:
        self.config = config
        self.messages: list[AppMessage] = list(messages)
        self.is_streaming: bool = False
        self.pending_tool_calls: set[str] = set()
        self.error: str | None = None
        self.is_retrying: bool = False
        """True from a failed request to the first delta of the next one."""
        self._partial = MessageAccumulator()

    @property
    def system_prompt(self) -> str:
        return self.config.system_prompt

    @property
    def model(self) -> Model:
        return self.config.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self.config.thinking

    @property
    def agent_mode(self) -> AgentMode:
        return self.config.agent_mode

    @property
    def tools(self) -> Sequence[Tool]:
        return self.config.tools

    @property
    def stream_message(self) -> AssistantMessage | None:
        """The assistant message that is being written, None if there is none."""
        return self._partial.message()

    def fold(self, event: AgentEvent) -> None:
        if isinstance(event, Retry):
            self.is_retrying = True
        elif isinstance(event, MessageUpdate | MessageEnd):  # no other event shows that the request succeeds
            self.is_retrying = False
        self._partial.fold(event)
        match event:
            case MessageEnd():
                self.messages.append(event.message)
            case ToolExecutionStart():
                self.pending_tool_calls.add(event.tool_call_id)
            case ToolExecutionEnd():
                self.pending_tool_calls.discard(event.tool_call_id)
            case ErrorEvent(level="error"):
                self.error = event.message
            case _:
                pass

    def end_run(self) -> None:
        """Clear the state that belongs to a run."""
        self.is_streaming = self.is_retrying = False
        self._partial = MessageAccumulator()
        self.pending_tool_calls.clear()


class MessageQueue:
    """The messages, and the request to stop, that arrive during a run."""

    def __init__(self, notify: Subscriber) -> None:
        self.steer: list[AppMessage] = []
        self.later: list[AppMessage] = []
        self.stop = False
        self._notify = notify

    def stop_requested(self) -> bool:
        return self.stop

    def steering(self) -> list[AppMessage]:
        messages, self.steer = self.steer, []
        self._notify_if(messages)
        return messages

    def follow_up(self) -> list[AppMessage]:
        messages, self.later = self.later, []
        self._notify_if(messages)
        return messages

    def add(self, message: AppMessage, mode: Literal["steer", "follow_up"]) -> None:
        (self.steer if mode == "steer" else self.later).append(message)
        self._notify_if([message])

    def remove(self, message_id: str) -> bool:
        removed = [message for message in (*self.steer, *self.later) if message.id == message_id]
        self.steer = [message for message in self.steer if message.id != message_id]
        self.later = [message for message in self.later if message.id != message_id]
        self._notify_if(removed)
        return bool(removed)

    def give_back(self, messages: Sequence[AppMessage]) -> None:
        """Take back messages that a run has taken and not sent: they come first in the next one."""
        self.steer[:0] = messages

    def _notify_if(self, changed: list[AppMessage]) -> None:
        if changed:
            self._notify(QueueUpdate(steer=len(self.steer), follow_up=len(self.later)))


class Agent:
    """A conversation. One prompt runs at a time; ``queue_message`` adds to a run, ``abort`` ends it.

    ``record`` is awaited with each event before anything else happens: it makes the event durable. ``config`` holds what stays
    the same from prompt to prompt; its queue and its ``finish`` are replaced by the agent's own.
    """

    def __init__(
        self,
        transport: AgentTransport,
        config: RunConfig,
        *,
        messages: Sequence[AppMessage] = (),
        record: Emit | None = None,
    ) -> None:
        self.transport = transport
        self.queue: MessageQueue = MessageQueue(self._notify)
        self.state: AgentState = AgentState(
            msgspec.structs.replace(config, queue=self.queue, finish=self._finish), messages
        )
        self._record = record
        self._subscribers: list[Subscriber] = []
        self._finishers: list[Finish] = []
        self._scope: anyio.CancelScope | None = None

    # -- events ---------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with every event from now on. Returns a function that ends the subscription. Raises ``UsageError`` for an
        ``async`` function.
        """
        if is_async(subscriber):
            raise UsageError(
                "subscribe: nobody would await an `async` function. Give a plain one, or iterate over `stream`."
            )
        self._subscribers.append(subscriber)
        return lambda: self._unsubscribe(subscriber)

    def on_finish(self, finish: Finish) -> None:
        """Await ``finish`` at the end of each run from now on."""
        self._finishers.append(finish)

    async def _finish(self) -> None:
        for finish in self._finishers:
            await finish()

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    async def emit(self, event: AgentEvent) -> None:
        """Record an event, fold it into the state, and call the subscribers."""
        if self._record is not None:
            await self._record(event)
        self.state.fold(event)
        self._notify(event)
        self._abort_retry_if_stopped()

    def _notify(self, event: AgentEvent) -> None:
        failure: Exception | None = None
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 — raised below, after the other subscribers
                # Another exception would keep the closing events from being recorded.
                self._unsubscribe(subscriber)
                failure = failure or error
        if failure is not None:
            raise failure

    # -- changing the state ---------------------------------------------------------------------

    def set_system_prompt(self, system_prompt: str) -> None:
        """Use another system prompt from the next prompt on."""
        self._change("systemPrompt", system_prompt=system_prompt)

    def set_model(self, model: Model) -> None:
        """Use another model from the next request on."""
        self._change("model", model=model)

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Use another reasoning effort from the next request on."""
        self._change("thinkingLevel", thinking=level)

    def set_tools(self, tools: Sequence[Tool]) -> None:
        """Offer the model exactly these tools from the next request on."""
        self._change("tools", tools=tuple(tools))

    def _change(self, name: str, **fields: object) -> None:
        """Takes effect with the next request to the model; another system prompt, with the next prompt."""
        self.state.config = msgspec.structs.replace(self.state.config, **fields)
        self._notify(StateUpdate(changed=[name]))

    def replace_messages(self, messages: Sequence[AppMessage], *, never_begun: Collection[str] = ()) -> None:
        """Replace the history; see ``RunConfig.never_begun``. Raises ``RuntimeError`` while a prompt runs."""
        self._require_idle()
        self.state.messages = list(messages)
        self.state.config = msgspec.structs.replace(self.state.config, never_begun=never_begun)
        self._notify(StateUpdate(changed=["messages"]))

    def clear_messages(self) -> None:
        """Begin anew, with an empty history. Raises as ``replace_messages``."""
        self.replace_messages([])

    async def append_message(self, message: AppMessage) -> None:
        """Add a message to the conversation without a request to the model. Raises ``RuntimeError`` while a prompt runs."""
        self._require_idle()
        await self.emit(MessageStart(message=message))
        await self.emit(MessageEnd(message=message))

    def _require_idle(self) -> None:
        if self.state.is_streaming:
            raise RuntimeError("a prompt is running: use queue_message(), or abort() first")

    # -- running --------------------------------------------------------------------------------

    async def prompt(self, text: str, attachments: Sequence[Attachment] = ()) -> AgentEnd:
        """Send a prompt and run until the model is done. Returns the last event, also after ``abort`` and at a limit. Raises the
        errors of the provider, the policy and the recorder, and ``RuntimeError`` while another prompt runs.
        """
        return await self.answer([UserMessage(content=text, attachments=list(attachments))])

    @asynccontextmanager
    async def stream(
        self, text: str, attachments: Sequence[Attachment] = ()
    ) -> AsyncGenerator[AsyncIterator[AgentEvent]]:
        """``prompt``, with its events to iterate over; the last one is the ``AgentEnd``.

            async with agent.stream("Fix the bug in server.py") as events:
                async for event in events: ...

        Leaving the block before the end, in any task, aborts the run and waits for it. The block raises the errors that ``prompt``
        would, once the events are read. Events wait in memory while the block is slow.
        """
        self._require_idle()
        send, receive = anyio.create_memory_object_stream[AgentEvent](math.inf)
        unsubscribe = self.subscribe(send.send_nowait)

        async def run() -> None:
            try:
                await self.prompt(text, attachments)
            finally:
                unsubscribe()
                send.close()

        try:
            with send, receive:
                async with background_task(run):
                    yield receive
        finally:
            unsubscribe()

    async def answer(
        self, prompts: Sequence[AppMessage], *, transport: AgentTransport | None = None
    ) -> AgentEnd:
        """``prompt`` with whole messages. With none, the model continues the conversation: after a failure, or after a run
        that a crash interrupted. ``transport`` replaces the agent's own for this run.
        """
        self._require_idle()
        self.queue.stop = False
        await self._before_run(prompts)
        self._require_idle()
        state = self.state
        state.is_streaming, state.error = True, None
        end = AgentEnd(reason="aborted")

        async def emit(event: AgentEvent) -> None:
            nonlocal end
            if isinstance(event, AgentEnd):
                end = event
            await self.emit(event)

        try:
            with anyio.CancelScope() as self._scope:
                config = msgspec.structs.replace(state.config, now=lambda: state.config)
                await (transport or self.transport).run(tuple(state.messages), prompts, config, emit)
        finally:
            state.end_run()
            self._scope = None
        return end

    async def _before_run(self, prompts: Sequence[AppMessage]) -> None:
        """What a subclass does before a run begins. A ``stop`` counts from here on."""

    async def queue_message(self, message: AppMessage, mode: Literal["steer", "follow_up"] = "steer") -> None:
        """Queue a message for the current run, or the next: ``steer`` reaches the model after the current tool calls,
        ``follow_up`` when the model is done.
        """
        self.queue.add(message, mode)

    def unqueue(self, message_id: str) -> bool:
        """Remove a queued message; False if a run has taken it already."""
        return self.queue.remove(message_id)

    def clear_queue(self) -> None:
        """Remove all queued messages."""
        self.queue.steering()
        self.queue.follow_up()

    def stop(self) -> None:
        """End the run before its next request, after the current tool calls. A retry counts as the next request."""
        self.queue.stop = True
        self._abort_retry_if_stopped()

    def _abort_retry_if_stopped(self) -> None:
        """Between a request and its retry there is nothing to wait for."""
        if self.queue.stop and self.state.is_retrying:
            self.abort()

    def abort(self) -> None:
        """End the run at once, and one that is about to begin before its first request. The conversation stays valid. Does nothing without
        a run.
        """
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.queue.stop = True
