"""The instructions of the user and the project for every agent: ``AGENTS.md``, and ``CLAUDE.md`` where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, cast

import msgspec

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import Wire
from newel.context.file_reader import (
    Head,
    IsPrivate,
    WorkspaceFolder,
    ancestors,
    none_private,
    project_depth,
    read_head,
    resolve_in_project,
)
from newel.workspace.port import FileInfo, Workspace

if TYPE_CHECKING:
    from newel.context.imports import ImportedFile

FILE_NAME: Final = "AGENTS.md"
OF_CLAUDE: Final = "CLAUDE.md"
FILE_NAMES: Final = (FILE_NAME, OF_CLAUDE, f".claude/{OF_CLAUDE}")
"""In a folder of a project the first that exists counts."""
LOCAL_OF_CLAUDE: Final = "CLAUDE.local.md"
"""The user's own notes on the project, which git ignores. They follow the file that counts."""
RULES_OF_CLAUDE: Final = ".claude/rules"
"""Markdown files in this folder of a project, and below, are instructions, too: for all files, or for those that match their ``paths``."""
MAX_RULES: Final = 100
MAX_RULES_DEPTH: Final = 4
_WITH_IMPORTS: Final = frozenset({OF_CLAUDE, LOCAL_OF_CLAUDE})
MAX_BYTES: Final = 32 * 1024
"""Bytes of all files in the prompt together."""


class Instructions(Wire, frozen=True):
    """One file of instructions. ``size`` is the file's, ``cut`` the part of it that is not in ``text``, both in bytes. ``problem`` is the
    reason why an existing file is not used.
    """

    path: str
    text: str
    size: int = 0
    cut: int = 0
    problem: str | None = None


class _Source(msgspec.Struct, frozen=True):
    """A file to read. ``bounds`` is the root of its project; it is None for the user's own."""

    workspace: Workspace
    path: str
    bounds: str | None
    is_rule: bool = False


async def find_instructions(
    workspace: Workspace,
    *,
    home: WorkspaceFolder | None,
    claude: WorkspaceFolder | None = None,
    max_bytes: int = MAX_BYTES,
    is_private: IsPrivate = none_private,
) -> list[Instructions]:
    """Find the AGENTS.md in ``home`` (the user's own), or else the CLAUDE.md in ``claude``, the user's folder of that name, then those from
    the project's root down to the workspace's.

    The project's root is the nearest ancestor that holds ``.git``, or else the workspace's root. A folder without an AGENTS.md has its
    CLAUDE.md, with the files that it imports behind it; the rules of Claude Code and its CLAUDE.local.md follow. A duplicate counts once. A
    project's file may not be a link out of the project, or to what ``is_private``. Raises ``HostUnavailable``: an agent must not start
    without the project's instructions.
    """
    sources = await _of_user(home, claude)
    root, paths = await _of_project(workspace)
    for path in paths:
        is_folder = path.endswith(f"/{RULES_OF_CLAUDE}")
        sources += await _rules(workspace, path, root) if is_folder else [_Source(workspace, path, root)]
    reader = _InstructionsReader(max_bytes, is_private)
    for source in sources:
        head = await reader.read(source)
        if head is not None and PurePosixPath(source.path).name in _WITH_IMPORTS:
            from newel.context.imports import ImportReader

            for imported in await ImportReader(
                source.workspace, source.bounds, claude=claude, is_private=is_private, limit=max_bytes
            ).of(source.path, head):
                reader.add_import(imported)
    return reader.found


class _InstructionsReader:
    """Reads files one after the other, each at most once, until the bytes are used up."""

    def __init__(self, max_bytes: int, is_private: IsPrivate) -> None:
        self.found: list[Instructions] = []
        self._seen: set[Head] = set()
        self._max_bytes = self._remaining = max_bytes
        self._is_private = is_private

    async def read(self, source: _Source) -> Head | None:
        """Read a file; None if it adds nothing."""
        try:
            head = await _read(source, self._max_bytes, self._is_private)
        except HostUnavailable:
            raise
        except WorkspaceError as error:
            self._fail(source.path, str(error))
            return None
        if source.is_rule:
            head = _as_rule(head)
        return head if self._add(source.path, head) else None

    def add_import(self, imported: ImportedFile) -> None:
        if imported.head is None:
            self._fail(imported.path, imported.problem)
        else:
            self._add(imported.path, imported.head)

    def _fail(self, path: str, problem: str) -> None:
        self.found.append(Instructions(path, "", problem=problem))

    def _add(self, path: str, head: Head) -> bool:
        if head in self._seen:
            return False
        self._seen.add(head)
        text, cut = head.text(self._remaining)
        # fragments of later files would only confuse
        self._remaining = 0 if cut else self._remaining - head.size
        if cut:
            text += _cut_note(path, cut, self._max_bytes)
        if text.strip():
            self.found.append(Instructions(path, text, size=head.size, cut=cut))
        return True


def describe(instructions: Sequence[Instructions]) -> str:
    """A summary for a status line: ``AGENTS.md 1.2k`` (bytes in use), empty if there is no file."""
    used = sum(file.size - file.cut for file in instructions)
    names = dict.fromkeys(
        name
        for file in instructions
        if (name := _shown_name(file.path)) and (file.problem or file.size > file.cut)
    )
    name = ", ".join(names) or FILE_NAME
    text = f"{name} {max(used, 100) / 1000:.1f}k" if used else ""
    if any(file.cut for file in instructions):
        text += " (cut)"
    if any(file.problem for file in instructions):
        text = f"{text or name} (not all could be read)"
    return text


def _shown_name(path: str) -> str:
    """Empty for an imported file."""
    name = PurePosixPath(path).name
    if name in {FILE_NAME, *_WITH_IMPORTS}:
        return name
    return "rules" if f"/{RULES_OF_CLAUDE}" in path else ""


def as_block(path: str, text: str) -> str:
    """Instructions as a model gets them."""
    return f'<instructions file="{path}">\n{text.strip()}\n</instructions>'


async def _of_user(home: WorkspaceFolder | None, claude: WorkspaceFolder | None) -> list[_Source]:
    """The user's own file: the first that exists. That of Claude Code is followed by rules, which do not need it."""
    found: list[_Source] = []
    for folder, name in ((home, FILE_NAME), (claude, OF_CLAUDE)):
        if folder is not None and not found:
            path, rules = (str(PurePosixPath(folder.path, each)) for each in (name, "rules"))
            infos = await folder.workspace.stats([path, rules])
            if await _to_read(folder.workspace, [path], infos[:1]):
                found = [_Source(folder.workspace, path, None)]
            if folder is claude and infos[1] is not None:
                found += await _rules(folder.workspace, rules, None)
    return found


async def _rules(workspace: Workspace, folder: str, bounds: str | None) -> list[_Source]:
    """The Markdown files in a folder and below, in the order of their paths. Of a folder that cannot be used, the folder: reading that says
    why.
    """
    try:
        if bounds is not None:
            await resolve_in_project(workspace, folder, bounds)
        paths = await _rules_below(workspace, folder, 0)
    except HostUnavailable:
        raise
    except WorkspaceError:
        paths = [folder]
    return [_Source(workspace, path, bounds, is_rule=True) for path in paths[:MAX_RULES]]


async def _rules_below(workspace: Workspace, folder: str, depth: int) -> list[str]:
    """Links to folders are not followed: they may lead back."""
    found: list[str] = []
    for entry in await workspace.list(folder):
        path = f"{folder}/{entry.name}"
        if entry.kind == "file" and entry.name.endswith(".md"):
            found.append(path)
        elif entry.kind == "directory" and depth < MAX_RULES_DEPTH and not entry.is_link:
            found += await _rules_below(workspace, path, depth + 1)
        if len(found) >= MAX_RULES:
            break
    return found


def _as_rule(head: Head) -> Head:
    """The rule itself, or when to read it, if it is for some files only."""
    from newel.context.front_matter import split_front_matter

    text, cut = head.text(len(head.data))
    paths = split_front_matter(text).fields.get("paths")
    globs = [str(each) for each in cast("list[object]", paths)] if isinstance(paths, list) else [paths]
    if cut or not paths or not all(isinstance(each, str) for each in globs):
        return head
    note = f"Read this file before you work on files that match {', '.join(map(str, globs))}.".encode()
    return Head(note, len(note))


async def _of_project(workspace: Workspace) -> tuple[str, list[str]]:
    """The project's root, and the paths of the files and the folders of rules from there down to the workspace's root."""
    folders, marks = ancestors(workspace.root)
    names = (*FILE_NAMES, RULES_OF_CLAUDE, LOCAL_OF_CLAUDE)
    paths = [str(PurePosixPath(folder, name)) for folder in folders for name in names]
    infos = await workspace.stats(marks + paths)  # in one request: a host may be far away
    depth = project_depth(infos[: len(marks)])
    found = infos[len(marks) :]
    chosen: list[str] = []
    for index in range(depth, -1, -1):
        first = index * len(names)
        more = first + len(FILE_NAMES)
        chosen += (await _to_read(workspace, paths[first:more], found[first:more]))[:1]
        chosen += [paths[at] for at in range(more, first + len(names)) if found[at] is not None]
    return folders[depth], chosen


async def _to_read(workspace: Workspace, paths: Sequence[str], infos: Sequence[FileInfo | None]) -> list[str]:
    """The existing files, and broken links: reading those gives the error message."""
    return [
        path
        for path, info in zip(paths, infos, strict=True)
        if info is not None or (path == paths[0] and await _is_broken_link(workspace, path))
    ]


async def _is_broken_link(workspace: Workspace, path: str) -> bool:
    try:
        return await workspace.stat(path) is None and await workspace.resolve(path) != path
    except HostUnavailable:
        raise
    except WorkspaceError:
        return True


async def _read(source: _Source, limit: int, is_private: IsPrivate) -> Head:
    workspace, path = source.workspace, source.path
    resolved = await (
        workspace.resolve(path)
        if source.bounds is None
        else resolve_in_project(workspace, path, source.bounds, is_private=is_private)
    )
    head = await read_head(workspace, resolved, limit)
    if not head.is_text:
        raise WorkspaceError(f"{path} is not a text file.")
    return head


def _cut_note(path: str, cut: int, max_bytes: int) -> str:
    return (
        f"\n[Truncated: {cut:,} bytes of {path} are omitted, because all {FILE_NAME} files together may have {max_bytes:,} "
        "bytes. Read the rest from the file if it matters.]\n"
    )
