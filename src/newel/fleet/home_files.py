"""A job's own Newel home in a snapshot: conversations, the review ledger, logs. Keys and settings belong to the machine, and stay.

A ledger and a session are named by the folder of their project. In a snapshot that name is neutral, and at the new place it is the one
of the new folder, so that the job can still be undone. Large files are stored in pieces: of a ledger that grew only the new pages travel.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from newel.fleet.errors import SnapshotError
from newel.fleet.pack import FILE, TREE, GitTreeEntry, PackWriter
from newel.fleet.snapshot_repository import SnapshotRepository
from newel.storage.files import PRIVATE_FILE, make_private, open_regular, project_folder
from newel.storage.sqlite import connect
from newel.text.json import decode_json

PARTS: Final = ("sessions", "review", "logs", "traces")
"""The folders of a home that travel."""

_PIECE: Final = 256 << 10
"""Bytes. A multiple of a database's page."""

_PIECES: Final = b":"
"""Ends the name of a folder with a file's pieces. No file of a home has such a name."""

_LOCAL: Final = (".lock", ".index", ".tmp", "-wal", "-shm", "-journal")
"""Locks, helpers of a database, and records of this machine's inodes, which the next one makes again."""

_DATABASE: Final = ".db"
_OWN: Final = "--:work"
_SESSION: Final = ".jsonl"


def capture_home(writer: PackWriter, home: Path, root: str, *, scratch: Path) -> bytes:
    """The tree of a home. ``root`` is the absolute path of the job's work folder; ``scratch`` a folder for copies. Blocks. Raises
    ``SnapshotError``.
    """
    capture = _HomeCapture(writer, root, scratch)
    entries: list[GitTreeEntry] = []
    for part in PARTS:
        tree = capture.folder(home / part, is_part=True)
        if tree is not None:
            entries.append(GitTreeEntry(part.encode(), TREE, tree))
    return writer.tree(entries)


class _HomeCapture:
    def __init__(self, writer: PackWriter, root: str, scratch: Path) -> None:
        self._writer = writer
        self._root = root
        self._scratch = scratch

    def folder(self, folder: Path, *, is_part: bool = False) -> bytes | None:
        """The tree of a folder; None if there is nothing in it. ``is_part``: the folders in it have the names of projects."""
        entries: list[GitTreeEntry] = []
        if folder.is_symlink():
            return None
        try:
            listed = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return None
        for entry in listed:
            name = os.fsencode(neutral_name(entry.name, self._root) if is_part else entry.name)
            place = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                tree = self.folder(place)
                if tree is not None:
                    entries.append(GitTreeEntry(name, TREE, tree))
            elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(_LOCAL):
                with contextlib.suppress(FileNotFoundError):
                    entries.append(self._file(place, name))
        return self._writer.tree(entries) if entries else None

    def _file(self, path: Path, name: bytes) -> GitTreeEntry:
        try:
            if path.name.endswith(_DATABASE):
                with self._copy_of_database(path) as file:
                    return self._pieces(file, name)
            with open_regular(path) as file:
                return self._pieces(file, name)
        except FileNotFoundError:
            raise
        except (OSError, sqlite3.Error) as error:
            raise SnapshotError(f"{path}, a part of the job's record, cannot be read: {error}.") from error

    @contextlib.contextmanager
    def _copy_of_database(self, path: Path) -> Generator[IO[bytes]]:
        """A consistent copy of a database that may be in use. Its pages stay where they are, so that most pieces do, too."""
        copy = self._scratch / "copy"
        with (
            contextlib.closing(connect(path, read_only=True)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        with copy.open("rb") as file:
            yield file
        copy.unlink()

    def _pieces(self, file: IO[bytes], name: bytes) -> GitTreeEntry:
        first = file.read(_PIECE)
        if len(first) < _PIECE:
            return GitTreeEntry(name, FILE, self._writer.add("blob", first))
        pieces = [GitTreeEntry(b"%08x" % 0, FILE, self._writer.add("blob", first))]
        while piece := file.read(_PIECE):
            pieces.append(GitTreeEntry(b"%08x" % len(pieces), FILE, self._writer.add("blob", piece)))
        return GitTreeEntry(name + _PIECES, TREE, self._writer.tree(pieces))


def restore_home(
    repository: SnapshotRepository, tree: str, home: Path, *, root: str, earlier_root: str
) -> None:
    """Write a home from the tree of a snapshot, for a work folder that is in ``root`` now and was in ``earlier_root``. Blocks.
    Raises ``SnapshotError``.
    """
    make_private(home)
    files = repository.files_in(tree)
    for file, (_, data) in zip(files, repository.read_all(file.oid for file in files), strict=True):
        parts = [os.fsdecode(part) for part in file.path.split(b"/")]
        is_first = True
        if len(parts) > 1 and parts[-2].endswith(_PIECES.decode()):
            is_first = not int(parts.pop(), 16)
            parts[-1] = parts[-1].removesuffix(_PIECES.decode())
        if parts[0] not in PARTS or not {"", ".", ".."}.isdisjoint(parts):
            raise SnapshotError(
                f"The snapshot has a file that does not belong to a job's record: {os.fsdecode(file.path)[:200]!r}. It was changed by hand; "
                "nothing is restored."
            )
        if len(parts) > 1:
            parts[1] = placed_name(parts[1], root)
        if is_first and parts[0] == "sessions" and parts[-1].endswith(_SESSION):
            data = _moved_session(data, root, earlier_root)  # noqa: PLW2901 — the same content at another place
        _append(home.joinpath(*parts), data, is_new=is_first)


def _append(path: Path, data: bytes, *, is_new: bool) -> None:
    make_private(path.parent)
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if is_new else 0)
    )
    with os.fdopen(os.open(path, flags, PRIVATE_FILE), "wb") as file:
        file.write(data)


def neutral_name(name: str, root: str) -> str:
    """The name in a snapshot of the folder of a project in a home: that of the work folder, or of one in it, does not depend on its
    place.
    """
    own = project_folder(Path(), root).name.removesuffix("--")
    if name == f"{own}--" or name.startswith(f"{own}-"):
        return _OWN + name.removeprefix(own)
    return name


def placed_name(name: str, root: str) -> str:
    """The reverse of ``neutral_name``, for a work folder in ``root``."""
    if not name.startswith(_OWN):
        return name
    inside = name.removeprefix(_OWN).removesuffix("--")
    return project_folder(Path(), root + inside).name


def _moved_session(data: bytes, root: str, earlier_root: str) -> bytes:
    """A session whose first line names the folder at its new place."""
    first, newline, rest = data.partition(b"\n")
    with contextlib.suppress(msgspec.MsgspecError):
        line: dict[str, Any] = decode_json(first, dict[str, Any])
        cwd = line.get("cwd")
        if isinstance(cwd, str) and (cwd == earlier_root or cwd.startswith(f"{earlier_root}/")):
            line["cwd"] = root + cwd.removeprefix(earlier_root)
            return msgspec.json.encode(line) + newline + rest
    return data
