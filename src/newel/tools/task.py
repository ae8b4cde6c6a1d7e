"""``task``: gives a piece of the work to a subagent, which has its own context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal

from msgspec import Meta

from newel.agent.ports import OnOutput, ToolResult
from newel.agent.tool_executor import EXCLUSIVE
from newel.tools.base import Parameters, TypedTool

NAME: Final = "task"


class TaskParameters(Parameters, frozen=True):
    description: Annotated[str, Meta(description="The task in 3 to 6 words")]
    prompt: Annotated[
        str,
        Meta(
            description="The whole task: the subagent sees nothing of this conversation. Say what its answer has to contain.",
            min_length=1,
        ),
    ]
    can_write: Annotated[
        bool,
        Meta(description="Whether it may change files and run any command (default false: it only reads)"),
    ] = False
    model: Annotated[
        Literal["main", "small"], Meta(description="small: a cheaper model, for simple searches")
    ] = "main"


RunSubagent = Callable[[TaskParameters, OnOutput], Awaitable[ToolResult]]


class TaskTool(TypedTool[TaskParameters]):
    """A call may change files, so it does not run again after a crash; what its subagent does is approved call by call."""

    name = NAME
    label = "Run Subagent"
    description = (
        "Give a separate piece of work to a subagent and get its last answer, so that its reading does not fill your context. "
        "Several that only read run at the same time if you call them together. Not for what you can do in a few calls."
    )
    read_only = False
    parameters = TaskParameters

    def __init__(self, run: RunSubagent) -> None:
        self._run = run

    async def serial_key(self, arguments: TaskParameters, /) -> str | None:
        return EXCLUSIVE if arguments.can_write else None

    async def preview(self, arguments: TaskParameters, /) -> str:
        return arguments.prompt

    async def execute(self, arguments: TaskParameters, on_output: OnOutput, /) -> ToolResult:
        return await self._run(arguments, on_output)
