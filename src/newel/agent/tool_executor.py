"""The tool calls of one message: checked in order, each approved when its turn comes, run side by side, answered in order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import msgspec

from newel.agent.errors import InvalidArguments, NewelError
from newel.agent.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from newel.agent.limits import UsageLimiter
from newel.agent.messages import INTERRUPTED, AppMessage, ToolCall, ToolResultMessage
from newel.agent.ports import Emit, PlannedCall, RunConfig, Tool, ToolResult

Say = Callable[[AppMessage], Awaitable[None]]
Part = TypeVar("Part")

ALONE = "*"
TAIL = 4_000
"""Characters of a stopped call's output that the model still sees."""


class _PendingCall:
    """One call on its way: refused, or ready to run; in the end it has a result."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.tool: Tool | None = None
        self.arguments: Any = None
        self.planned: PlannedCall | None = None
        self.key: str | None = None
        self.refusal = ""
        self.started = False
        self.seen = ""
        self.result: ToolResultMessage | None = None
        self.done = anyio.Event()

    def waits_for(self, earlier: _PendingCall) -> bool:
        if ALONE in (self.key, earlier.key):
            return True
        return self.key is not None and self.key == earlier.key

    def stopped(self) -> ToolResultMessage:
        """The result of a call that the run's end overtook."""
        if not self.started:
            words = "Not run: stopped before this call began."
        elif self.seen:
            words = f"{INTERRUPTED}\nOutput until then:\n{self.seen}"
        else:
            words = INTERRUPTED
        return self.answer(words, is_error=True)

    def answer(self, output: str, *, is_error: bool) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=self.call.id, tool_name=self.call.name, output=output, is_error=is_error
        )


def milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _described(error: Exception) -> str:
    """An error of a tool for the model: an expected one by its message alone."""
    return str(error) if isinstance(error, NewelError) else f"{type(error).__name__}: {error}"


class ToolExecutor:
    """Runs the calls of one message after another, with what the whole run has in common."""

    def __init__(self, config: RunConfig, guard: UsageLimiter, emit: Emit) -> None:
        self.config = config
        self.guard = guard
        self.emit = emit
        self.tools: dict[str, Tool] = {}
        self.offered: Sequence[Tool] = ()
        self.offer(config.tools)

    def offer(self, tools: Sequence[Tool]) -> None:
        """The tools that the model may call from now on."""
        if tools is self.offered:
            return
        self.offered, self.tools = tools, {}
        for tool in tools:
            for alias in tool.spec.aliases:
                self.tools.setdefault(alias, tool)
        self.tools |= {tool.spec.name: tool for tool in tools}

    def canonical(self, part: Part) -> Part:
        """A call under another agent's usual names, under ours; anything else as it is."""
        if not isinstance(part, ToolCall) or part.name not in self.tools:
            return part
        spec = self.tools[part.name].spec
        renamed = {spec.argument_aliases.get(name, name): value for name, value in part.arguments.items()}
        if part.name == spec.name and renamed.keys() == part.arguments.keys():
            return part
        return msgspec.structs.replace(part, name=spec.name, arguments=renamed)

    async def run(self, tool_calls: Sequence[ToolCall], say: Say) -> list[str]:
        """Run them and ``say`` a result for each, in their order; returns the results' ids."""
        calls = [_PendingCall(call) for call in tool_calls]
        said: list[str] = []

        async def say_finished() -> None:
            # A result is told as soon as all before it are: what was done must not wait to be known.
            while len(said) < len(calls) and (result := calls[len(said)].result) is not None:
                said.append(result.id)
                await say(result)

        try:
            for call in calls:
                await self.admit(call, is_alone=len(calls) == 1)
            if len(calls) == 1:
                await self.decide(calls[0])
                await self.execute(calls[0])
                await say_finished()
            elif calls:
                await self.side_by_side(calls, say_finished)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for call in calls:
                    call.result = call.result or call.stopped()
                await say_finished()
            raise
        return said

    async def resume(self, tool_calls: Sequence[ToolCall], say: Say) -> None:
        """Answer calls that a run before this one left open: what only reads runs again, and what is known not to have
        begun runs now, unless it comes after one whose outcome nobody knows. The others are reported as they are.
        """
        in_doubt = False
        for request in tool_calls:
            tool = self.tools.get(request.name)
            call = _PendingCall(request)
            call.started = request.id not in self.config.never_begun
            if (tool is not None and tool.read_only) or not (call.started or in_doubt):
                await self.run([request], say)
            else:
                in_doubt = True
                await say(call.stopped())

    async def side_by_side(
        self, calls: list[_PendingCall], say_finished: Callable[[], Awaitable[None]]
    ) -> None:
        telling, deciding = anyio.Lock(), anyio.Lock()

        async def one(index: int) -> None:
            call = calls[index]
            for earlier in calls[:index]:
                if call.waits_for(earlier):
                    await earlier.done.wait()
            async with deciding:  # not before: an earlier call may change what this one is about
                await self.decide(call)
            await self.execute(call)
            call.done.set()
            async with telling:
                await say_finished()

        try:
            async with anyio.create_task_group() as group:
                for index in range(len(calls)):
                    group.start_soon(one, index)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed

    async def admit(self, call: _PendingCall, *, is_alone: bool) -> None:
        """Find the tool and check the arguments; what fails becomes the call's refusal."""
        request = call.call
        tool = self.tools.get(request.name)
        if tool is None:
            names = ", ".join(tool.spec.name for tool in self.offered) or "none"
            call.refusal = f"There is no tool named '{request.name}'. The tools are: {names}."
        elif request.problem:
            call.refusal = f"Not run: {request.problem}"
        elif spent := self.guard.spent(in_turn=True):
            call.refusal = f"Not run. {spent[1]}"
        elif repeated := self.guard.repeated(request):
            call.refusal = repeated
        else:
            self.guard.tool_calls += 1
            try:
                call.arguments = tool.parse(request.arguments)
                if not is_alone:
                    call.key = await tool.serial_key(call.arguments)
            except InvalidArguments as error:
                call.refusal = str(error)
            except Exception as error:  # noqa: BLE001 — what a tool raises becomes its result, and the run continues
                call.refusal = f"Not run: {_described(error)}"
            else:
                call.tool = tool

    async def decide(self, call: _PendingCall) -> None:
        """Ask the policy; a call that it does not allow loses its tool."""
        if call.tool is None:
            return
        verdict = await self.config.policy.decide(call.call, call.tool, call.arguments)
        call.planned = verdict.planned
        if not verdict.allow:
            call.tool, call.refusal = None, verdict.reason

    async def execute(self, call: _PendingCall) -> None:
        request = call.call
        if call.tool is None:
            call.result = call.answer(call.refusal, is_error=True)
            self.guard.note(request, call.result)
            return

        async def on_output(piece: str) -> None:
            call.seen = (call.seen + piece)[-TAIL:]
            await self.emit(ToolExecutionUpdate(tool_call_id=request.id, delta=piece))

        call.started = True
        await self.emit(
            ToolExecutionStart(tool_call_id=request.id, tool_name=request.name, args=request.arguments)
        )
        began = time.monotonic()
        try:
            planned = call.planned or await call.tool.plan(call.arguments)
            answer = await planned.execute(on_output)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                call.result = msgspec.structs.replace(call.stopped(), duration=milliseconds_since(began))
                await self.tell_end(call.result)
            raise
        except Exception as error:  # noqa: BLE001 — what a tool raises becomes its result, and the run continues
            answer = ToolResult(_described(error), is_error=True)
        if self.config.shorten is not None:
            answer = await self.config.shorten(request, answer)
        call.result = ToolResultMessage(
            tool_call_id=request.id,
            tool_name=request.name,
            output=answer.output,
            is_error=answer.is_error,
            images=answer.images,
            details=answer.details,
            duration=milliseconds_since(began),
        )
        self.guard.note(request, call.result)
        await self.tell_end(call.result)

    async def tell_end(self, result: ToolResultMessage) -> None:
        await self.emit(
            ToolExecutionEnd(
                tool_call_id=result.tool_call_id,
                tool_name=result.tool_name,
                result=result.output,
                is_error=result.is_error,
                duration=result.duration,
                images=result.images,
                details=result.details,
            )
        )
