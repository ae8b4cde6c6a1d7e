"""Snapshot source for a project on a host.

One request lists all files; the answer is empty if the listing's hash has not changed. Contents are hashed on the host, and
only those that the store lacks are transferred, many in one answer. Nothing is written there.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Final, TypeVar

from newel.agent.errors import WorkspaceError
from newel.workspace.snapshots.ignore_rules import IgnoreRules
from newel.workspace.snapshots.port import BlobStore, Entries, Reading, Touched
from newel.workspace.ssh.port import RemoteHostPort
from newel.workspace.ssh.shell import AnswerTooLong
from newel.workspace.ssh.snapshots.contents import Contents
from newel.workspace.ssh.snapshots.rooted_shell import HostGit, RootedShell
from newel.workspace.ssh.snapshots.scripts import PRUNED, SHUT, AnswerTooLarge, is_folder, records
from newel.workspace.ssh.thread_bridge import ThreadBridge

T = TypeVar("T")

MAX_LISTING_BYTES: Final = 256 << 20
"""More than a million names."""


class SshSnapshotSource:
    """A ``SnapshotSource``: what is below ``root``, an absolute path on a host without links in it. ``blobs`` is where contents go;
    ``listing`` is how many bytes a listing may have.
    """

    def __init__(
        self,
        host: RemoteHostPort,
        root: str,
        blobs: BlobStore,
        *,
        excluded: Iterable[str] = (),
        listing: int = MAX_LISTING_BYTES,
    ) -> None:
        self.root = root
        self._max_listing = listing
        # Paths of this machine. They apply to the host, too: it may be this machine, or have its own Newel at the same place.
        self.excluded: Collection[str] = frozenset(posixpath.relpath(path, root) for path in excluded)
        self._asking = ThreadBridge(host)
        self._shell = RootedShell(self._asking, root)
        git = HostGit(self._shell)
        self.rules = IgnoreRules(root, git.ask, git.find_repository)
        self._contents = Contents(self._shell, blobs)
        self._listing_hash = ""
        """The hash of the last complete listing."""
        self._listed: dict[bytes, list[tuple[bytes, bytes]]] = {}
        """Listed entries that were not requested yet, by directory: names with facts."""
        self._unreadable: dict[bytes, int] = {}
        """Directories that could not be listed, with their ``errno``."""
        self._pruned = set(PRUNED)
        """Names of directories whose contents are not listed, as they were not requested yet."""

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        return await self._asking.run_in_thread(work)

    def cancel(self) -> None:
        self._asking.cancel()

    # -- directories --------------------------------------------------------------------------------

    def touched(self, _linked: Iterable[str], /, *, everywhere: bool) -> Touched | None:
        """Linked files need no special care: a file's times change whatever name it is written under."""
        self.finish()  # a failed scan may have left half of a listing
        if everywhere or not self._listing_hash:
            return None
        return None if self._list_all(self._listing_hash) else {}

    def start(self) -> None:
        """Nothing to prepare: data is fetched on request."""

    def prefetch(self, paths: Iterable[str]) -> None:
        missing = [path for path in map(os.fsencode, paths) if path not in self._listed]
        if missing == [b""]:
            self._list_all("")
        elif missing:
            # From now on their contents are compared, too.
            self._pruned.difference_update(path.rpartition(b"/")[2] for path in missing)
            text = self._shell.scripts.listing(self._pruned)
            with self._map_errors():
                listing = self._shell.ask_of((path or b"." for path in missing), text, self._max_listing)
            self._list(missing, listing)

    def entries(self, path: str, names: Collection[str] | None) -> Entries:
        folder = os.fsencode(path)
        self.prefetch([path])
        listed = self._listed.pop(folder)
        if number := self._unreadable.pop(folder, 0):
            raise OSError(number, os.strerror(number), path)
        for raw, facts in listed:
            name = os.fsdecode(raw)
            if names is None or name in names:
                yield name, self._shell.scripts.seen(facts)

    def unwatch(self, path: str) -> None:
        """Nothing is watched."""

    def finish(self) -> None:
        self._listed.clear()
        self._unreadable.clear()

    def _list_all(self, known: str) -> bool:
        """List everything below the root; False if the listing has the known hash."""
        with self._map_errors():
            text = self._shell.scripts.listing_unless(known, self._pruned)
            listing = self._shell.ask_here(text, self._max_listing)
        if listing:
            self._list([b""], listing)
            self._listing_hash = hashlib.sha256(listing).hexdigest()
        return bool(listing)

    @contextlib.contextmanager
    def _map_errors(self) -> Generator[None]:
        try:
            yield
        except (AnswerTooLarge, AnswerTooLong) as error:
            raise WorkspaceError(
                f"There are too many files below {self.root} to record changes: their list is larger than "
                f"{self._max_listing >> 20} MiB. Work in a subfolder instead."
            ) from error

    def _list(self, folders: Iterable[bytes], listing: bytes) -> None:
        listed = self._listed
        for folder in folders:
            listed[folder] = []
        is_whole, failed = False, False
        for facts, path in records(listing):
            is_whole = not path
            if is_whole:
                failed |= facts != b"? 0"
                continue
            path = path.removeprefix(b"./")  # noqa: PLW2901 — as a listing of the root has it
            folder, _, name = path.rpartition(b"/")
            listed.setdefault(folder, []).append((name, facts))
            if is_folder(facts) and name not in self._pruned:
                listed.setdefault(path, [])
        if not is_whole:
            raise WorkspaceError(f"The host's answer about the files in {self.root} is incomplete.")
        if failed:
            self._find_shut()

    def _find_shut(self) -> None:
        """Whoever cannot look into a directory must not say that it is empty."""
        most = sum(len(folder) + 16 for folder in self._listed)
        answer = self._shell.ask_of((folder or b"." for folder in self._listed), SHUT, most)
        for facts, path in records(answer):
            self._unreadable[b"" if path == b"." else path] = (
                errno.EACCES if facts == b"shut" else errno.ENOENT
            )

    # -- the rest -----------------------------------------------------------------------------------

    def read(self, wanted: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        return self._contents.read(wanted, limit)

    def is_quiet(self) -> bool:
        """Nobody can tell without asking."""
        return False

    def umask(self) -> int:
        return self._shell.scripts.capabilities.umask

    def clock_offset_ns(self) -> int:
        return self._shell.clock_offset_ns()

    def close(self) -> None:
        """Nothing is watched."""
