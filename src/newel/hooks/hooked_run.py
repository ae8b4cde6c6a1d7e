"""Runs with hooks: at the start of a session, before a prompt, after a compaction, and when the model is done.

    HookedTransport  --run(config with its own queue, finish and shorten)-->  the agent's own transport

The loop knows nothing of hooks: they come in through its ports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol, runtime_checkable

import anyio
import msgspec

from newel.agent.agent import AgentTransport
from newel.agent.errors import NewelError
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    ErrorEvent,
    Interrupted,
    MessageEnd,
    MessageStart,
    TurnEnd,
)
from newel.agent.messages import AppMessage, AssistantMessage, CustomMessage, ToolCall, UserMessage, new_id
from newel.agent.ports import Emit, Queue, RunConfig, ToolResult
from newel.agent.transform import COMPACTION
from newel.hooks.call_hooks import SUBAGENT, CallHooks
from newel.text.sanitize import sanitize

MAX_BLOCKS: Final = 8
"""How often in a row ``Stop`` hooks may send the model on."""

BLOCKED_PROMPT: Final = "[A hook blocked this prompt, so it was not sent.]"
ENOUGH: Final = "The Stop hooks have sent the model on {count} times in a row, so the run ends anyway."


class PromptBlocked(NewelError):
    """A hook does not let a prompt reach the model."""


class Admission(msgspec.Struct, frozen=True):
    """What hooks say about prompts: a text for the model, and why the prompts are blocked, None if they are not."""

    context: str = ""
    blocked: str | None = None


@runtime_checkable
class TakesBack(Protocol):
    """A queue to which messages can be given back."""

    def give_back(self, messages: Sequence[AppMessage], /) -> None: ...


class RunEvents(Protocol):
    """The hooks of an agent's runs, apart from those about calls."""

    async def admit(self, messages: Sequence[AppMessage], prompts: Sequence[AppMessage]) -> Admission:
        """Called before a run with the conversation until then and its prompts."""
        ...

    async def admit_queued(self, message: UserMessage) -> Admission:
        """Called for a message that was queued during a run."""
        ...

    async def compacted(self) -> str:
        """Called after a compaction in a run; returns a text for the model."""
        ...

    async def stop(self, answer: str, *, is_active: bool) -> str:
        """Called when the model is done with this ``answer``; returns what it is to do now, empty if nothing. ``is_active``: a hook has
        sent it on before.
        """
        ...

    def report(self, message: str, /) -> Awaitable[None]:
        """Tell the user something."""
        ...


def hook_message(text: str) -> UserMessage:
    """A text of a hook for the model; see ``UserMessage.is_notice``."""
    return UserMessage(content=text, id=f"hook_{new_id()}")


class HookedTransport:
    """``is_subagent``: each run is that of another subagent."""

    def __init__(
        self, inner: AgentTransport, calls: CallHooks, events: RunEvents, *, is_subagent: bool = False
    ) -> None:
        self.inner = inner
        self._calls = calls
        self._events = events
        self._is_subagent = is_subagent
        self._blocks = 0

    async def run(
        self,
        messages: Sequence[AppMessage],
        prompts: Sequence[AppMessage],
        config: RunConfig,
        emit: Emit,
        /,
    ) -> AgentEnd:
        if not self._is_subagent:
            self._calls.clear()
            return await self._run(messages, prompts, config, emit)
        writes = any(tool.spec.name == "write" for tool in config.tools)
        fields = {"agent_id": new_id(), "agent_type": "general-purpose" if writes else "Explore"}
        token = SUBAGENT.set(fields)
        try:
            return await self._run(messages, prompts, config, emit)
        finally:
            SUBAGENT.reset(token)

    async def _run(
        self, messages: Sequence[AppMessage], prompts: Sequence[AppMessage], config: RunConfig, emit: Emit
    ) -> AgentEnd:
        try:
            admission = await self._events.admit(messages, prompts)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                for event in (AgentStart(), Interrupted(), AgentEnd(reason="aborted", message="Stopped.")):
                    await emit(event)
            raise
        if admission.blocked is not None:
            return await _refuse(prompts, admission.blocked, emit)
        if prompts:
            self._blocks = 0
        more = [hook_message(admission.context)] if admission.context else []
        run = _HookedRun(config, self._calls, self._events, emit, self._blocks)
        hooked = msgspec.structs.replace(config, queue=run.queue, finish=run.finish, shorten=run.shorten)
        try:
            return await self.inner.run(messages, [*prompts, *more], hooked, run.emit)
        finally:
            self._blocks = run.blocks
            run.queue.give_back()


async def _refuse(prompts: Sequence[AppMessage], reason: str, emit: Emit) -> AgentEnd:
    """A run that ends before it begins. The prompts are in the conversation by their ids only: nobody sends them again, and no model sees
    them.
    """
    await emit(AgentStart())
    for prompt in prompts:
        message = _blocked(prompt)
        await emit(MessageStart(message=message))
        await emit(MessageEnd(message=message))
    text = sanitize(f"A hook blocked the prompt. {reason}".rstrip())
    await emit(ErrorEvent(code=PromptBlocked.code, message=text))
    await emit(AgentEnd(reason="error", message=text))
    raise PromptBlocked(text)


def _is_of_hook(message: AppMessage) -> bool:
    return isinstance(message, UserMessage) and (message.is_notice or message.content == BLOCKED_PROMPT)


def _blocked(prompt: AppMessage) -> UserMessage:
    """What stays of a prompt that may not reach the model."""
    return UserMessage(content=BLOCKED_PROMPT, id=prompt.id)


class _HookedQueue:
    """The queue of a run: what hooks have admitted of the agent's, and what they add. What arrives later waits for the next ``take``."""

    def __init__(self, inner: Queue, events: RunEvents) -> None:
        self._inner = inner
        self._events = events
        self._waiting: list[AppMessage] = []
        self._next: list[AppMessage] = []
        self.stop_requested = inner.stop_requested

    def steering(self) -> list[AppMessage]:
        messages, self._next = self._next, []
        return messages

    def follow_up(self) -> list[AppMessage]:
        return []

    def add(self, message: AppMessage) -> None:
        """Send a message with the next request."""
        self._next.append(message)

    async def take(self, *, is_done: bool) -> bool:
        """Let hooks admit what has arrived for the next request; whether there is any. ``is_done``: the model is done."""
        self._waiting = self._inner.steering() or (self._inner.follow_up() if is_done else [])
        while self._waiting:
            self._next += await self._admit(self._waiting[0])
            del self._waiting[0]
        return bool(self._next)

    def give_back(self) -> None:
        """The run has ended: what it has not sent waits in the agent's queue again, to be judged once more."""
        unsent = [message for message in self._next if not _is_of_hook(message)] + self._waiting
        if unsent and isinstance(self._inner, TakesBack):
            self._inner.give_back(unsent)

    async def _admit(self, message: AppMessage) -> list[AppMessage]:
        if not isinstance(message, UserMessage):
            return [message]
        admission = await self._events.admit_queued(message)
        if admission.blocked is not None:
            await self._events.report(sanitize(f"A hook blocked the message. {admission.blocked}".rstrip()))
            return [_blocked(message)]
        return [message, *([hook_message(admission.context)] if admission.context else [])]


class _HookedRun:
    def __init__(
        self, config: RunConfig, calls: CallHooks, events: RunEvents, emit: Emit, blocks: int
    ) -> None:
        self.queue = _HookedQueue(config.queue, events)
        self.blocks = blocks
        self._config = config
        self._calls = calls
        self._events = events
        self._emit = emit
        self._is_done = False
        self._answer = ""

    async def emit(self, event: AgentEvent) -> None:
        await self._emit(event)
        match event:
            case MessageEnd(message=AssistantMessage() as message):
                self._answer = message.text
            case MessageEnd(message=CustomMessage(name=name)) if name == COMPACTION:
                if text := await self._events.compacted():
                    self.queue.add(hook_message(text))
            case TurnEnd():
                self._is_done = not event.tool_result_ids
                await self.queue.take(is_done=False)
            case _:
                pass

    async def shorten(self, call: ToolCall, result: ToolResult) -> ToolResult:
        if self._config.shorten is not None:
            result = await self._config.shorten(call, result)
        tool = next((tool for tool in self._config.tools if tool.spec.name == call.name), None)
        return await self._calls.after(call, result, tool)

    async def finish(self) -> None:
        """The model is done, or the run ends in another way."""
        is_done, self._is_done = self._is_done, False
        if is_done and not await self.queue.take(is_done=True):
            await self._stop()
        if self._config.finish is not None:
            await self._config.finish()

    async def _stop(self) -> None:
        go_on = await self._events.stop(self._answer, is_active=self.blocks > 0)
        if not go_on:
            self.blocks = 0
        elif self.blocks < MAX_BLOCKS:
            self.blocks += 1
            self.queue.add(hook_message(go_on))
        else:
            await self._events.report(ENOUGH.format(count=self.blocks))
