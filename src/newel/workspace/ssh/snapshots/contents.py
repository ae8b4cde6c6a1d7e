"""Transfers the contents of a host's files, many in one answer."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from newel.agent.errors import NewelError, WorkspaceError
from newel.workspace.snapshots.local_source import CLOCK_SLACK_NS
from newel.workspace.snapshots.port import BlobStore, Reading
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell
from newel.workspace.ssh.snapshots.scripts import HostFileStat, records, sum_of, time_of

_BATCH: Final = 4 << 20
_FILES: Final = 512
_NAMES: Final = 24_000
"""Limits of one request: bytes of contents, files, and bytes of names, which ``xargs`` must pass to one process."""

_FACTS: Final = 256
"""Upper bound of bytes for the facts of a file and its sum."""

_LINK: Final = 4096
"""Upper bound of bytes for a link's target."""

_TRIES: Final = 3


class _FoundFile(NamedTuple):
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

    def read(self, wanted: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        """See ``SnapshotSource``."""
        for batch in _batches(wanted):
            for path, result in self._read(batch, limit):
                yield os.fsdecode(path), result

    def _read(self, batch: list[bytes], limit: int) -> Iterator[tuple[bytes, Reading | OSError]]:
        waiting: list[bytes] = batch
        for _ in range(_TRIES):
            found = self._look(waiting)
            links = [
                path for path in waiting if path in found.seen and stat.S_ISLNK(found.seen[path].st_mode)
            ]
            for path, target in self._targets(links):
                seen = found.seen[path]
                yield path, Reading(target, seen, fresh=seen.st_ctime_ns > found.aged)
            waiting = [path for path in waiting if path not in links]
            wanted: dict[bytes, HostFileStat] = {}
            for path in waiting:
                result = self._without_bringing(path, found, limit)
                if result is None:
                    wanted[path] = found.seen[path]
                else:
                    yield path, result
            waiting = []
            for group in _groups(wanted):
                contents = self._bring(group)
                for path, seen in group.items():
                    data = contents.get(path)
                    if data is None or found.sums.get(path) not in {None, hashlib.sha256(data).hexdigest()}:
                        waiting.append(path)  # this file or another was written in the meantime
                    else:
                        yield path, Reading(data, seen, fresh=seen.st_ctime_ns > found.aged)
            if not waiting:
                return
        if len(batch) > 1:
            for path in waiting:
                yield from self._read([path], limit)
        else:
            yield batch[0], self._torn(batch[0], limit)

    def _look(self, paths: list[bytes]) -> _FoundFile:
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
        return _FoundFile(aged, seen, shut, sums)

    def _targets(self, links: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """The targets of links; None for one that was replaced, which the next scan finds out."""
        most = _FACTS + sum(len(path) + _LINK for path in links)
        answer = self._shell.ask_of(links, self._shell.scripts.targets(), most) if links else b""
        pieces = answer.split(b"\0")
        told = {
            path.removeprefix(b".//"): target
            for target, path in zip(pieces[0::2], pieces[1::2], strict=False)
        }
        return ((path, told.get(path)) for path in links)

    def _without_bringing(self, path: bytes, found: _FoundFile, limit: int) -> Reading | OSError | None:
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

    def _bring(self, files: dict[bytes, HostFileStat]) -> dict[bytes, bytes]:
        """The contents of the files that did not change meanwhile; empty if they cannot be told apart."""
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

    def _torn(self, path: bytes, limit: int) -> Reading | OSError:
        """Read a file that keeps changing."""
        seen = self._look([path]).seen.get(path)
        if seen is None or not stat.S_ISREG(seen.st_mode):
            return _error(errno.ENOENT, path)
        data = self._shell.ask_of([path], f'head -c {limit + 1} "$@" 2>/dev/null', limit + 1)
        return Reading(data if len(data) <= limit else None, seen, fresh=True)


def _error(number: int, path: bytes) -> OSError:
    return OSError(number, os.strerror(number), os.fsdecode(path))


def _batches(wanted: Iterable[tuple[str, int]]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    names = size = 0
    for name, expected in wanted:
        path = os.fsencode(name)
        if batch and (len(batch) == _FILES or names + len(path) > _NAMES or size + expected > _BATCH):
            yield batch
            batch, names, size = [], 0, 0
        batch.append(path)
        names += len(path) + 4
        size += expected
    if batch:
        yield batch


def _groups(files: dict[bytes, HostFileStat]) -> Iterator[dict[bytes, HostFileStat]]:
    """Split files by the size of one answer: actual sizes may differ from the expected ones."""
    group: dict[bytes, HostFileStat] = {}
    size = 0
    for path, seen in files.items():
        if group and size + seen.st_size > _BATCH:
            yield group
            group, size = {}, 0
        group[path] = seen
        size += seen.st_size
    if group:
        yield group
