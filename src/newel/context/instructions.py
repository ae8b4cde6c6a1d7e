"""AGENTS.md: what the user and the project want every agent to know."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from newel.agent.errors import WorkspaceError
from newel.agent.messages import Wire
from newel.context.files import Head, read_head

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


def find_instructions(
    *, cwd: str | Path, home: str | Path | None, max_bytes: int = MAX_BYTES
) -> list[Instructions]:
    """The AGENTS.md in ``home`` (the user's own), then those from the project's root down to ``cwd``.

    The root is the nearest folder upwards that holds ``.git``; without one it is ``cwd``. A file reached
    twice counts once. A project's file may not be a link out of the project: who clones a repository does
    not mean to send a file of their own to a model. Never raises; never waits.
    """
    cwd = Path(cwd).resolve()
    root = next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)
    found: list[Instructions] = []
    seen: set[tuple[int, int]] = set()
    left = max_bytes
    folders = [
        *([(Path(home), None)] if home is not None else []),
        *((folder, root) for folder in _down(root, cwd)),
    ]
    for folder, bounds in folders:
        path = folder / FILE_NAME
        if not os.path.lexists(path):
            continue
        try:
            head = _read(path, left, bounds)
        except WorkspaceError as error:
            found.append(Instructions(str(path), "", problem=str(error)))
            continue
        if head.identity in seen:
            continue
        seen.add(head.identity)
        text, cut = head.text(left)
        left = 0 if cut else left - head.size  # once one is cut, crumbs of the next would only confuse
        if cut:
            text += _cut_note(path, cut, max_bytes)
        if text.strip():
            found.append(Instructions(str(path), text, size=head.size, cut=cut))
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


def _read(path: Path, limit: int, bounds: Path | None) -> Head:
    if bounds is not None and not Path(os.path.realpath(path)).is_relative_to(bounds):
        raise WorkspaceError(f"{path} is a link to a file outside the project and is not followed.")
    head = read_head(path, limit)
    if not head.is_text:
        raise WorkspaceError(f"{path} is not a text file.")
    return head


def _down(root: Path, leaf: Path) -> list[Path]:
    """The folders from ``root`` to ``leaf``, both included."""
    between = [folder for folder in leaf.parents if folder.is_relative_to(root)]
    return [*reversed(between), leaf]


def _cut_note(path: Path, cut: int, max_bytes: int) -> str:
    return (
        f"\n[Cut here: {cut:,} bytes of {path} are left out, since {FILE_NAME} files may have {max_bytes:,} "
        "bytes together. Read the rest from the file if it matters.]\n"
    )
