"""The files that the searching tools see, and the base of these tools."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from newel.agent.errors import ToolError, WorkspaceError
from newel.agent.formatting import pluralize
from newel.tools.base import Parameters, ParsedTool
from newel.tools.file_tool import not_found
from newel.workspace.glob import Glob
from newel.workspace.port import Workspace, check_path
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS
from newel.workspace.walk import path_sort_key, walk

ListFiles = Callable[[], Awaitable[list[str] | None]]
"""The project's files, relative to the root, without those that git ignores; None if there is no git repository."""

IsPrivate = Callable[[str], bool]
"""Whether a file, by its real path, often holds secrets."""

MAX_FILES: Final = 100_000
"""Files that a search visits."""


class Listing(NamedTuple):
    """Files below a folder, relative to it and sorted; ``private`` counts those left out because they often hold secrets. Not
    ``complete`` if there are more than ``MAX_FILES``.
    """

    files: list[str]
    private: int
    complete: bool

    def notices(self) -> list[str]:
        notices: list[str] = []
        if self.private:
            notices.append(
                f"{pluralize(self.private, 'file')} that often {'holds' if self.private == 1 else 'hold'} secrets left out. "
                "To see one, read it by its name."
            )
        if not self.complete:
            notices.append(f"Only the first {MAX_FILES:,} files were visited. Set path to a folder.")
        return notices


class ProjectFiles:
    """``list_files`` knows the files that git does not ignore, None if nothing does."""

    def __init__(self, workspace: Workspace, list_files: ListFiles | None, is_private: IsPrivate) -> None:
        self.workspace = workspace
        self._list_files = list_files
        self.is_private = is_private

    async def find(self, folder: str, glob: Glob) -> Listing:
        """The files below a folder, given by its real path, that match a pattern. Links, files of git and those that git ignores are
        left out, without git those in build folders.
        """
        names, is_complete = await self._names(folder, glob)
        matching = [name for name in names if glob.matches(name)]
        public = [name for name in matching if not self.is_private(posixpath.join(folder, name))]
        return Listing(sorted(public, key=path_sort_key), len(matching) - len(public), is_complete)

    async def _names(self, folder: str, glob: Glob) -> tuple[list[str], bool]:
        root = self.workspace.root.rstrip("/")
        known = None
        if self._list_files is not None and (folder == root or folder.startswith(f"{root}/")):
            known = await self._list_files()
        if known is not None:
            prefix = folder[len(root) + 1 :]
            names = [name[len(prefix) :].lstrip("/") for name in known if _is_below(name, prefix)]
            return names[:MAX_FILES], len(names) <= MAX_FILES
        base = posixpath.join(folder, glob.base) if glob.base else folder
        walked = await walk(self.workspace, base, hidden=glob.names_hidden, limit=MAX_FILES)
        start = len(folder.rstrip("/")) + 1
        names = [path[start:] for path in walked.files]
        return [name for name in names if BUILD_DIRS.isdisjoint(name.split("/"))], walked.complete


def _is_below(name: str, prefix: str) -> bool:
    return not prefix or name.startswith(f"{prefix}/")


P = TypeVar("P", bound=Parameters)


class FileSearchTool(ParsedTool[P]):
    """A tool that changes nothing, so that its calls may overlap. ``room`` is the most bytes of output of one call."""

    read_only = True

    def __init__(self, files: ProjectFiles, *, room: int) -> None:
        self._files = files
        self._workspace = files.workspace
        self._room = room

    async def serial_key(self, _: P, /) -> None:
        return None

    async def _resolve(self, path: str) -> str:
        try:
            check_path(path)
        except WorkspaceError as error:
            raise self.invalid(f"argument `path`: {str(error).removesuffix('.')}") from error
        return await self._workspace.resolve(path)

    def _glob(self, argument: str, pattern: str) -> Glob:
        try:
            return Glob(pattern)
        except ValueError as error:
            raise self.invalid(f"argument `{argument}`: {error}") from error

    async def _check_folder(self, path: str, named: str) -> bool:
        """Whether a real path is a folder; False for a file. Raises ``ToolError`` if there is neither."""
        info = await self._workspace.stat(path)
        if info is None:
            raise await not_found(self._workspace, path, named)
        if info.kind == "other":
            raise ToolError(f"{named} is neither a file nor a folder.")
        return info.kind == "directory"

    def _fit(self, lines: Sequence[str]) -> list[str]:
        """As many lines as there is room for."""
        room, fitting = self._room, list[str]()
        for line in lines:
            room -= len(line.encode(errors="replace")) + 1
            if room < 0:
                break
            fitting.append(line)
        return fitting


def printable(name: str) -> str:
    """A path as one line of text; bytes that are not UTF-8, and line ends, become question marks."""
    return name.encode(errors="replace").decode().translate({10: "?", 13: "?"})
