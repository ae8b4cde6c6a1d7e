"""The base of these tools: read-only calls, and answers in JSON."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from newel.agent.errors import ToolError
from newel.agent.ports import ToolResult
from newel.tools.base import Parameters, TypedTool
from newel.tools.review.limits import ProjectLimits
from newel.tools.review.paths import in_project
from newel.workspace.port import Workspace


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of answers. ``notice`` says what is left out, and how to get it."""

    truncated: bool = False
    notice: str = ""


def json_result(answer: ToolAnswer, **details: Any) -> ToolResult:
    """The answer for the model; ``details`` are for screens."""
    return ToolResult(msgspec.json.encode(answer).decode(), details=details)


P = TypeVar("P", bound=Parameters)


class ReadOnlyTool(TypedTool[P]):
    """A tool that changes nothing, so that its calls may overlap."""

    read_only = True

    def __init__(self, workspace: Workspace, limits: ProjectLimits) -> None:
        self._workspace = workspace
        self._limits = limits

    async def serial_key(self, _: P, /) -> None:
        return None

    async def _in_project(self, argument: str, given: str) -> str:
        """See ``in_project``; the error is one of the call's arguments."""
        try:
            return await in_project(self._workspace, given)
        except ToolError as error:
            raise self.invalid(f"argument `{argument}`: {error}") from error
