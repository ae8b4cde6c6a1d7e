"""AGENTS.md: instructions of the user and the project for every agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import Wire
from newel.context.file_reader import (
    Head,
    WorkspaceFolder,
    ancestors,
    project_depth,
    read_head,
    resolve_in_project,
)
from newel.workspace.port import FileInfo, Workspace

FILE_NAME = "AGENTS.md"
MAX_BYTES = 32 * 1024
"""Bytes of all files in the prompt together."""


class Instructions(Wire, frozen=True):
    """One AGENTS.md. ``size`` is the file's, ``cut`` the part of it that is not in ``text``, both in bytes. ``problem`` is the
    reason why an existing file is not used.
    """

    path: str
    text: str
    size: int = 0
    cut: int = 0
    problem: str | None = None


async def find_instructions(
    workspace: Workspace, *, home: WorkspaceFolder | None, max_bytes: int = MAX_BYTES
) -> list[Instructions]:
    """Find the AGENTS.md in ``home`` (the user's own), then those from the project's root down to the workspace's.

    The project's root is the nearest ancestor that holds ``.git``, or else the workspace's root. A duplicate counts once. A
    project's file may not be a link out of the project. Raises ``HostUnavailable``: an agent must not start without the
    project's instructions.
    """
    files: list[tuple[Workspace, str, str | None]] = []
    if home is not None:
        own = [str(PurePosixPath(home.path, FILE_NAME))]
        infos = await home.workspace.stats(own)
        files += [(home.workspace, path, None) for path in await _to_read(home.workspace, own, infos)]
    root, paths = await _of_project(workspace)
    files += [(workspace, path, root) for path in paths]
    found: list[Instructions] = []
    seen: set[Head] = set()
    left = max_bytes
    for host, path, bounds in files:
        try:
            head = await _read(host, path, max_bytes, bounds)
        except HostUnavailable:
            raise
        except WorkspaceError as error:
            found.append(Instructions(path, "", problem=str(error)))
            continue
        if head in seen:
            continue
        seen.add(head)
        text, cut = head.text(left)
        left = 0 if cut else left - head.size  # fragments of later files would only confuse
        if cut:
            text += _cut_note(path, cut, max_bytes)
        if text.strip():
            found.append(Instructions(path, text, size=head.size, cut=cut))
    return found


def describe(instructions: Sequence[Instructions]) -> str:
    """A summary for a status line: ``AGENTS.md 1.2k`` (bytes in use), empty if there is no file."""
    used = sum(each.size - each.cut for each in instructions)
    text = f"{FILE_NAME} {max(used, 100) / 1000:.1f}k" if used else ""
    if any(each.cut for each in instructions):
        text += " (cut)"
    if any(each.problem for each in instructions):
        text = f"{text or FILE_NAME} (not all could be read)"
    return text


async def _of_project(workspace: Workspace) -> tuple[str, list[str]]:
    """The project's root, and the paths of AGENTS.md from there down to the workspace's root."""
    folders, marks = ancestors(workspace.root)
    paths = [str(PurePosixPath(folder, FILE_NAME)) for folder in folders]
    infos = await workspace.stats(marks + paths)  # in one request: a host may be far away
    depth = project_depth(infos[: len(marks)])
    return folders[depth], await _to_read(workspace, paths[depth::-1], infos[len(marks) :][depth::-1])


async def _to_read(workspace: Workspace, paths: Sequence[str], infos: Sequence[FileInfo | None]) -> list[str]:
    """The existing files, and broken links: reading those gives the error message."""
    return [
        path
        for path, info in zip(paths, infos, strict=True)
        if info is not None or await _is_broken_link(workspace, path)
    ]


async def _is_broken_link(workspace: Workspace, path: str) -> bool:
    try:
        return await workspace.stat(path) is None and await workspace.resolve(path) != path
    except HostUnavailable:
        raise
    except WorkspaceError:
        return True


async def _read(workspace: Workspace, path: str, limit: int, bounds: str | None) -> Head:
    resolved = await (
        workspace.resolve(path) if bounds is None else resolve_in_project(workspace, path, bounds)
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
