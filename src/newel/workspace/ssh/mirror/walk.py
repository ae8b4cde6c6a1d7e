"""The files of a project on a host, all in one answer, and in an empty one where nothing has changed since the last."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from newel.agent.errors import WorkspaceError
from newel.workspace.mirror.port import Exclusions, Signature
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell
from newel.workspace.ssh.snapshots.scripts import records

_LISTING: Final = 256 << 20
"""Bytes of a listing: more than a million names."""

_KEPT: Final = 32 << 20
"""Bytes of a listing that is kept to be compared with the next one."""

_WORDS: Final = 20_000
"""Bytes of paths that ``find`` is told to prune; the rest of the excluded paths is filtered here."""


class MirrorWalk:
    """Use ``files`` each time."""

    def __init__(self, shell: RootedShell) -> None:
        self._shell = shell
        self._listing = b""
        self._of = Exclusions()
        """What the listing leaves out."""

    def files(self, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        """The regular files and the links below the shell's root. Raises as the shell does."""
        if left_out != self._of:
            self._listing, self._of = b"", left_out
        known = hashlib.sha256(self._listing).hexdigest() if self._listing else ""
        names = [os.fsencode(name) for name in left_out.names]
        text = self._shell.scripts.listing_unless(known, names, [b".git", *_first(left_out)])
        listing = self._shell.ask_here(text, _LISTING) or self._listing
        self._listing = listing if len(listing) <= _KEPT else b""
        yield from self._read(listing, left_out)

    def _read(self, listing: bytes, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        is_whole = False
        out: dict[str, bool] = {"": False}
        """Whether a folder, or one above it, is left out."""
        for facts, raw in records(listing):
            is_whole = not raw
            if is_whole or facts == b"d":
                continue
            path = os.fsdecode(raw.removeprefix(b"./"))
            folder, _, name = path.rpartition("/")
            if _is_out(folder, left_out, out) or left_out.matches(path, name, is_folder=False):
                continue
            seen = self._shell.scripts.seen(facts)
            if stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
                yield path, Signature.of(seen)
        if not is_whole:
            raise WorkspaceError("The host's answer about the project's files is incomplete.")


def _first(left_out: Exclusions) -> list[bytes]:
    """The paths that are left out, as many as fit."""
    found: list[bytes] = []
    size = 0
    for path in sorted(map(os.fsencode, left_out.paths)):
        size += len(path)
        if size > _WORDS:
            break
        found.append(path)
    return found


def _is_out(folder: str, left_out: Exclusions, out: dict[str, bool]) -> bool:
    if (known := out.get(folder)) is None:
        above, _, name = folder.rpartition("/")
        known = _is_out(above, left_out, out) or left_out.matches(folder, name, is_folder=True)
        out[folder] = known
    return known
