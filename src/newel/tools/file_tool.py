"""The base of ``read``, ``write`` and ``edit``: one file of a workspace, and what the model saw of it last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, TypeVarTuple

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.agent.ports import OnOutput, Preview, ToolResult, Touch
from newel.tools.base import Parameters, ParsedTool
from newel.tools.tracker import FileTracker
from newel.workspace.naming import check_path
from newel.workspace.port import Workspace

MAX_INLINE_BYTES: Final = 64 * 1024
"""Up to this size, processing a content takes less time than handing it to a thread."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def aside(size: int, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Call a pure function on ``size`` bytes, in a thread if they are many. A cancelled caller does not wait for its end."""
    if size <= MAX_INLINE_BYTES:
        return function(*arguments)
    return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


class FileParameters(Parameters, frozen=True):
    """Base of parameters that name one file."""

    file_path: str


F = TypeVar("F", bound=FileParameters)


class FileTool(ParsedTool[F]):
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
        """Calls about one file run one after the other, whatever name they use for it."""
        return await self._workspace.resolve(arguments.file_path)


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
        """Bytes to process for a description."""
        ...

    def described(self, name: str, /) -> str:
        """The complete change, for the user who decides about it."""
        ...


C = TypeVar("C", bound=FileEdit)


class ChangeCall(Generic[F, C]):
    """A change of one file, bound to the file's real path, and after a preview to exactly that change. Implements
    ``newel.agent.ports.PlannedCall``.
    """

    def __init__(self, tool: ChangingTool[F, C], arguments: F, path: str) -> None:
        self.touches = (Touch(path, arguments.file_path, writes=True),)
        self._tool = tool
        self._arguments = arguments
        self._path = path
        self._previewed: C | None = None

    async def preview(self) -> Preview:
        change = self._previewed = await self._tool.prepare(self._arguments, self._path)
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
        change = self._previewed or await self._tool.prepare(self._arguments, self._path)
        return await self._tool.apply(change, self._arguments, self._path)


class ChangingTool(FileTool[F], Generic[F, C]):
    """A tool that changes the content of one file."""

    read_only = False

    async def plan(self, arguments: F, /) -> ChangeCall[F, C]:
        return ChangeCall(self, arguments, await self._workspace.resolve(arguments.file_path))

    @abstractmethod
    async def prepare(self, arguments: F, path: str, /) -> C:
        """The change of the file at the real ``path``. Changes nothing; raises ``NewelError`` if the change is not possible."""

    @abstractmethod
    async def apply(self, change: C, arguments: F, path: str, /) -> ToolResult:
        """Write the change, if the file is still what it was made from. Raises ``StaleFile``."""


def sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
