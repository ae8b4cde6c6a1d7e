"""Subagents: agents that a tool call of another agent runs, each with a context and a session of its own.

    parent ── task(prompt) ──> Subagents.run ──> Agent.prompt ──> its last answer
       ^                                           │
       └── tool_execution_update with its events ──┘

A subagent works in the parent's workspace, so its changes are those of the parent's run. Its calls are judged by the parent's approval
mode. It counts towards the parent's limits, and ends with the parent's run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from newel.agent.agent import Agent, AgentTransport
from newel.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    ErrorEvent,
    MessageEnd,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from newel.agent.limits import UsageLimiter
from newel.agent.messages import AppMessage, AssistantMessage, ToolCall
from newel.agent.ports import (
    Limits,
    Model,
    NestedOutput,
    OnOutput,
    Policy,
    Shorten,
    Tool,
    ToolResult,
    Verdict,
)
from newel.text.format import describe_call, one_line
from newel.tools import task
from newel.tools.selection import OWN_NAMES
from newel.tools.task import TaskParameters

if TYPE_CHECKING:
    from newel.context.compaction import Compactor
    from newel.permissions.approval import ApprovalMode
    from newel.session.coding_agent import CodingAgent
    from newel.session.manager import SessionManager

MAX_TURNS: Final = 50
SUBAGENTS_AT_ONCE: Final = 4
"""Subagents of one agent that work at the same time; others wait."""
LOGGED: Final = 100
"""Lines of a subagent's activity that its result keeps for screens."""
SHOWN_NAME: Final = 60

FindPolicy = Callable[["ApprovalMode"], Policy]


class SubagentParts(msgspec.Struct, frozen=True):
    """``make_tools`` makes the tools of a subagent, which may write or only reads; ``policies`` finds the policies for those tools and the
    subagent's name, which questions to the user tell; ``prompts`` writes its system prompt and the short one, ``make_shorten`` makes what
    becomes of the results in its conversation.
    """

    transport: AgentTransport
    make_tools: Callable[[bool], Awaitable[list[Tool]]]
    policies: Callable[[Sequence[Tool], str], FindPolicy]
    prompts: Callable[[Sequence[Tool], bool], tuple[str, str]]
    make_compactor: Callable[[Model], Compactor]
    make_shorten: Callable[[Callable[[], Sequence[AppMessage]]], Shorten]
    open_session: Callable[[], SessionManager]


class Subagents:
    """Runs the subagents of an agent."""

    def __init__(self, parent: CodingAgent, parts: SubagentParts) -> None:
        self._parent = parent
        self._parts = parts
        self._used = UsageLimiter(Limits())
        self._slots = anyio.Semaphore(SUBAGENTS_AT_ONCE)
        parent.subscribe(self._count)

    def _count(self, event: AgentEvent) -> None:
        """Follow what the parent's run uses, with all its subagents."""
        if isinstance(event, AgentStart):
            self._used = UsageLimiter(self._parent.state.config.limits)
        self._used.count_event(event)

    async def run(self, arguments: TaskParameters, on_output: OnOutput) -> ToolResult:
        """Run a subagent to its end. It is cancelled with the call."""
        parent, parts = self._parent, self._parts
        async with self._slots:
            run = _SubagentRun(arguments, on_output, parent, parts.open_session(), self._over_budget)
            try:
                child = await _build(arguments, parent, parts, run)
                run.stop = child.stop
                end = await child.prompt(arguments.prompt)
            finally:
                run.session.close()
            return run.result(child, end)

    def _over_budget(self) -> str:
        exceeded = self._used.exceeded_limit()
        return exceeded[1] if exceeded else ""


async def _build(
    arguments: TaskParameters, parent: CodingAgent, parts: SubagentParts, run: _SubagentRun
) -> Agent:
    own = await parts.make_tools(arguments.can_write)
    served = [
        tool
        for tool in parent.state.tools
        if tool.spec.name not in OWN_NAMES and (arguments.can_write or tool.read_only)
    ]
    tools = [*own, *served]
    config = parent.state.config
    model = parent.compactor.model if arguments.model == "small" and parent.compactor else config.model
    prompt, short = parts.prompts(tools, arguments.can_write)
    child = Agent(
        parts.transport,
        msgspec.structs.replace(
            config,
            model=model,
            system_prompt=prompt,
            short_prompt=short,
            tools=tools,
            policy=_PolicyNow(parts.policies(own, run.name), parent, reads=not arguments.can_write),
            limits=Limits(max_turns=MAX_TURNS, max_cost=config.limits.max_cost),
            compact=parts.make_compactor(model),
            shorten=parts.make_shorten(lambda: child.state.messages),
            never_begun=(),
        ),
        record=run.record,
    )
    return child


class _SubagentRun:
    """Saves what a subagent does, passes it on to the call, and ends it with its parent or at a limit of the parent."""

    def __init__(
        self,
        arguments: TaskParameters,
        on_output: OnOutput,
        parent: CodingAgent,
        session: SessionManager,
        over_budget: Callable[[], str],
    ) -> None:
        self.name = one_line(arguments.description, SHOWN_NAME)
        self.session = session
        self._on_output = on_output
        self._parent = parent
        self._over_budget = over_budget
        self._used = UsageLimiter(Limits())
        self._log: list[str] = []
        self._problem = ""
        self.stop: Callable[[], None] = lambda: None

    async def record(self, event: AgentEvent) -> None:
        if isinstance(event, MessageEnd):
            if not self.session.is_started():
                self._start_session()
            self.session.append_message(event.message)
        if not isinstance(
            event, MessageEnd | ToolExecutionStart | ToolExecutionEnd | Retry | ErrorEvent | AgentEnd
        ):
            return
        self._used.count_event(event)
        lines = _describe(event)
        self._log += lines
        await self._on_output(NestedOutput("".join(f"{line}\n" for line in lines), event))
        self._problem = self._problem or self._over_budget()
        if self._problem or self._parent.queue.stop_requested():
            self.stop()

    def _start_session(self) -> None:
        state = self._parent.state
        self.session.start_session(
            {
                "model": state.model.id,
                "provider": state.model.provider,
                "parent": self._parent.session.get_id(),
            }
        )
        self.session.set_name(self.name)

    def result(self, child: Agent, end: AgentEnd) -> ToolResult:
        """Its last answer, and why it ended if it was not done."""
        answers = [message.text for message in child.state.messages if isinstance(message, AssistantMessage)]
        answer = next((text for text in reversed(answers) if text.strip()), "")
        problem = (
            "" if end.reason == "done" else f"The subagent did not finish. {self._problem or end.message}"
        )
        output = "\n\n".join(filter(None, (problem, answer))) or "The subagent gave no answer."
        details: dict[str, Any] = {
            "session": self.session.get_id(),
            "calls": self._used.tool_calls,
            "cost": self._used.cost,
            "log": self._log[-LOGGED:],
        }
        return ToolResult(output, details=details, is_error=bool(problem))


def _describe(event: AgentEvent) -> list[str]:
    """Lines about a subagent's activity, inert."""
    match event:
        case ToolExecutionStart():
            return [describe_call(event.tool_name, event.args)]
        case MessageEnd(message=AssistantMessage() as message) if message.tool_calls and message.text.strip():
            return [one_line(message.text)]
        case ErrorEvent():
            return [one_line(event.message)]
        case _:
            return []


class _PolicyNow:
    """The policy of the mode that the parent works in at each call; one that only reads never has a mode that changes anything."""

    def __init__(self, find: FindPolicy, parent: CodingAgent, *, reads: bool) -> None:
        self._find = find
        self._parent = parent
        self._reads = reads
        self._found: dict[str, Policy] = {}

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        mode = "read-only" if self._reads else self._parent.approve
        if mode not in self._found:
            self._found[mode] = self._find(mode)
        return await self._found[mode].decide(call, tool, arguments)


def policies_of_parent(find: FindPolicy) -> FindPolicy:
    """The policies of an agent that has subagents."""
    return lambda mode: _SubagentPolicy(find(mode))


class _SubagentPolicy:
    """A policy for which the start of a subagent is no change: each call of the subagent is judged itself. Rules about ``task`` hold."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def decide(self, call: ToolCall, tool: Tool, arguments: Any, /) -> Verdict:
        return await self._policy.decide(
            call, _Start(tool) if tool.spec.name == task.NAME else tool, arguments
        )


class _Start:
    """A ``task`` tool as policies judge it."""

    read_only = True

    def __init__(self, tool: Tool) -> None:
        self.spec = tool.spec
        self.label = tool.label
        self.parse = tool.parse
        self.serial_key = tool.serial_key
        self.plan = tool.plan
