"""This machine as a host: a shell that stays open like one over SSH, without SSH.

It tests code on top of ``Host`` with shells and programs that no available server has.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.workspace.ssh.port import HostAnswer

_LOOP: Final = 'LC_ALL=C; export LC_ALL; n="\n"; while IFS= read -r line && IFS= read -r nonce; do case $nonce in *+) nonce=${nonce%+}; eval "$line";; *) eval "$line" </dev/null;; esac; printf "\n%s %s\n" "$nonce" "$?"; done'


class ShellHost:
    """A ``Host``. ``argv`` is a shell, ``path`` the folder of its programs. It starts with the first request; close it."""

    def __init__(self, argv: Sequence[str] = ("sh",), *, path: str | None = None) -> None:
        self._argv = argv
        self._environ = os.environ | ({} if path is None else {"PATH": path})
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: list[subprocess.Popen[bytes]] = []
        self._turn = anyio.Lock()
        self.asked: list[str] = []

    async def ask(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        async with self._turn:
            self.asked.append(script)
            process = self._process or self._start()
            try:
                return await anyio.to_thread.run_sync(_talk, process, script, stdin, abandon_on_cancel=True)
            except BaseException:
                process.kill()  # it owes an answer to a thread that still reads from the pipe
                self._ended.append(process)
                self._process = None
                raise

    async def change(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        return await self.ask(script, stdin=stdin)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [*self._argv, "-c", _LOOP]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environ
        )
        return self._process

    def close(self) -> None:
        for process in (*self._ended, *filter(None, [self._process])):
            process.kill()
            with process:
                pass
        self._ended.clear()
        self._process = None


def _talk(process: subprocess.Popen[bytes], script: str, stdin: bytes) -> HostAnswer:
    assert process.stdin
    assert process.stdout
    nonce = secrets.token_hex(16)
    assert "\n" not in script
    data = os.fsencode(script) + b"\n" + nonce.encode() + (b"+" if stdin else b"") + b"\n" + stdin
    writer = threading.Thread(target=_write, args=(process.stdin.fileno(), data))
    writer.start()
    end = f"\n{nonce} ".encode()
    answer = b""
    while not (answer.endswith(b"\n") and end in answer[-80:]):
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            raise WorkspaceError("The shell is gone.")
        answer += piece
    writer.join()
    data, _, status = answer.rpartition(end)
    return HostAnswer(int(status), data)


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # it was killed
        while data:
            data = data[os.write(descriptor, data[: 1 << 16]) :]


def link_busybox(folder: Path, *besides: str) -> None:
    """Fill a folder with busybox, its programs, and a few others."""
    subprocess.run(["busybox", "--install", "-s", str(folder)], check=True)
    for name in ("busybox", *besides):  # not every busybox lists itself among its programs
        if found := shutil.which(name):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(found)
