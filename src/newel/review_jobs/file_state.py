"""A file as a window can show it: a text, or why there is none to show."""

from __future__ import annotations

from typing import Final

import anyio.to_thread
import msgspec

from newel.review.model.file_lines import MAX_TEXT, Content, content_of
from newel.review.model.file_review import FileReview, buffer
from newel.review.save import LARGEST, NotAFile
from newel.review.serialize import file_view
from newel.review.store.ledger import Ledger
from newel.review_jobs.errors import TooLarge
from newel.review_jobs.file_reviews import ReviewFiles
from newel.review_jobs.schemas import FileKind, FileStamp, FileState
from newel.workspace.port import FileInfo, Workspace

MAX_CONTENT: Final = 8 << 20
"""Bytes of a file that are given at once."""


class FileStates:
    """What files are, whatever is on the disk. Methods raise ``OutsideProject``, and ``WorkspaceError`` for what cannot be
    read.
    """

    def __init__(self, files: ReviewFiles, workspace: Workspace) -> None:
        self._files = files
        self._workspace = workspace

    async def read(self, path: str) -> FileState:
        """A file with the disk as it is now. One that is too large and not under review is not even read."""
        name, info = await self._look(path)
        if await self._files.is_another_kind(name):
            return await self.of(await self._files.read(name))
        if info is not None and info.kind != "file":
            return await self._unreadable(name, "directory" if info.kind == "directory" else "special", 0)
        known = await self._files.known(name)
        size = info.size if info else 0
        if size > LARGEST or (size > MAX_TEXT and known.rev == 0):
            return await self._unreadable(name, "too_large", size)
        return await self.of(await self._files.read(name))

    async def stamp(self, path: str) -> FileStamp:
        """Whether a file on the disk is still the one that was read: for windows that ask every few seconds."""
        name, info = await self._look(path)
        stamp = "none" if info is None else f"{info.kind} {info.mode:o} {info.size} {info.modified_ns}"
        return FileStamp(file_path=name, stamp=stamp)

    async def of(self, review: FileReview) -> FileState:
        """A file as its review has it."""
        return await anyio.to_thread.run_sync(file_state, self._files.ledger, review)

    async def content(self, path: str, *, base: bool) -> bytes:
        """A file's bytes, as they are in its buffer or in the ``base``, which is the disk as the ledger knows it. Raises
        ``NotAFile`` where there is none, and ``TooLarge``.
        """
        name = await self.name_of_file(path)
        if (await self.read(name)).kind == "too_large" and (await self._files.known(name)).rev == 0:
            raise TooLarge(f"{name} is too large to be kept for a look at it; it is not under review.")
        review = await self._files.known(name)
        found = content_of(review.base if base else buffer(review))
        if found is None:
            raise NotAFile(f"{name} is no file there.")
        size = await anyio.to_thread.run_sync(_size, self._files.ledger, found) or 0
        if size > MAX_CONTENT:
            raise TooLarge(f"{name} has {size} bytes there; at most {MAX_CONTENT} are given at once.")
        return (
            await anyio.to_thread.run_sync(self._files.ledger.blob, found.blob) if found.blob else found.data
        )

    async def name_of_file(self, path: str) -> str:
        """The name of a file in the ledger. Raises ``NotAFile`` where there is a directory, or what is neither, and that is not
        what is reviewed.
        """
        name, info = await self._look(path)
        if info is not None and info.kind != "file" and not await self._files.is_another_kind(name):
            what = "a directory" if info.kind == "directory" else "no regular file"
            raise NotAFile(f"{name} is {what}; only files can be reviewed.")
        return name

    async def _look(self, path: str) -> tuple[str, FileInfo | None]:
        root = self._workspace.root
        name = await self._files.name_of(path)
        return name, await self._workspace.stat(f"{root.rstrip('/')}/{name}")

    async def _unreadable(self, name: str, kind: FileKind, size: int) -> FileState:
        """What stands where a file was, or could be; of its review all that is known."""
        state = await self.of(await self._files.known(name))
        return msgspec.structs.replace(state, kind=kind, size=size, content=None)


def file_state(ledger: Ledger, review: FileReview) -> FileState:
    """A file as its review has it. Blocks."""
    view, found, base = file_view(review), content_of(buffer(review)), content_of(review.base)
    size = _size(ledger, found) or 0
    kind: FileKind
    if found is None:
        kind = "absent"
    elif not found.blob:
        kind = "text"
    else:
        kind = "too_large" if size > MAX_TEXT else "binary"
    return FileState(
        file_path=view.file_path,
        base_file_hash=view.base_file_hash,
        rev=view.rev,
        content=view.content if kind == "text" else None,
        hunks=view.hunks,
        kind=kind,
        size=size,
        base_size=_size(ledger, base),
    )


def _size(ledger: Ledger, content: Content | None) -> int | None:
    if content is None:
        return None
    return ledger.blob_size(content.blob) if content.blob else len(content.data)
