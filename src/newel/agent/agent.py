"""``Agent``: a conversation with a model, its state, and those who watch it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol

import anyio
import msgspec

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
from newel.agent.loop import run
from newel.agent.messages import AppMessage, AssistantMessage, Attachment, UserMessage
from newel.agent.partial_message import MessageAccumulator
from newel.agent.ports import (
    Emit,
    Model,
    Provider,
    RunConfig,
    ThinkingLevel,
    Tool,
)

Subscriber = Callable[[AgentEvent], None]
"""CommandFormatter with each event, in order. Must be quick. What it raises ends the run, and it hears no more; the others
hear how the run ends."""


class AgentTransport(Protocol):
    """How a prompt is carried out: here, or with a server in between."""

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
    """Runs the loop here and asks the model through a provider."""

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
    """What is true of an agent now. Read it freely; change it through the agent's setters."""

    def __init__(self, config: RunConfig, messages: Sequence[AppMessage] = ()) -> None:
        self.config = config
        self.messages: list[AppMessage] = list(messages)
        self.is_streaming = False
        self.pending_tool_calls: set[str] = set()
        self.error: str | None = None
        self.is_retrying = False
        """Whether a request has failed and nothing has come of the next one yet."""
        self.partial: MessageAccumulator | None = None

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
    def tools(self) -> Sequence[Tool]:
        return self.config.tools

    @property
    def stream_message(self) -> AssistantMessage | None:
        """The assistant's message as far as it has been written, None when none is."""
        return self.partial.message() if self.partial else None

    def fold(self, event: AgentEvent) -> None:
        """Take over what an event changes."""
        if isinstance(event, Retry):
            self.is_retrying = True
        elif isinstance(event, MessageUpdate | MessageEnd):  # no other event says anything about the request
            self.is_retrying = False
        match event:
            case MessageStart(message=AssistantMessage() as message):
                self.partial = MessageAccumulator(message)
            case MessageUpdate() if self.partial:
                self.partial.add(event.assistant_message_event)
            case Retry() if self.partial:
                self.partial.clear()
            case MessageEnd():
                self.messages.append(event.message)
                self.partial = None
            case ToolExecutionStart():
                self.pending_tool_calls.add(event.tool_call_id)
            case ToolExecutionEnd():
                self.pending_tool_calls.discard(event.tool_call_id)
            case ErrorEvent() if not event.is_notice:
                self.error = event.message
            case _:
                pass


class MessageQueue:
    """The messages and the wish to stop that came while a run was under way."""

    def __init__(self, changed: Callable[[AgentEvent], None]) -> None:
        self.steer: list[AppMessage] = []
        self.later: list[AppMessage] = []
        self.stop = False
        self._changed = changed

    def stop_requested(self) -> bool:
        return self.stop

    def steering(self) -> list[AppMessage]:
        taken, self.steer = self.steer, []
        self._tell(taken)
        return taken

    def follow_up(self) -> list[AppMessage]:
        taken, self.later = self.later, []
        self._tell(taken)
        return taken

    def add(self, message: AppMessage, mode: Literal["steer", "follow_up"]) -> None:
        (self.steer if mode == "steer" else self.later).append(message)
        self._tell([message])

    def remove(self, message_id: str) -> bool:
        found = [message for message in (*self.steer, *self.later) if message.id == message_id]
        self.steer = [message for message in self.steer if message.id != message_id]
        self.later = [message for message in self.later if message.id != message_id]
        self._tell(found)
        return bool(found)

    def _tell(self, moved: list[AppMessage]) -> None:
        if moved:
            self._changed(QueueUpdate(steer=len(self.steer), follow_up=len(self.later)))


class Agent:
    """A conversation. One prompt runs at a time; ``queue_message`` adds to a run, ``abort`` ends it.

    ``record`` is awaited with each event before anybody else sees it: it makes the event durable.
    ``config`` holds everything that stays the same from prompt to prompt; its queue is the agent's own.
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
        self.queue = MessageQueue(self._show)
        self.state = AgentState(msgspec.structs.replace(config, queue=self.queue), messages)
        self._record = record
        self._subscribers: list[Subscriber] = []
        self._scope: anyio.CancelScope | None = None

    # -- watching -------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with every event from now on; the returned function ends that."""
        self._subscribers.append(subscriber)

        return lambda: self._forget(subscriber)

    def _forget(self, subscriber: Subscriber) -> None:
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    async def emit(self, event: AgentEvent) -> None:
        """Record an event, fold it into the state, and show it to the subscribers."""
        if self._record is not None:
            await self._record(event)
        self.state.fold(event)
        self._show(event)
        self._end_if_stopped()

    def _show(self, event: AgentEvent) -> None:
        failure: Exception | None = None
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 — raised below, when all have heard
                self._forget(subscriber)  # raising again would keep what was done from being recorded
                failure = failure or error
        if failure is not None:
            raise failure

    # -- changing the state ---------------------------------------------------------------------

    def set_system_prompt(self, system_prompt: str) -> None:
        self._change("systemPrompt", system_prompt=system_prompt)

    def set_model(self, model: Model) -> None:
        self._change("model", model=model)

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        self._change("thinkingLevel", thinking=level)

    def set_tools(self, tools: Sequence[Tool]) -> None:
        self._change("tools", tools=tuple(tools))

    def _change(self, name: str, **fields: object) -> None:
        """Takes effect with the next prompt; a run that is under way keeps what it began with, but for its tools."""
        self.state.config = msgspec.structs.replace(self.state.config, **fields)
        self._show(StateUpdate(changed=[name]))

    def replace_messages(self, messages: Sequence[AppMessage], *, never_begun: Collection[str] = ()) -> None:
        """Go on with another history; ``never_begun`` is as in ``RunConfig``."""
        self._not_while_streaming()
        self.state.messages = list(messages)
        self.state.config = msgspec.structs.replace(self.state.config, never_begun=never_begun)
        self._show(StateUpdate(changed=["messages"]))

    def clear_messages(self) -> None:
        self.replace_messages([])

    async def append_message(self, message: AppMessage) -> None:
        """Add a message to the conversation without asking the model."""
        self._not_while_streaming()
        await self.emit(MessageStart(message=message))
        await self.emit(MessageEnd(message=message))

    def _not_while_streaming(self) -> None:
        if self.state.is_streaming:
            raise RuntimeError("a prompt is being answered: use queue_message() or abort() first")

    # -- running --------------------------------------------------------------------------------

    async def prompt(self, text: str, attachments: Sequence[Attachment] = ()) -> AgentEnd:
        """Say something to the model and see it through. Returns the last event, also after ``abort``;
        raises what the model's server, the policy and the recorder raise.
        """
        return await self.answer([UserMessage(content=text, attachments=list(attachments))])

    async def answer(self, prompts: Sequence[AppMessage]) -> AgentEnd:
        """``prompt`` with whole messages. With none the model goes on from where the conversation stands: after a
        failure, or after a run that a crash cut off.
        """
        self._not_while_streaming()
        state = self.state
        state.is_streaming, state.error, self.queue.stop = True, None, False
        ended = AgentEnd(reason="aborted")

        async def watch(event: AgentEvent) -> None:
            nonlocal ended
            if isinstance(event, AgentEnd):
                ended = event
            await self.emit(event)

        try:
            with anyio.CancelScope() as self._scope:
                config = msgspec.structs.replace(state.config, tools_now=lambda: state.config.tools)
                await self.transport.run(tuple(state.messages), prompts, config, watch)
        finally:
            state.is_streaming, state.is_retrying, state.partial, self._scope = False, False, None, None
            state.pending_tool_calls.clear()
        return ended

    async def queue_message(self, message: AppMessage, mode: Literal["steer", "follow_up"] = "steer") -> None:
        """Give a running prompt a message: ``steer`` reaches the model after the current batch of tools,
        ``follow_up`` when it would be done. With no run under way it waits for the next one.
        """
        self.queue.add(message, mode)

    def unqueue(self, message_id: str) -> bool:
        """Forget a message that no run has taken yet; False if one has."""
        return self.queue.remove(message_id)

    def clear_queue(self) -> None:
        """Forget the messages that no run has taken yet."""
        self.queue.steering()
        self.queue.follow_up()

    def stop(self) -> None:
        """End the run before its next request; what runs now is finished. To try a failed request again is a next one."""
        self.queue.stop = True
        self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        """No request is under way between two tries of one, so nothing is left to wait for."""
        if self.queue.stop and self.state.is_retrying:
            self.abort()

    def abort(self) -> None:
        """End the run at once. The conversation stays valid; nothing happens if there is no run."""
        if self._scope is not None:
            self._scope.cancel()
