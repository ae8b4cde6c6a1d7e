"""What ``read``, ``write`` and ``edit`` have in common: one file of a workspace, and who saw it last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, TypeVarTuple

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.agent.ports import OnOutput, PlannedCall, Preview, ToolResult, Touch
from newel.tools.base import Parameters, TypedTool
from newel.tools.tracker import FileTracker
from newel.workspace.errors import check_path
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

    @abstractmethod
    async def plan(self, arguments: F, /) -> PlannedCall: ...

    async def preview(self, arguments: F, /) -> str:
        return (await (await self.plan(arguments)).preview()).text

    async def execute(self, arguments: F, on_output: OnOutput, /) -> ToolResult:
        return await (await self.plan(arguments)).execute(on_output)


class FileEdit(Protocol):
    """A prepared change of a file: ``expect`` is the SHA-256 of the content that it was made from, or
    ``ABSENT``; ``data`` is the new content.
    """

    @property
    def expect(self) -> str: ...

    @property
    def data(self) -> bytes: ...

    @property
    def size(self) -> int:
        """Bytes to look through for a description."""
        ...

    def described(self, name: str, /) -> str:
        """The whole change, for a person who decides about it."""
        ...


C = TypeVar("C", bound=FileEdit)


class ChangeCall(Generic[F, C]):
    """A change of one file, bound to the file's real path, and once it was shown to what was shown. Implements
    ``newel.agent.ports.PlannedCall``.
    """

    def __init__(self, tool: ChangingTool[F, C], arguments: F, path: str) -> None:
        self.touches = (Touch(path, arguments.file_path, writes=True),)
        self._tool = tool
        self._arguments = arguments
        self._path = path
        self._shown: C | None = None

    async def preview(self) -> Preview:
        change = self._shown = await self._tool.think(self._arguments, self._path)
        text = await aside(change.size, change.described, self._arguments.file_path)
        touch = Touch(
            self._path,
            self._arguments.file_path,
            writes=True,
            before=change.expect,
            after=sha256(change.data),
        )
        return Preview(text, (touch,))

    async def execute(self, on_output: OnOutput, /) -> ToolResult:
        del on_output
        change = self._shown or await self._tool.think(self._arguments, self._path)
        return await self._tool.make(change, self._arguments, self._path)


class ChangingTool(FileTool[F], Generic[F, C]):
    """A tool that gives one file another content."""

    read_only = False

    async def plan(self, arguments: F, /) -> ChangeCall[F, C]:
        return ChangeCall(self, arguments, await self._workspace.resolve(arguments.file_path))

    @abstractmethod
    async def think(self, arguments: F, path: str, /) -> C:
        """What the file at the real ``path`` would become. Changes nothing; raises ``NewelError`` if it cannot be done."""

    @abstractmethod
    async def make(self, change: C, arguments: F, path: str, /) -> ToolResult:
        """Write it, if the file is still what ``change`` was made from. Raises ``StaleFile``."""


def sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
