"""Executes the tool calls of one message: validated in order, approved one at a time, run concurrently, answered in order. A call about
which the user was asked ends before the next one is decided about.
"""

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
from newel.agent.ports import Emit, Limits, NestedOutput, PlannedCall, RunConfig, Tool, ToolResult
from newel.concurrency import contained, first_error, task_group

AppendMessage = Callable[[AppMessage], Awaitable[None]]
Part = TypeVar("Part")

EXCLUSIVE = "*"
"""The serial key of a call that runs alone."""

MAX_OUTPUT_TAIL = 4_000
"""Characters of a stopped call's output that the model still gets."""


class _PendingCall:
    """A call between its request and its ``result``: refused, or ready to run."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.tool: Tool | None = None
        self.arguments: Any = None
        self.planned: PlannedCall | None = None
        self.is_asked = False
        self.shown_arguments = call.arguments
        self.key: str | None = None
        self.refusal = ""
        self.is_invalid = False
        self.started = False
        self.waited = 0
        self.output_tail = ""
        self.used = UsageLimiter(Limits())
        self.result: ToolResultMessage | None = None
        self.done = anyio.Event()

    def waits_for(self, earlier: _PendingCall) -> bool:
        if EXCLUSIVE in (self.key, earlier.key):
            return True
        return self.key is not None and self.key == earlier.key

    def stopped_result(self) -> ToolResultMessage:
        """The result if the run ends before the call does."""
        if not self.started:
            output = "Not run: stopped before this call started."
        elif self.output_tail:
            output = f"{INTERRUPTED}\nOutput until then:\n{self.output_tail}"
        else:
            output = INTERRUPTED
        return self.make_result(output, is_error=True)

    def make_result(self, output: str, *, is_error: bool) -> ToolResultMessage:
        return ToolResultMessage(
            tool_call_id=self.call.id,
            tool_name=self.call.name,
            output=output,
            is_error=is_error,
            waited=self.waited,
            usage=self.used.usage,
            cost=self.used.cost,
        )


def milliseconds_since(began: float) -> int:
    """How long ago ``time.monotonic()`` was ``began``."""
    return round((time.monotonic() - began) * 1000)


def _describe_error(error: BaseException) -> str:
    """An error of a tool for the model, of a group its first one. Only an unexpected one names its class."""
    error = first_error(error)
    return (
        str(error) if isinstance(error, NewelError) else f"{type(error).__name__}: {error}".removesuffix(": ")
    )


class ToolExecutor:
    """Executes the calls of a whole run, message by message."""

    def __init__(self, config: RunConfig, limiter: UsageLimiter, emit: Emit) -> None:
        self.config = config
        self.limiter = limiter
        self.emit = emit
        self.tools: dict[str, Tool] = {}
        self.offered: Sequence[Tool] = ()
        self.offer(config.tools)

    def offer(self, tools: Sequence[Tool]) -> None:
        """Set the tools that the model may call from now on."""
        if tools is self.offered:
            return
        self.offered, self.tools = tools, {}
        for tool in tools:
            for alias in tool.spec.aliases:
                self.tools.setdefault(alias, tool)
        self.tools |= {tool.spec.name: tool for tool in tools}

    def canonical(self, part: Part) -> Part:
        """Rename a call and its arguments from aliases to their own names. Anything else is returned unchanged."""
        if not isinstance(part, ToolCall) or part.name not in self.tools:
            return part
        spec = self.tools[part.name].spec
        renamed = {spec.argument_aliases.get(name, name): value for name, value in part.arguments.items()}
        if part.name == spec.name and renamed.keys() == part.arguments.keys():
            return part
        return msgspec.structs.replace(part, name=spec.name, arguments=renamed)

    async def run(self, tool_calls: Sequence[ToolCall], append: AppendMessage) -> list[str]:
        """Execute the calls and ``append`` a result for each, in order. Returns the ids of the results."""
        calls = [_PendingCall(call) for call in tool_calls]
        result_ids: list[str] = []

        async def append_finished() -> None:
            # As soon as all earlier results are appended: what was done must be durable.
            while len(result_ids) < len(calls) and (result := calls[len(result_ids)].result) is not None:
                result_ids.append(result.id)
                await append(result)

        try:
            for call in calls:
                await self.admit(call, is_alone=len(calls) == 1)
            if len(calls) == 1:
                await self.decide(calls[0])
                await self.execute(calls[0])
                await append_finished()
            elif calls:
                await self.run_concurrently(calls, append_finished)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for call in calls:
                    call.result = call.result or call.stopped_result()
                await append_finished()
            raise
        return result_ids

    async def resume(self, tool_calls: Sequence[ToolCall], append: AppendMessage) -> None:
        """Answer the calls that an earlier run left open.

        Read-only calls run again. Calls known not to have started run now, unless they follow one whose outcome is unknown.
        All others get a result that says so.
        """
        in_doubt = False
        for request in tool_calls:
            tool = self.tools.get(request.name)
            call = _PendingCall(request)
            call.started = request.id not in self.config.never_begun
            if (tool is not None and tool.read_only) or not (call.started or in_doubt):
                await self.run([request], append)
            else:
                in_doubt = True
                await append(call.stopped_result())

    async def run_concurrently(
        self, calls: list[_PendingCall], append_finished: Callable[[], Awaitable[None]]
    ) -> None:
        appending, deciding = anyio.Lock(), anyio.Lock()

        async def finish(call: _PendingCall) -> None:
            await self.execute(call)
            call.done.set()
            async with appending:
                await append_finished()

        async def run_at(index: int) -> None:
            call = calls[index]
            for earlier in calls[:index]:
                if call.waits_for(earlier):
                    await earlier.done.wait()
            async with deciding:  # only now: an earlier call may have changed the files that this one touches
                await self.decide(call)
                if call.is_asked:  # the user sees what they have allowed before the next question
                    await finish(call)
            if not call.is_asked:
                await finish(call)

        async with task_group() as group:
            for index in range(len(calls)):
                group.start_soon(run_at, index)

    async def admit(self, call: _PendingCall, *, is_alone: bool) -> None:
        """Find the tool and check the arguments; what fails becomes the call's refusal."""
        request = call.call
        tool = self.tools.get(request.name)
        if tool is None:
            names = ", ".join(tool.spec.name for tool in self.offered) or "none"
            call.refusal = f"There is no tool named '{request.name}'. The tools are: {names}."
            call.is_invalid = True
        elif request.problem:
            call.refusal = f"Not run: {request.problem}"
            call.is_invalid = True
        elif exceeded := self.limiter.exceeded_limit(in_turn=True):
            call.refusal = f"Not run. {exceeded[1]}"
        elif repetition := self.limiter.repetition(request):
            call.refusal = repetition
        else:
            self.limiter.tool_calls += 1
            try:
                call.arguments = tool.parse(request.arguments)
                if not is_alone:
                    call.key = await contained(tool.serial_key(call.arguments))
            except InvalidArguments as error:
                call.refusal = str(error)
                call.is_invalid = True
            except Exception as error:  # noqa: BLE001 — what a tool raises becomes its result, and the run continues
                call.refusal = f"Not run: {_describe_error(error)}"
            else:
                call.tool = tool

    async def decide(self, call: _PendingCall) -> None:
        """Ask the policy. A call that it denies loses its tool."""
        if (tool := call.tool) is None:
            return
        policy = self.config.refreshed().policy
        asked_at = time.monotonic()
        try:
            verdict = await contained(policy.decide(call.call, tool, call.arguments))
        finally:
            call.waited = milliseconds_since(asked_at)
        call.planned, call.is_asked = verdict.planned, verdict.asked
        call.shown_arguments = verdict.arguments or call.shown_arguments
        if not verdict.allow:
            call.tool, call.refusal = None, verdict.reason

    async def execute(self, call: _PendingCall) -> None:
        request = call.call
        if (tool := call.tool) is None:
            call.result = msgspec.structs.replace(
                call.make_result(call.refusal, is_error=True), is_invalid=call.is_invalid
            )
            self.limiter.record_result(request, call.result)
            return

        async def on_output(piece: str) -> None:
            call.output_tail = (call.output_tail + piece)[-MAX_OUTPUT_TAIL:]
            event = piece.event if isinstance(piece, NestedOutput) else None
            if event is not None:
                call.used.count_event(event)
                self.limiter.count_event(event)
            await self.emit(ToolExecutionUpdate(tool_call_id=request.id, delta=str(piece), event=event))

        async def perform() -> ToolResult:
            planned = call.planned or await tool.plan(call.arguments)
            return await planned.execute(on_output)

        call.started = True
        await self.emit(
            ToolExecutionStart(tool_call_id=request.id, tool_name=request.name, args=call.shown_arguments)
        )
        started_at = time.monotonic()
        try:
            answer = await contained(perform())
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                duration = milliseconds_since(started_at)
                call.result = msgspec.structs.replace(call.stopped_result(), duration=duration)
                await self.emit_end(call.result)
            raise
        except Exception as error:  # noqa: BLE001 — what a tool raises becomes its result, and the run continues
            answer = ToolResult(_describe_error(error), is_error=True)
        if self.config.shorten is not None:
            answer = await self.config.shorten(request, answer)
        call.result = ToolResultMessage(
            tool_call_id=request.id,
            tool_name=request.name,
            output=answer.output,
            is_error=answer.is_error,
            images=answer.images,
            details=answer.details,
            duration=milliseconds_since(started_at),
            waited=call.waited,
            usage=call.used.usage,
            cost=call.used.cost,
        )
        self.limiter.record_result(request, call.result)
        await self.emit_end(call.result)

    async def emit_end(self, result: ToolResultMessage) -> None:
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
