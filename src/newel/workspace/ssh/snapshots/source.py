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
import stat
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from newel.agent.errors import NewelError, WorkspaceError
from newel.workspace.snapshots.ignore_rules import IgnoreRules
from newel.workspace.snapshots.local_source import CLOCK_SLACK_NS
from newel.workspace.snapshots.port import BlobStore, Digest, Entries, Reading, Touched
from newel.workspace.snapshots.uncovered import UncoveredChanges, find_uncovered
from newel.workspace.ssh.port import AnswerTooLong, RemoteHostPort
from newel.workspace.ssh.snapshots.host_entries import HostEntries
from newel.workspace.ssh.snapshots.rooted_shell import (
    PRUNED,
    SHUT,
    HostFileStat,
    RootedShell,
    batches,
    is_folder,
    records,
    sum_of,
    time_of,
)
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
        self._bridge = ThreadBridge(host)
        self._shell = RootedShell(self._bridge, root)
        self.rules = IgnoreRules(root, self._shell.run_git, self._shell.find_repository)
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
        return await self._bridge.run_in_thread(work)

    def cancel(self) -> None:
        self._bridge.cancel()

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
        except AnswerTooLong as error:
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

    def read(self, paths: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        return self._contents.read(paths, limit)

    def digest(self, path: str, /) -> Digest | None:
        return self._contents.digest(os.fsencode(path))

    def is_quiet(self) -> bool:
        """Nobody can tell without bridge."""
        return False

    def changed_at(self, _path: str, /) -> int:
        """Unknown: rules of a host outside the project's tree count as old."""
        return 0

    def uncovered(self, paths: Iterable[str], since_ns: int, until_ns: int, /) -> UncoveredChanges:
        wanted = list(paths)
        return find_uncovered(HostEntries(self._shell, wanted, since_ns, until_ns), wanted)

    def umask(self) -> int:
        return self._shell.scripts.capabilities.umask

    def clock_offset_ns(self) -> int:
        return self._shell.clock_offset_ns()

    def close(self) -> None:
        """Nothing is watched."""


# -- contents ---------------------------------------------------------------------------------------------

_BATCH: Final = 4 << 20
_FILES: Final = 512
_NAMES: Final = 24_000
"""Limits of one request: bytes of contents, files, and bytes of names, which ``xargs`` must pass to one process."""

_FACTS: Final = 256
"""Upper bound of bytes for the facts of a file and its sum."""

_LINK: Final = 4096
"""Upper bound of bytes for a link's target."""

_TRIES: Final = 3


class _QueriedFiles(NamedTuple):
    """``aged``: a later write may not show in the times (nanoseconds). ``shut`` are unreadable."""

    aged: int
    seen: dict[bytes, HostFileStat]
    shut: set[bytes]
    sums: dict[bytes, str]


class Contents:
    """Reads files. Contents that ``blobs`` has are not transferred again."""

    def __init__(self, shell: RootedShell, blobs: BlobStore) -> None:
        self._shell = shell
        self._blobs = blobs

    def read(self, paths: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        """See ``SnapshotSource``."""
        files = ((os.fsencode(path), size) for path, size in paths)
        for batch in batches(
            files,
            (lambda _: 1, _FILES),
            (lambda file: len(file[0]) + 4, _NAMES),
            (lambda file: file[1], _BATCH),
        ):
            for path, result in self._read([path for path, _ in batch], limit):
                yield os.fsdecode(path), result

    def digest(self, path: bytes) -> Digest | None:
        """See ``SnapshotSource``: the host has it computed."""
        found = self._query([path])
        seen, sum_ = found.seen.get(path), found.sums.get(path)
        if seen is None or sum_ is None or not stat.S_ISREG(seen.st_mode):
            return None
        return Digest(bytes.fromhex(sum_), seen, fresh=seen.st_ctime_ns > found.aged)

    def _read(self, batch: list[bytes], limit: int) -> Iterator[tuple[bytes, Reading | OSError]]:
        waiting: list[bytes] = batch
        for _ in range(_TRIES):
            stats = self._query(waiting)
            links = [
                path for path in waiting if path in stats.seen and stat.S_ISLNK(stats.seen[path].st_mode)
            ]
            for path, target in self._targets(links):
                seen = stats.seen[path]
                yield path, Reading(target, seen, fresh=seen.st_ctime_ns > stats.aged)
            waiting = [path for path in waiting if path not in links]
            to_read: dict[bytes, HostFileStat] = {}
            for path in waiting:
                result = self._read_without_transfer(path, stats, limit)
                if result is None:
                    to_read[path] = stats.seen[path]
                else:
                    yield path, result
            waiting = []
            # By the sizes of one answer: they may differ from the expected ones.
            for group in batches(to_read.items(), (lambda file: file[1].st_size, _BATCH)):
                contents = self._transfer(dict(group))
                for path, seen in group:
                    data = contents.get(path)
                    if data is None or stats.sums.get(path) not in {None, hashlib.sha256(data).hexdigest()}:
                        waiting.append(path)  # this file or another was written in the meantime
                    else:
                        yield path, Reading(data, seen, fresh=seen.st_ctime_ns > stats.aged)
            if not waiting:
                return
        if len(batch) > 1:
            for path in waiting:
                yield from self._read([path], limit)
        else:
            yield batch[0], self._read_changing(batch[0], limit)

    def _query(self, paths: list[bytes]) -> _QueriedFiles:
        scripts = self._shell.scripts
        aged = 0
        seen: dict[bytes, HostFileStat] = {}
        shut: set[bytes] = set()
        sums: dict[bytes, str] = {}
        most = _FACTS + sum(2 * len(path) + _FACTS for path in paths)
        for facts, path in records(self._shell.ask_of(paths, scripts.facts(), most)):
            if (now := time_of(facts)) is not None:
                aged = now - CLOCK_SLACK_NS
            elif (sum_ := sum_of(facts, path)) is not None:
                if sum_:
                    sums[path] = sum_
            elif facts == b"!":
                shut.add(path)
            else:
                seen[path] = scripts.seen(facts)
        return _QueriedFiles(aged, seen, shut, sums)

    def _targets(self, links: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """The targets of links; None for one that was replaced, which the next scan finds out."""
        most = _FACTS + sum(len(path) + _LINK for path in links)
        answer = self._shell.ask_of(links, self._shell.scripts.targets(), most) if links else b""
        pieces = answer.split(b"\0")
        targets = {
            path.removeprefix(b".//"): target
            for target, path in zip(pieces[0::2], pieces[1::2], strict=False)
        }
        return ((path, targets.get(path)) for path in links)

    def _read_without_transfer(
        self, path: bytes, found: _QueriedFiles, limit: int
    ) -> Reading | OSError | None:
        """The result for a file without a transfer; None if its content is needed."""
        seen = found.seen.get(path)
        if path in found.shut and (seen is None or stat.S_ISREG(seen.st_mode)):
            return _error(errno.EACCES, path)
        if seen is None:
            return _error(errno.ENOENT, path)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > limit:
            return Reading(None, seen, fresh=False)
        if path in found.sums:
            try:
                data = self._blobs.blob(found.sums[path])
            except NewelError:
                return None
            return Reading(data, seen, fresh=seen.st_ctime_ns > found.aged)
        return None

    def _transfer(self, files: dict[bytes, HostFileStat]) -> dict[bytes, bytes]:
        """The contents of the files that did not change meanwhile; empty if where each begins is unknown."""
        total = sum(seen.st_size for seen in files.values())
        most = total + sum(len(path) + _FACTS for path in files)
        scripts = self._shell.scripts
        data = self._shell.ask_of(files, scripts.contents(total), most)
        if data[total : total + 1] != b"\n":
            return {}
        try:
            now = {path: scripts.seen(facts) for facts, path in records(data[total + 1 :])}
        except WorkspaceError:
            return {}
        contents: dict[bytes, bytes] = {}
        at = 0
        for path, seen in files.items():
            if now.get(path) == seen:
                contents[path] = data[at : at + seen.st_size]
            at += seen.st_size
        return contents

    def _read_changing(self, path: bytes, limit: int) -> Reading | OSError:
        """Read a file that keeps changing."""
        seen = self._query([path]).seen.get(path)
        if seen is None or not stat.S_ISREG(seen.st_mode):
            return _error(errno.ENOENT, path)
        data = self._shell.ask_of([path], f'head -c {limit + 1} "$@" 2>/dev/null', limit + 1)
        return Reading(data if len(data) <= limit else None, seen, fresh=True)


def _error(number: int, path: bytes) -> OSError:
    return OSError(number, os.strerror(number), os.fsdecode(path))
