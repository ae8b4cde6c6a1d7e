"""AGENTS.md: what the user and the project want every agent to know."""

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
"""What all files together may bring into the prompt."""


class Instructions(Wire, frozen=True):
    """One AGENTS.md. ``size`` and ``cut`` are bytes: of the file, and of it what is not in ``text`` (the
    text then says so at its end). ``problem`` says why a file that is there is not used.
    """

    path: str
    text: str
    size: int = 0
    cut: int = 0
    problem: str | None = None


async def find_instructions(
    workspace: Workspace, *, home: WorkspaceFolder | None, max_bytes: int = MAX_BYTES
) -> list[Instructions]:
    """The AGENTS.md in ``home`` (the user's own), then those from the project's root down to the workspace's.

    The project's root is the nearest folder upwards that holds ``.git``; without one it is the workspace's. What
    stands in two files counts once. A project's file may not be a link out of the project. Never waits for what is no
    file; raises ``HostUnavailable``, for an agent must not begin without a project's rules.
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
        left = 0 if cut else left - head.size  # once one is cut, crumbs of the next would only confuse
        if cut:
            text += _cut_note(path, cut, max_bytes)
        if text.strip():
            found.append(Instructions(path, text, size=head.size, cut=cut))
    return found


def describe(instructions: Sequence[Instructions]) -> str:
    """A few words for a status line: ``AGENTS.md 1.2k`` (all files' bytes in use), empty if there is none."""
    used = sum(each.size - each.cut for each in instructions)
    words = f"{FILE_NAME} {max(used, 100) / 1000:.1f}k" if used else ""
    if any(each.cut for each in instructions):
        words += " (cut)"
    if any(each.problem for each in instructions):
        words = f"{words or FILE_NAME} (not all could be read)"
    return words


async def _of_project(workspace: Workspace) -> tuple[str, list[str]]:
    """The project's root, and what is called AGENTS.md from there down to the workspace's."""
    folders, marks = ancestors(workspace.root)
    paths = [str(PurePosixPath(folder, FILE_NAME)) for folder in folders]
    infos = await workspace.stats(marks + paths)  # of both at once: a host may be far away
    depth = project_depth(infos[: len(marks)])
    return folders[depth], await _to_read(workspace, paths[depth::-1], infos[len(marks) :][depth::-1])


async def _to_read(workspace: Workspace, paths: Sequence[str], infos: Sequence[FileInfo | None]) -> list[str]:
    """Those that are there, and those that are links to nothing: reading them says what is wrong."""
    return [
        path
        for path, info in zip(paths, infos, strict=True)
        if info is not None or await _leads_nowhere(workspace, path)
    ]


async def _leads_nowhere(workspace: Workspace, path: str) -> bool:
    """Whether what seems not to be there is a link after all, in a loop or to what is not there."""
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
        f"\n[Cut here: {cut:,} bytes of {path} are left out, since {FILE_NAME} files may have {max_bytes:,} "
        "bytes together. Read the rest from the file if it matters.]\n"
    )
