"""If these fail, a mistake in a tool of the user's ends the run, or leaves a session that cannot be resumed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from newel.agent.ports import OnOutput, ToolResult
from newel.tools.base import Parameters, TypedTool

CYCLE: dict[str, Any] = {}
CYCLE["again"] = CYCLE


class Nothing(Parameters, frozen=True):
    pass


class ReturningTool(TypedTool[Nothing]):
    name = label = description = "returns"
    read_only = True
    parameters = Nothing

    def __init__(self, result: object) -> None:
        self.result = result

    async def serial_key(self, arguments: Nothing, /) -> str | None:
        return None

    async def preview(self, arguments: Nothing, /) -> str:
        return "return"

    async def execute(self, arguments: Nothing, on_output: OnOutput, /) -> ToolResult:
        return cast("ToolResult", self.result)


async def result_of(result: object) -> ToolResult:
    tool = ReturningTool(result)
    planned = await tool.plan(Nothing())

    async def ignore(_: str) -> None: ...

    return await planned.execute(ignore)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("result", "told"),
    [
        (ToolResult("ok", {"frame": object()}), "JSON cannot hold: Encoding objects of type object"),
        (ToolResult("ok", {"a": {(1, 2): 3}}), "JSON cannot hold: Only dicts with "),
        (ToolResult("ok", CYCLE), "JSON cannot hold: maximum recursion depth exceeded"),
        (ToolResult(cast("str", 5)), "JSON cannot hold: Expected `str`, got `int` - at `$.output`"),
        ("ok", "returned a str, not a ToolResult"),
    ],
)
async def test_a_result_that_no_session_can_hold_is_an_error_of_the_tool(result: object, told: str) -> None:
    with pytest.raises(TypeError) as raised:
        await result_of(result)
    assert str(raised.value).startswith("ReturningTool.execute returned a ")
    assert told in str(raised.value)


@pytest.mark.anyio
async def test_details_are_what_a_resumed_session_shows() -> None:
    """A screen that gets a set during the run and a list after it fails in one of both."""
    result = await result_of(ToolResult("ok", {"names": {"a"}, "pair": (1, 2)}))
    assert result.details == {"names": ["a"], "pair": [1, 2]}
