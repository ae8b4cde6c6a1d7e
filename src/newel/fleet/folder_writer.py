"""Writes a snapshot's tree into a new folder, byte for byte.

The tree comes from an agent's folder: a name may lead out of it, and so may a link. Files are created before any link, and never in
place of something else, so that nothing is written through one.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Final

from newel.fleet.errors import SnapshotError
from newel.fleet.file_tree import FILE_BITS, FOLDER_BITS, FolderModes, FolderScan, KnownFile, ScanRules
from newel.fleet.pack import FILE, LINK, PROGRAM, PackWriter
from newel.fleet.snapshot_report import ReportBuilder
from newel.fleet.snapshot_repository import SnapshotRepository, TreeFile

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_folder(
    repository: SnapshotRepository, tree: str, modes: FolderModes, root: Path
) -> dict[bytes, KnownFile]:
    """Write a tree into the folder ``root``, which is new, and read it again to compare. Returns the files whose signatures can be trusted.
    Blocks. Raises ``SnapshotError``.
    """
    files = repository.files_in(tree)
    empty = [path.encode("latin-1") for path in modes.empty]
    for path in (*(file.path for file in files), *empty):
        _check_path(path)
    top = os.fsencode(root)
    try:
        folders = _make_folders(top, files, empty)
        _write_files(repository, top, files, modes)
        _set_modes(top, folders, modes)
    except OSError as error:
        raise SnapshotError(f"{root} cannot be written: {error.strerror} ({error.filename!r}).") from error
    return _compare(repository, tree, modes, root, files)


def _check_path(path: bytes) -> None:
    for part in path.split(b"/"):
        if part in {b"", b".", b".."} or part.lower() == b".git" or b"\0" in part:
            raise SnapshotError(
                f"The snapshot has a file at {path!r}, which is not a path inside a job's folder. It was changed by hand; nothing is restored."
            )


def _make_folders(top: bytes, files: list[TreeFile], empty: list[bytes]) -> list[bytes]:
    """All folders, each after the one that it is in."""
    needed = dict.fromkeys(file.path.rpartition(b"/")[0] for file in files)
    folders: dict[bytes, None] = {}
    for path in (*needed, *empty):
        parts = path.split(b"/") if path else []
        for end in range(1, len(parts) + 1):
            folders.setdefault(b"/".join(parts[:end]))
    for path in folders:
        os.mkdir(top + b"/" + path, 0o700)  # noqa: PTH102 — a path of any bytes
    return list(folders)


def _write_files(
    repository: SnapshotRepository, top: bytes, files: list[TreeFile], modes: FolderModes
) -> None:
    usual = {FILE: modes.file & FILE_BITS, PROGRAM: modes.program & FILE_BITS}
    plain = [file for file in files if file.mode in usual]
    links = [file for file in files if file.mode == LINK]
    if len(plain) + len(links) != len(files):
        raise SnapshotError(
            "The snapshot has an entry that is neither a file nor a link. Nothing is restored."
        )
    for file, (_, data) in zip(plain, repository.read_all(file.oid for file in plain), strict=True):
        descriptor = os.open(top + b"/" + file.path, _NEW, 0o600)
        try:
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, memoryview(data)[written:])
            mode = modes.others.get(file.path.decode("latin-1"), usual[file.mode])
            os.fchmod(descriptor, mode & FILE_BITS)
        finally:
            os.close(descriptor)
    for file, (_, target) in zip(links, repository.read_all(file.oid for file in links), strict=True):
        os.symlink(target, top + b"/" + file.path)  # noqa: PTH211 — as above


def _set_modes(top: bytes, folders: list[bytes], modes: FolderModes) -> None:
    for path in reversed(folders):
        mode = modes.others.get(path.decode("latin-1"), modes.folder)
        os.chmod(top + b"/" + path, mode & FOLDER_BITS)  # noqa: PTH101 — as above


def _compare(
    repository: SnapshotRepository, tree: str, modes: FolderModes, root: Path, files: list[TreeFile]
) -> dict[bytes, KnownFile]:
    writer = PackWriter(io.BytesIO(), repository.form, {bytes.fromhex(file.oid) for file in files})
    scan = FolderScan(writer, {}, ScanRules(), ReportBuilder())
    if scan.run(root).hex() != tree or scan.modes != modes:
        raise SnapshotError(
            f"The restored files in {root} differ from the snapshot. Is another program writing there?"
        )
    return scan.files
