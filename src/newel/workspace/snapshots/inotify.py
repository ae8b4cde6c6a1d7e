"""Reports which files were touched, by inotify, so that a scan need not visit all of them. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import select
import struct
import sys
import termios
from collections import defaultdict
from pathlib import Path
from typing import IO, Any, Final

_EVENT: Final = struct.Struct("iIII")
_SIZE: Final = struct.Struct("i")

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLYDIR = 0x01000000
_WATCHED: Final = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
)

_MOUNTS: Final = Path("/proc/self/mountinfo")
_MAX_USER_WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")

LOCAL_FILESYSTEMS: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems that only this kernel changes, with times accurate to a hundredth of a second."""

_BLOCK: Final = 1 << 16


class InotifyWatches:
    """Watches directories. A *change* is a name in a directory, of whatever kind.

    It sees changes by this machine's programs under the watched names. ``changes`` returns None if it may have missed some.
    """

    def __init__(self, descriptor: int, libc: Any, max_watches: int, mounts: IO[bytes]) -> None:
        self._descriptor = descriptor
        self._libc = libc
        self._max_watches = max_watches
        self._mounts = mounts
        self._mounts_changed = False
        self._poller = select.poll()
        self._poller.register(descriptor, select.POLLIN)
        self._poller.register(mounts, select.POLLPRI)  # reports mounts and unmounts since it was opened, once
        self._path_of: dict[int, str] = {}
        self._watch_of: dict[str, int] = {}

    @classmethod
    def open(cls, root: str) -> InotifyWatches | None:
        """None if inotify would not be reliable."""
        if sys.platform != "linux":
            return None
        with contextlib.suppress(OSError, AttributeError, ValueError):
            max_watches = int(_MAX_USER_WATCHES.read_text()) // 2  # leave some for the user's editor
            libc = ctypes.CDLL(None, use_errno=True)
            with contextlib.ExitStack() as on_failure:
                mounts = on_failure.enter_context(_MOUNTS.open("rb"))
                if not _is_local(root, mounts.read()):
                    return None
                descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
                if descriptor < 0:
                    return None
                on_failure.pop_all()
                return cls(descriptor, libc, max_watches, mounts)
        return None

    def add(self, path: str, descriptor: int) -> bool:
        """Watch an open directory under this name. False if the system's limit is reached."""
        if len(self._path_of) >= self._max_watches and path not in self._watch_of:
            return False
        name = b"/proc/self/fd/%d" % descriptor
        watch: int = self._libc.inotify_add_watch(self._descriptor, name, _WATCHED | _ONLYDIR)
        if watch < 0:
            return False
        before = self._watch_of.get(path)
        if before is not None and before != watch:
            self.remove(path)  # another directory has this name now
        # A directory that was moved here keeps its watch, under its new name.
        self._path_of[watch] = path
        self._watch_of[path] = watch
        return True

    def remove(self, path: str) -> None:
        watch = self._watch_of.pop(path, None)
        if watch is not None and self._path_of.get(watch) == path:
            del self._path_of[watch]
            self._libc.inotify_rm_watch(self._descriptor, watch)

    def changes(self) -> dict[str, set[str]] | None:
        """The names touched since the last call, by directory; None if everything must be scanned."""
        names: defaultdict[str, set[str]] = defaultdict(set)
        is_complete = True
        pending = self._pending_bytes()
        while pending > 0:  # not the events that arrive meanwhile: a busy writer would keep us here for ever
            block = os.read(self._descriptor, _BLOCK)
            pending -= len(block)
            at = 0
            while at < len(block):
                watch, mask, _, size = _EVENT.unpack_from(block, at)
                at += _EVENT.size
                name = block[at : at + size].rstrip(b"\0")
                at += size
                path = self._path_of.get(watch)
                if mask & _OVERFLOW or (
                    path == "" and mask & (_DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED)
                ):
                    is_complete = False
                elif path is not None and name:
                    names[path].add(os.fsdecode(name))
        self._poll()
        return names if is_complete and not self._mounts_changed else None

    def is_quiet(self) -> bool:
        """Whether ``changes`` would be empty."""
        return not self._poll() and not self._mounts_changed

    def _poll(self) -> bool:
        """Whether there are events. A change of mounts is remembered, as it is reported only once."""
        news = self._poller.poll(0)
        self._mounts_changed |= any(descriptor == self._mounts.fileno() for descriptor, _ in news)
        return bool(news)

    def _pending_bytes(self) -> int:
        """Bytes of unread events."""
        return _SIZE.unpack(fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(_SIZE.size)))[0]

    def close(self) -> None:
        os.close(self._descriptor)
        self._mounts.close()


def _is_local(root: str, mounts: bytes) -> bool:
    """Whether the root and everything mounted below it is on local file systems."""
    path, mount, kind = os.fsencode(root), b"", ""
    for line in mounts.split(b"\n")[:-1]:
        fields, _, rest = line.partition(b" - ")
        place = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), fields.split(b" ")[4])
        below = rest.split(b" ")[0].decode()
        if _is_within(place, path) and below not in LOCAL_FILESYSTEMS:
            return False
        # Of several mounts on one place the last is visible.
        if _is_within(path, place) and len(place) >= len(mount):
            mount, kind = place, below
    return kind in LOCAL_FILESYSTEMS


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")
