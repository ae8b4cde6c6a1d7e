"""Mirror backend for a project on a host. The copy is in the home of the host's user and is made there, many files a request.

The host cannot notice that a process on this machine has ended, and portable locks do not exist. So a copy has a lease: a file
whose time is renewed as long as its process is alive and connected. A copy with a stale lease, by the clock of its file system,
is removed by the next process that makes one. A copy that was removed while its process slept is made again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import stat
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Self, TypeVar

import anyio

from newel.agent.errors import HostUnavailable, WorkspaceError
from newel.agent.messages import new_id
from newel.workspace.mirror.port import CopyResult, Exclusions, FileContent, Layout, Signature
from newel.workspace.snapshots.local_source import CLOCK_SLACK_NS
from newel.workspace.ssh import port
from newel.workspace.ssh.mirror.scripts import MirrorScripts
from newel.workspace.ssh.port import HostAnswer, RemoteHostPort, quote
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell, batches, records, sum_of
from newel.workspace.ssh.thread_bridge import ThreadBridge

T = TypeVar("T")
Attach = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]
"""Runs work in the background until the connection is closed."""

RENEW_INTERVAL_S: Final = 300.0
"""Between two renewals of a lease."""

STALE_NS: Final = 3_600 * 1_000_000_000
"""The age at which a lease is stale: far longer than a connection is interrupted."""

_POLL_INTERVAL_S: Final = 1.0
_RELEASE_TIMEOUT_S: Final = 8.0
"""How often to check whether a copy was released, and how long its removal may delay the end: longer than a cancelled request
takes to settle."""

_BUSY: Final = 60.0
_BUSY_PAUSE_S: Final = 0.1
"""Seconds to wait for an abandoned update to end, and between two checks."""

_COUNT: Final[tuple[Callable[[str], int], int]] = (lambda _: 1, 2000)
_SIZE: Final = 64 << 20
_SENT: Final = 4 << 20
"""Files, bytes to copy, and bytes to send in one request; other requests wait for it."""

_NO_ROOM: Final = {"No space left on device": errno.ENOSPC, "Disk quota exceeded": errno.EDQUOT}
"""The host's messages for a full disk, handled as the local errors."""

_FACTS: Final = 256
"""Upper bound of bytes for the facts of a file."""


_LISTING: Final = 256 << 20
"""Bytes of a listing: more than a million names."""

_KEPT: Final = 32 << 20
"""Bytes of a listing that is kept to be compared with the next one."""

_WORDS: Final = 20_000
"""Bytes of paths that ``find`` is told to prune; the rest of the excluded paths is filtered here."""


class SshMirrorBackend:
    """A ``MirrorBackend``. Use ``open``."""

    def __init__(
        self, host: RemoteHostPort, layout: Layout, bridge: ThreadBridge, shell: RootedShell, attach: Attach
    ) -> None:
        """``shell`` is rooted in the project, and belongs to ``bridge``."""
        self.layout = layout
        self._host = host
        self._bridge = bridge
        self._attach = attach
        self._shell = shell
        self._copy_shell = RootedShell(bridge, layout.root)
        self.run_git = partial(shell.run_git, changes=True)
        self._listing = b""
        """The last listing, to compare the next one with; it is for the exclusions below."""
        self._listing_exclusions = Exclusions()
        self._scripts = MirrorScripts(layout, shell.scripts.looks())
        self._clock = 0
        """The host's file system time at the start of an update, in nanoseconds."""
        self._unused = threading.Event()

    @classmethod
    async def open(cls, host: RemoteHostPort, project: str, home: str, attach: Attach) -> Self:
        """Create an empty copy of ``project`` in Newel's folder in ``home``, both absolute paths on the host. Raises ``WorkspaceError``."""
        bridge = ThreadBridge(host)

        def make() -> Self:
            shell = RootedShell(bridge, project)
            copies = os.fsdecode(_check_answer(shell.change(_folder(f"{home}/.newel/copies"))).data)
            name = posixpath.basename(project).lstrip(".") or "files"
            layout = Layout(project, shell.find_repository(project), f"{copies}/{name}-{new_id()[:8]}")
            disk = cls(host, layout, bridge, shell, attach)
            disk.acquire()
            disk.sweep()
            return disk

        try:
            return await bridge.run_in_thread(make)
        except HostUnavailable:
            raise
        except (OSError, WorkspaceError) as error:
            reason = f"{error.strerror}." if isinstance(error, OSError) else error
            raise WorkspaceError(
                f"Cannot create a copy of {project} in {home}/.newel/copies on the host: {reason} Approve each call instead "
                "(--approve ask)."
            ) from error

    async def keep(self, is_up: Callable[[], bool]) -> None:
        """Renew the lease until the copy is released; then, or when this is cancelled, remove the copy. ``is_up`` tells whether
        there is a connection, as nothing here may open one.
        """
        renewed = anyio.current_time()
        try:
            while not self._unused.is_set():
                await anyio.sleep(_POLL_INTERVAL_S)  # any thread may release it
                if is_up() and anyio.current_time() - renewed >= RENEW_INTERVAL_S:
                    renewed = anyio.current_time()
                    with contextlib.suppress(WorkspaceError):
                        await self._host.change(self._scripts.renew())
        finally:
            if is_up():
                with (
                    anyio.move_on_after(_RELEASE_TIMEOUT_S, shield=True),
                    contextlib.suppress(WorkspaceError),
                ):
                    await self._host.change(self._scripts.release())

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        return await self._bridge.run_in_thread(work)

    def run_in_background(self, work: Callable[[], None]) -> None:
        self._attach(partial(self._bridge.run_in_thread, work))

    def clear_copy(self) -> None:
        self._change(self._scripts.release())  # the next `acquire` creates it again

    def release(self) -> None:
        self._unused.set()

    def acquire(self) -> bool:
        until = time.monotonic() + _BUSY
        while (lines := [facts for facts, _ in records(self._change(self._scripts.acquire()))]) == [b"busy"]:
            if time.monotonic() > until:
                raise WorkspaceError(
                    f"An earlier update of {self.layout.root} is still running on the host after its connection was lost. Try again."
                )
            time.sleep(_BUSY_PAUSE_S)
        *rest, lease = [b"", *lines]  # an empty lease is malformed, and reported as such
        self._clock = self._shell.scripts.seen(lease).st_mtime_ns
        return b"made" not in rest

    def sweep(self) -> None:
        """Remove copies with stale leases."""
        seen = records(self._change(self._scripts.leases()))
        stale = [
            (posixpath.dirname(os.fsdecode(path)), facts.decode(errors="replace"))
            for facts, path in seen
            if self._shell.scripts.seen(facts).st_mtime_ns < self._clock - STALE_NS
        ]
        if stale:
            self._shell.change(self._scripts.sweep(stale))

    def walk(self, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        if left_out != self._listing_exclusions:
            self._listing, self._listing_exclusions = b"", left_out
        digest = hashlib.sha256(self._listing).hexdigest() if self._listing else ""
        names = [os.fsencode(name) for name in left_out.names]
        text = self._shell.scripts.listing_unless(digest, names, [b".git", *_first_paths(left_out)])
        listing = self._shell.ask_here(text, _LISTING) or self._listing
        self._listing = listing if len(listing) <= _KEPT else b""
        yield from self._parse_listing(listing, left_out)

    def _parse_listing(self, listing: bytes, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        is_whole = False
        excluded: dict[str, bool] = {"": False}
        """Whether a folder, or one above it, is excluded."""
        for facts, raw in records(listing):
            is_whole = not raw
            if is_whole or facts == b"d":
                continue
            path = os.fsdecode(raw.removeprefix(b"./"))
            folder, _, name = path.rpartition("/")
            if _is_excluded(folder, left_out, excluded) or left_out.matches(path, name, is_folder=False):
                continue
            seen = self._shell.scripts.seen(facts)
            if stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
                yield path, Signature.of(seen)
        if not is_whole:
            raise WorkspaceError("The host's answer about the project's files is incomplete.")

    def copy(self, files: Mapping[str, Signature]) -> Iterator[tuple[str, CopyResult]]:
        for batch in batches(
            sorted(files, key=posixpath.split), _COUNT, (lambda path: files[path].size, _SIZE)
        ):
            answer = self._change(self._scripts.copy(batch))
            shut = {path for facts, path in records(answer) if facts == b"shut"}
            now = self._signatures(batch)
            for path in batch:
                if os.fsencode(path) in shut:
                    yield path, CopyResult.UNREADABLE
                    continue
                is_sure = now.get(path) == files[path] and files[path].changed < self._clock - CLOCK_SLACK_NS
                yield path, CopyResult.COPIED if is_sure else CopyResult.UNCERTAIN

    def remove(self, paths: Iterable[str]) -> None:
        for batch in batches(paths, _COUNT):
            self._change(self._scripts.remove(batch))

    def write(self, contents: Mapping[str, FileContent]) -> None:
        paths = sorted(contents, key=posixpath.split)
        for batch in batches(paths, _COUNT, (lambda path: len(contents[path].data), _SENT)):
            self._change(self._scripts.clear(batch))
            alike = self._find_unchanged(batch, contents)
            others = {path: contents[path] for path in batch if path not in alike}
            if others:
                self._write(
                    self._scripts.contents_file, b"".join(content.data for content in others.values())
                )
                self._change(self._scripts.write(others))

    def read_file(self, path: str, /) -> bytes | None:
        text = 'p={path}; [ -f "$p" ] && [ "$(readlink -f -- "$p")" = "$p" ] && cat -- "$p"'
        answer = self._shell.ask(f"({text.format(path=quote(path))})")
        return answer.data if answer.status == 0 else None

    def write_file(self, path: str, data: bytes, /) -> None:
        self._change(f"mkdir -p -- {quote(posixpath.dirname(path))} 2>&1")
        self._write(path, data)

    def _write(self, path: str, data: bytes) -> None:
        _check_answer(self._shell.change_in("/", f"cat 2>&1 >{quote(path)}", data))

    def _change(self, text: str) -> bytes:
        return _check_answer(self._shell.change(text)).data

    def _signatures(self, paths: list[str]) -> dict[str, Signature]:
        """The current signatures of project files."""
        scripts = self._shell.scripts
        raw = [os.fsencode(path) for path in paths]
        answer = self._shell.ask_of(raw, f"{scripts.looks()}; :", sum(len(path) + _FACTS for path in raw))
        return {os.fsdecode(path): Signature.of(scripts.seen(facts)) for facts, path in records(answer)}

    def _find_unchanged(self, paths: list[str], contents: Mapping[str, FileContent]) -> set[str]:
        """The files of the copy that already have these contents."""
        scripts = self._copy_shell.scripts
        raw = [os.fsencode(path) for path in paths]
        text = f"{scripts.looks()}; {scripts.sums()}; :"
        modes: dict[str, int] = {}
        sums: dict[str, str] = {}
        for facts, name in records(
            self._copy_shell.ask_of(raw, text, sum(2 * len(path) + 2 * _FACTS for path in raw))
        ):
            path = os.fsdecode(name)
            if (sum_ := sum_of(facts, name)) is not None:
                sums[path] = sum_
            else:
                modes[path] = scripts.seen(facts).st_mode
        return {
            path
            for path, (data, mode) in ((path, contents[path]) for path in paths)
            if modes.get(path) == stat.S_IFREG | mode and sums.get(path) == hashlib.sha256(data).hexdigest()
        }


def _folder(path: str) -> str:
    """Create a folder that only this user can enter, and print its physical path."""
    word = quote(path)
    return f'(umask 077; mkdir -p -- {word}) 2>&1 && cd -P -- {word} 2>&1 && [ -w . ] && printf %s "$PWD"'


def _check_answer(answer: HostAnswer) -> HostAnswer:
    if answer.status != 0:
        reason = port.reason(answer)
        if number := _NO_ROOM.get(reason):
            raise OSError(number, reason)
        raise WorkspaceError(f"{reason}.")
    return answer


def _first_paths(left_out: Exclusions) -> list[bytes]:
    """The paths that are excluded, as many as fit."""
    paths: list[bytes] = []
    size = 0
    for path in sorted(map(os.fsencode, left_out.paths)):
        size += len(path)
        if size > _WORDS:
            break
        paths.append(path)
    return paths


def _is_excluded(folder: str, left_out: Exclusions, excluded: dict[str, bool]) -> bool:
    if (is_excluded := excluded.get(folder)) is None:
        above, _, name = folder.rpartition("/")
        is_excluded = _is_excluded(above, left_out, excluded) or left_out.matches(
            folder, name, is_folder=True
        )
        excluded[folder] = is_excluded
    return is_excluded
