"""The files that a ``CLAUDE.md`` imports: ``@docs/style.md`` outside of code, relative to the file, up to five hops.

Of a project, only files in it count, and Markdown files directly in the user's ``~/.claude``, whose folders hold conversations: a cloned
repository must not send other files to a model.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.context.file_reader import Head, IsPrivate, WorkspaceFolder, read_head, resolve_in_project
from newel.text.format import one_line
from newel.workspace.port import Workspace, check_path

MAX_HOPS: Final = 5
MAX_FILES: Final = 20
MAX_NAMES: Final = 200
"""Of one file: each is looked for."""

_CODE: Final = (
    r"(?ms)^[ \t]*(?P<fence>```+|~~~+).*?(?:^[ \t]*(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`++)[^\n]*?(?<!`)(?P=ticks)(?!`)"
)
_IMPORT: Final = r"(?<!\S)@(?P<path>(?:\\ |[^\s\\`@])+)"
_IN_CLAUDE: Final = "~/.claude/"


class ImportedFile(msgspec.Struct, frozen=True):
    """An imported file; without ``head``, ``problem`` says why it is not used."""

    path: str
    head: Head | None
    problem: str = ""


class _Place(msgspec.Struct, frozen=True):
    """A file and its workspace. ``bounds`` is the folder that it may not leave."""

    workspace: Workspace
    path: str
    bounds: str
    is_of_project: bool


class ImportReader:
    """Reads what one file imports. ``bounds`` is the root of its project; it is None for the user's own file in ``claude``."""

    def __init__(
        self,
        workspace: Workspace,
        bounds: str | None,
        *,
        claude: WorkspaceFolder | None,
        is_private: IsPrivate,
        limit: int,
    ) -> None:
        self._workspace = workspace
        self._bounds = bounds
        self._claude = claude
        self._is_private = is_private
        self._limit = limit
        self._seen: set[str] = set()
        self._imported: list[ImportedFile] = []

    async def of(self, path: str, head: Head) -> list[ImportedFile]:
        """The files that the text of a file imports, and those that they import. Raises ``HostUnavailable``."""
        bounds = self._bounds or str(PurePosixPath(path).parent)
        await self._follow(_Place(self._workspace, path, bounds, self._bounds is not None), head, MAX_HOPS)
        return self._imported

    async def _follow(self, importing: _Place, head: Head, hops: int) -> None:
        text, _ = head.text(self._limit)
        if "@" not in text or not hops:
            return
        for name in imported_names(text):
            if len(self._imported) >= MAX_FILES:
                return
            try:
                place = self._find(importing, name)
                if place is None or place.path in self._seen:
                    continue
                self._seen.add(place.path)
                imported = await self._read(place)
            except HostUnavailable:
                raise
            except WorkspaceError as error:
                self._imported.append(ImportedFile(name, None, str(error)))
                continue
            if imported is not None:
                self._imported.append(ImportedFile(place.path, imported))
                await self._follow(place, imported, hops - 1)

    def _find(self, importing: _Place, name: str) -> _Place | None:
        """The file that a name means; None if no file can have it. Raises ``WorkspaceError`` for a file of the user elsewhere."""
        try:
            check_path(name)
        except WorkspaceError:
            return None
        if name.startswith(_IN_CLAUDE) and self._claude is not None:
            path = _normal(PurePosixPath(self._claude.path, name.removeprefix(_IN_CLAUDE)))
            return _Place(self._claude.workspace, path, self._claude.path, importing.is_of_project)
        if name.startswith("~"):
            raise WorkspaceError(
                f"@{one_line(name)} was not imported: it is outside of the project and of ~/.claude."
            )
        path = _normal(PurePosixPath(importing.path).parent / name)
        return msgspec.structs.replace(importing, path=path)

    async def _read(self, place: _Place) -> Head | None:
        """The content of a file; None if there is no such file."""
        workspace = place.workspace
        info = await workspace.stat(place.path)
        if info is None or info.kind != "file":
            return None
        if not PurePosixPath(place.path).is_relative_to(place.bounds):
            raise WorkspaceError(f"{one_line(place.path)} was not imported: it is outside of {place.bounds}.")
        real = await resolve_in_project(workspace, place.path, place.bounds, is_private=self._is_private)
        is_foreign = place.is_of_project and place.bounds != self._bounds
        is_notes = PurePosixPath(real).suffix == ".md" and str(PurePosixPath(real).parent) == place.bounds
        if self._is_private(real) or (is_foreign and not is_notes):
            raise WorkspaceError(f"{one_line(place.path)} was not imported: it may hold secrets.")
        head = await read_head(workspace, real, self._limit)
        if not head.is_text:
            raise WorkspaceError(f"{one_line(place.path)} is not a text file.")
        return head


def imported_names(text: str) -> list[str]:
    """The paths that a text imports, each once, in order."""
    names = [
        found["path"].replace("\\ ", " ").rstrip(".,;:!?)")
        for found in re.finditer(_IMPORT, re.sub(_CODE, " ", text))
    ]
    return [name for name in dict.fromkeys(names) if name][:MAX_NAMES]


def _normal(path: PurePosixPath) -> str:
    import posixpath

    return posixpath.normpath(str(path))
