"""Files under review, read: names, revisions, content, history."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from anyio.to_thread import run_sync

from newel.review.model.file_kinds import has_other_kinds
from newel.review.model.file_lines import MAX_TEXT, Content, content_of
from newel.review.model.file_review import FileReview, buffer
from newel.review.model.history import earlier
from newel.review.paths import OutsideProject, check_name, checked_path
from newel.review.save import LARGEST, DiskSync, NotAFile
from newel.review.serialize import change_log, file_view
from newel.review.store.ledger import Ledger
from newel.review_jobs.errors import TooLarge
from newel.review_jobs.responses import ChangeLog, FileKind, FileState, Stamps
from newel.workspace.port import FileInfo, Workspace
from newel.workspace.walk import below

MAX_CONTENT_BYTES: Final = 8 << 20
"""The largest file that ``content`` returns."""


class ReviewFiles:
    """The files of one project. Methods raise ``ReviewError``; ``OutsideProject`` for a path that leaves it; and
    ``WorkspaceError`` for a file that cannot be read.
    """

    def __init__(self, ledger: Ledger, saver: DiskSync, workspace: Workspace) -> None:
        self.ledger = ledger
        self.saver = saver
        self._workspace = workspace

    # -- names --------------------------------------------------------------------------------------

    async def resolve(self, path: str) -> str:
        """The name of a file in the ledger; see ``checked_path``. A link under review is not followed."""
        if await self._is_link_or_folder(path):
            return await self.saver.name_of(path)
        return await checked_path(self._workspace, path)

    async def resolve_file(self, path: str) -> str:
        """The same. Raises ``NotAFile`` for a directory or special file, unless that is what is under review."""
        name, info = await self._stat(path)
        if info is not None and info.kind != "file" and not await self._is_link_or_folder(name):
            kind = "a directory" if info.kind == "directory" else "not a regular file"
            raise NotAFile(f"{name} is {kind}; only files can be reviewed.")
        return name

    async def _is_link_or_folder(self, name: str) -> bool:
        def check() -> bool:
            review = self.ledger.get(name)
            return bool(review.hunks) and has_other_kinds(review)

        return await run_sync(check)

    async def _stat(self, path: str) -> tuple[str, FileInfo | None]:
        name = await self.resolve(path)
        return name, await self._workspace.stat(f"{self._workspace.root.rstrip('/')}/{name}")

    # -- reviews ------------------------------------------------------------------------------------

    async def refresh(self, path: str) -> FileReview:
        """A file's review, updated from the disk."""
        return await self.saver.refresh(await self.resolve(path))

    async def get(self, path: str, rev: int | None = None) -> FileReview:
        """A file's review as the ledger has it; with ``rev`` at that revision. Raises ``StaleRevision`` if the ledger no
        longer has that one.
        """
        name = await self.resolve(path)
        if rev is None:
            return await run_sync(self.ledger.get, name)
        return await run_sync(lambda: earlier(self.ledger.get(name), self.ledger.entries(path=name), rev))

    async def change_log(self, path: str) -> ChangeLog:
        """The changes of a file."""
        state = await self.state(path)
        name = await self.resolve(path)
        changes = await run_sync(lambda: change_log(self.ledger.entries(path=name), self.ledger.get(name)))
        return ChangeLog(file=state, changes=tuple(changes))

    # -- what clients see ---------------------------------------------------------------------------

    async def state(self, path: str, rev: int | None = None) -> FileState:
        """A file for an editor, updated from the disk; with ``rev`` as it was at that revision; see ``get``. A
        file that is too large and not under review is not read.
        """
        if rev is not None:
            return await self.state_of(await self.get(path, rev))
        name, info = await self._stat(path)
        if await self._is_link_or_folder(name):
            return await self.state_of(await self.refresh(name))
        if info is not None and info.kind != "file":
            return await self._without_content(
                name, "directory" if info.kind == "directory" else "special", 0
            )
        review = await self.get(name)
        size = info.size if info else 0
        if size > LARGEST or (size > MAX_TEXT and review.rev == 0):
            return await self._without_content(name, "too_large", size)
        return await self.state_of(await self.refresh(name))

    async def state_of(self, review: FileReview) -> FileState:
        """A file as its review has it."""
        return await run_sync(_file_state, self.ledger, review)

    async def _without_content(self, name: str, kind: FileKind, size: int) -> FileState:
        state = await self.state_of(await self.get(name))
        return msgspec.structs.replace(state, kind=kind, size=size, content=None)

    async def stamps(self, paths: Sequence[str]) -> Stamps:
        """Stamps that change with files and folders on disk, for windows that poll: one request to the host, and nothing is read."""
        inside: list[str] = []
        for path in paths:
            with suppress(OutsideProject):
                if path:
                    check_name(self._workspace.root, path)
                inside.append(path)
        infos = await self._workspace.stats([below(self._workspace, path) for path in inside])
        found = dict(zip(inside, infos, strict=True))
        return Stamps(stamps=tuple(_stamp(found.get(path)) for path in paths))

    async def content(self, path: str, *, base: bool) -> bytes:
        """A file's bytes in its buffer, or in the ``base``: the disk as the ledger knows it. Raises ``NotAFile`` if there
        is no such file, and ``TooLarge``.
        """
        name = await self.resolve_file(path)
        if (await self.state(name)).kind == "too_large" and (await self.get(name)).rev == 0:
            raise TooLarge(f"{name} is too large to show and not under review.")
        review = await self.get(name)
        content = content_of(review.base if base else buffer(review))
        if content is None:
            raise NotAFile(f"{name} does not exist there.")
        size = await run_sync(_size, self.ledger, content) or 0
        if size > MAX_CONTENT_BYTES:
            raise TooLarge(f"{name} has {size} bytes; the limit is {MAX_CONTENT_BYTES}.")
        return await run_sync(self.ledger.blob, content.blob) if content.blob else content.data


def _stamp(info: FileInfo | None) -> str:
    return f"{info.kind} {info.mode:o} {info.size} {info.modified_ns}" if info else "none"


def _file_state(ledger: Ledger, review: FileReview) -> FileState:
    view, content = file_view(review), content_of(buffer(review))
    size = _size(ledger, content) or 0
    kind: FileKind
    if content is None:
        kind = "absent"
    elif not content.blob:
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
        base_size=_size(ledger, content_of(review.base)),
    )


def _size(ledger: Ledger, content: Content | None) -> int | None:
    if content is None:
        return None
    return ledger.blob_size(content.blob) if content.blob else len(content.data)
