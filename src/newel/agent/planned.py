"""Plans of calls that open no files themselves, and what all previews have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from newel.agent.ports import OnOutput, Preview, ToolResult, Touch


class Planned:
    """Implements ``newel.agent.ports.PlannedCall`` for a call that is the same whenever it runs: ``describe`` says what it
    would do, ``run`` does it. ``touches`` are folders that it depends on, if any.
    """

    def __init__(
        self,
        describe: Callable[[], Awaitable[str]],
        run: Callable[[OnOutput], Awaitable[ToolResult]],
        touches: Sequence[Touch] = (),
    ) -> None:
        self.touches = touches
        self._describe = describe
        self._run = run

    async def preview(self) -> Preview:
        return Preview(await self._describe(), self.touches)

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        return await self._run(on_output)


def in_one_line(name: str) -> str:
    """A name that is a part of a preview, in which it could else forge further lines."""
    return name.replace("\n", "␊")
