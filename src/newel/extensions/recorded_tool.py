"""A tool of an extension in the hands of an agent: what it changes is recorded, and how it fails is a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import msgspec

from newel.agent.errors import NewelError, ToolError
from newel.agent.ports import OnOutput, PlannedCall, Preview, Tool, ToolResult
from newel.agent.tool_executor import EXCLUSIVE
from newel.concurrency import isolated
from newel.hooks.user_function import LoopWatch, describe_failure
from newel.tools.base import checked_result

FOLDER: Final[ContextVar[Path]] = ContextVar("folder")
"""The folder of the agent whose call runs."""

MAX_TEXT: Final = 1_000_000
"""Characters of a result; the rest is dropped before Newel shortens it for the model."""

Recording = Callable[[], AbstractAsyncContextManager[object]]


class ToolPlace(msgspec.Struct, frozen=True):
    """Where the tools of an agent work. ``recording`` records what the body changes as the agent's doing, ``report`` tells the user what is
    wrong with a tool.
    """

    folder: Path
    recording: Recording
    report: Callable[[str], Awaitable[None]]


class RecordedTool:
    """Fulfils ``Tool``. A call that may change something runs alone: what changes meanwhile is taken for its doing. ``file`` is the
    extension's.
    """

    def __init__(self, tool: Tool, place: ToolPlace, file: str) -> None:
        self.spec = tool.spec
        self.label = tool.label
        self.read_only = tool.read_only
        self._tool = tool
        self._place = place
        self._file = file

    def parse(self, arguments: dict[str, Any], /) -> Any:
        with failures_of(self._file):
            return self._tool.parse(arguments)

    async def serial_key(self, arguments: Any, /) -> str | None:
        if not self.read_only:
            return EXCLUSIVE
        with failures_of(self._file):
            return await self._tool.serial_key(arguments)

    async def plan(self, arguments: Any, /) -> PlannedCall:
        with failures_of(self._file):
            planned = await self._tool.plan(arguments)
        recording = nullcontext if self.read_only else self._place.recording
        place = msgspec.structs.replace(self._place, recording=recording)
        return _RecordedCall(planned, place, self._file, self.spec.name)


class _RecordedCall:
    def __init__(self, planned: PlannedCall, place: ToolPlace, file: str, name: str) -> None:
        self.touches = planned.touches
        self._name = name
        self._planned = planned
        self._place = place
        self._file = file

    async def preview(self) -> Preview:
        with failures_of(self._file):
            return await self._planned.preview()

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        token = FOLDER.set(self._place.folder)
        watch = LoopWatch()
        try:
            async with self._place.recording():
                with failures_of(self._file):
                    result = await isolated(lambda: watch.run(self._planned.execute(on_output)))
                    return _checked(result)
        finally:
            FOLDER.reset(token)
            if watch.problem:
                await self._place.report(f"The tool {self._name} of {self._file} {watch.problem}.")


@contextmanager
def failures_of(file: str) -> Generator[None]:
    """Raise an unexpected error of the body as a ``ToolError`` that names the line, also an attempt to end the program."""
    try:
        yield
    except NewelError:
        raise
    except (Exception, SystemExit) as error:
        raise ToolError(describe_failure(error, file)) from error


def _checked(result: object) -> ToolResult:
    """A result that events can hold. Raises ``TypeError``."""
    checked = checked_result(result, "the tool")
    if len(checked.output) <= MAX_TEXT:
        return checked
    cut = f"\n[… cut: the tool returned {len(checked.output):,} characters …]"
    return msgspec.structs.replace(checked, output=checked.output[:MAX_TEXT] + cut)
