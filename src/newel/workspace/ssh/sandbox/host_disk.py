"""The files of a host, as far as the policy of a sandbox has to know them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from newel.agent.errors import WorkspaceError
from newel.workspace.sandbox.sandbox_disk import literal
from newel.workspace.ssh.port import HostAnswer, quote

PATTERNS_PER_REQUEST: Final = 100
"""Patterns in one request."""

_PIECES: Final = re.compile(r"\[(.)\]|([*?])|(.)", re.DOTALL)


class HostBridge(Protocol):
    """Asks a host from a thread, as ``newel.workspace.ssh.thread_bridge.ThreadBridge`` does."""

    def ask(self, text: str, stdin: bytes = b"") -> HostAnswer: ...


class _DiskEntry(NamedTuple):
    kind: str
    """``d``, ``f`` or ``o``, of what a link leads to; empty if nothing is there."""
    real: str


class HostDisk:
    """Implements ``newel.workspace.sandbox.sandbox_disk.SandboxDisk``, for use in one thread. What was found once is not asked for
    again.
    """

    def __init__(self, host: HostBridge) -> None:
        self._host = host
        self._known: dict[str, _DiskEntry] = {}

    def match(self, patterns: Iterable[str]) -> list[str]:
        found: list[str] = []
        words = [word for pattern in patterns for word in _words(pattern)]
        while words:
            some, words = words[:PATTERNS_PER_REQUEST], words[PATTERNS_PER_REQUEST:]
            answer = self._host.ask(f"newel_places {' '.join(some)}")
            fields = [os.fsdecode(field) for field in answer.data.split(b"\0")[:-1]]
            if answer.status != 0 or len(fields) % 3:
                raise WorkspaceError(
                    "The host did not say which files exist. Check that its sh is a POSIX shell."
                )
            for kind, path, real in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
                self._known[path] = _DiskEntry(kind, real or path)
                found.append(path)
        return list(dict.fromkeys(found))

    def exists(self, path: str) -> bool:
        return self._look(path).kind != ""

    def is_folder(self, path: str) -> bool:
        return self._look(path).kind == "d"

    def is_file(self, path: str) -> bool:
        return self._look(path).kind == "f"

    def real(self, path: str) -> str:
        return self._look(path).real

    def read(self, path: str, size: int) -> bytes:
        return self._host.ask(f"newel_read {quote(path)} 1 {size}").data if self.is_file(path) else b""

    def _look(self, path: str) -> _DiskEntry:
        if path not in self._known:
            self._known[path] = _DiskEntry("", path)
            self.match([literal(path)])
        return self._known[path]


def _words(pattern: str) -> Iterator[str]:
    """The words of sh text that stand for the paths of a pattern: a leading ``*`` also matches hidden names."""
    text = ""
    fixed = ""
    for plain, wild, other in _PIECES.findall(pattern):
        if wild:
            text += (quote(fixed) if fixed else "") + wild
            fixed = ""
        else:
            fixed += plain or other
    text += quote(fixed) if fixed else ""
    yield text
    if "/*" in text:
        yield text.replace("/*", "/.[!.]*")
        yield text.replace("/*", "/..?*")
