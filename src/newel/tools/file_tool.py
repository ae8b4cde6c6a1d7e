"""What ``read``, ``write`` and ``edit`` have in common: one file of a workspace, and who saw it last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, TypeVarTuple

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.tools.base import Parameters, TypedTool
from newel.tools.tracker import FileTracker
from newel.workspace.naming import check_path
from newel.workspace.port import Workspace

INLINE: Final = 64 * 1024
"""Bytes up to which looking through a content is cheaper than handing it to a thread."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def aside(size: int, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """What a function without effects makes of ``size`` bytes. For many of them it works in a thread, so
    that the event loop goes on; whoever is cancelled does not wait for the end.
    """
    if size <= INLINE:
        return function(*arguments)
    return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


class FileParameters(Parameters, frozen=True):
    """Base of parameters that name one file."""

    file_path: str


F = TypeVar("F", bound=FileParameters)


class FileTool(TypedTool[F]):
    def __init__(self, workspace: Workspace, tracker: FileTracker) -> None:
        self._workspace = workspace
        self._tracker = tracker

    def parse(self, arguments: dict[str, Any], /) -> F:
        parsed = super().parse(arguments)
        try:
            check_path(parsed.file_path)
        except WorkspaceError as error:
            raise self.invalid(f"argument `file_path`: {str(error).removesuffix('.')}") from error
        return parsed

    async def serial_key(self, arguments: F, /) -> str:
        """Calls about one file run one after the other, by whatever name they call it."""
        return await self._workspace.resolve(arguments.file_path)
