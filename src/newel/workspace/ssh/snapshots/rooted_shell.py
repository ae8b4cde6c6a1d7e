"""Requests about the files below a directory on a host, and Git there."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterable
from functools import cached_property

from newel.agent.errors import WorkspaceError
from newel.workspace.git import SAFE_GIT
from newel.workspace.ssh.port import HostAnswer, quote
from newel.workspace.ssh.snapshots.scripts import (
    CLOCK,
    NO_FOLDER,
    SnapshotScripts,
    parse_capabilities,
    probe,
    records,
    time_of,
)
from newel.workspace.ssh.thread_bridge import ThreadBridge


class RootedShell:
    """``root`` is an absolute path on the host. Methods raise what ``asking.ask`` does, ``OSError`` if the root is not
    there, and ``WorkspaceError``.
    """

    def __init__(self, asking: ThreadBridge, root: str) -> None:
        self.ask = asking.ask
        self._change = asking.change
        self._root = root

    @cached_property
    def scripts(self) -> SnapshotScripts:
        return SnapshotScripts(parse_capabilities(self._in_root(probe()), self._root))

    def ask_here(self, text: str, most: int, given: bytes = b"") -> bytes:
        """The output of sh text that runs in the root, at most ``most`` bytes."""
        return self.scripts.unpack(self._in_root(self.scripts.pack(text, most), given), most)

    def ask_of(self, paths: Iterable[bytes], text: str, most: int) -> bytes:
        """The output of sh text for paths, its ``"$@"``; it runs several times for many paths."""
        given = b"".join(b".//" + path + b"\0" for path in paths)
        return self.ask_here(f"xargs -0 sh -c {quote(text)} sh", most, given)

    def clock_offset_ns(self) -> int:
        """A lower bound for the host's clock minus ours, in nanoseconds."""
        [there] = [time_of(facts) for facts, _ in records(self.ask(CLOCK).data)]
        if there is None:
            raise WorkspaceError("The host did not report its time.")
        return there - time.time_ns()

    def ask_in(self, folder: str, text: str, given: bytes) -> HostAnswer:
        """Evaluate sh text in a folder; it need not read all of its input."""
        return self.ask(_in_folder(folder, text, len(given)), given)

    def change_in(self, folder: str, text: str, given: bytes) -> HostAnswer:
        """As ``ask_in``, for changes."""
        return self._change(_in_folder(folder, text, len(given)), given)

    def change(self, text: str) -> HostAnswer:
        """Evaluate sh text that makes changes; it may be long and have many lines."""
        return self.change_in("/", '(eval "$(cat)")', os.fsencode(text))

    def _in_root(self, text: str, given: bytes = b"") -> bytes:
        answer = self.ask_in(self._root, text, given)
        if answer.status == NO_FOLDER:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._root)
        return answer.data


def _in_folder(folder: str, text: str, given: int) -> str:
    """Run the text in a folder with ``given`` bytes as its input."""
    enter = f"cd -P -- {quote(folder)} 2>/dev/null"
    if not given:
        return f"({enter} || exit {NO_FOLDER}; {text})"
    return (
        f"({enter} || {{ head -c {given} >/dev/null; exit {NO_FOLDER}; }}; "
        f"head -c {given} | {{ {text}; s=$?; cat >/dev/null; exit $s; }})"
    )


class HostGit:
    """Runs git on a host without running any program that the repository configures. For work within the ``ThreadBridge`` of
    ``shell``, whose errors it raises. ``changes``: the commands may make changes.
    """

    def __init__(self, shell: RootedShell, *, changes: bool = False) -> None:
        self._shell = shell
        self._ask_in = shell.change_in if changes else shell.ask_in

    def ask(
        self, folder: str, *args: str, given: bytes = b"", ok_codes: Collection[int] = (0,)
    ) -> bytes | None:
        """As ``newel.workspace.git.ask_git``."""
        asked = " ".join(map(quote, args))
        answer = self._ask_in(folder, f"{SAFE_GIT} {asked} 2>/dev/null", given)
        return answer.data if answer.status in ok_codes else None

    def find_repository(self, folder: str) -> str | None:
        """As ``newel.workspace.git.top_of``."""
        text = (
            f'd={quote(folder)}; while [ ! -e "$d/.git" ] && [ ! -L "$d/.git" ] && [ "$d" ]; do d=${{d%/*}}; done; '
            '[ -e "$d/.git" ] || [ -L "$d/.git" ] && printf %s "${d:-/}"'
        )
        answer = self._shell.ask(f"({text})")
        return os.fsdecode(answer.data) if answer.status == 0 else None
