"""Runs git for snapshots: on a repository given by its folder, with words for a failure.

The repository of an agent's folder is hostile: its settings must start no program, and git must look at no other folder than the one
that it is given. So git does not search for the repository, reads no settings of the user, and fetches nothing for a partial clone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from newel.fleet.errors import SnapshotError
from newel.text.sanitize import escape_line
from newel.workspace.git import git_command, safe_environment

LOCAL_TIMEOUT_S: Final = 600.0
"""For one command on this machine: packing the history of a large repository takes minutes."""

REMOTE_TIMEOUT_S: Final = 3600.0
"""For one transfer."""

_NO_SETTINGS: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
_TRANSFER: Final = {"GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
_NO_IGNORED: Final = ("-c", f"core.excludesFile={os.devnull}", "-c", f"core.attributesFile={os.devnull}")
_WORDS: Final = 300

_detached: list[subprocess.Popen[bytes]] = []
"""Processes that nobody waits for, until they have ended."""


class GitFailed(SnapshotError):
    """Git failed; ``words`` are the last ones that it printed."""

    def __init__(self, message: str, words: str) -> None:
        super().__init__(f"{message} (git: {words})")
        self.words = words


class Git:
    """Git on one repository. ``folder`` has the repository's files: a bare repository, or the ``.git`` of the working tree ``work``."""

    def __init__(self, folder: Path, work: Path | None = None) -> None:
        self.folder = folder
        self._place = work or folder
        self._options = (f"--git-dir={folder}", *((f"--work-tree={work}",) if work else ()), *_NO_IGNORED)

    def run(self, *args: str, stdin: bytes | IO[bytes] = b"", stdout: IO[bytes] | None = None) -> bytes:
        """What git prints. Blocks. Raises ``GitFailed``."""
        return self._run(args, _NO_SETTINGS, stdin, stdout, LOCAL_TIMEOUT_S)

    def transfer(self, *args: str, url: str) -> bytes:
        """Run git with a server or another repository: with the settings of the machine's user, which may name a proxy and keys.
        Blocks. Raises ``GitFailed``.
        """
        protocol = {"GIT_ALLOW_PROTOCOL": allowed_protocol(url)}
        return self._run(args, _TRANSFER | protocol, b"", None, REMOTE_TIMEOUT_S)

    def _run(
        self,
        args: tuple[str, ...],
        variables: Mapping[str, str],
        stdin: bytes | IO[bytes],
        stdout: IO[bytes] | None,
        timeout: float,
    ) -> bytes:
        text, file = (stdin, None) if isinstance(stdin, bytes) else (None, stdin)
        try:
            done = subprocess.run(
                self._command(*args),
                cwd=self._place,
                env={**safe_environment(str(self._place)), **variables},
                input=text,
                stdin=file,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise GitFailed(self._problem(args), f"no answer within {timeout:.0f} s") from error
        except OSError as error:
            raise GitFailed(self._problem(args), error.strerror or str(error)) from error
        if done.returncode:
            raise GitFailed(self._problem(args), last_words(done.stderr) or f"exit code {done.returncode}")
        return done.stdout or b""

    def start(self, *args: str, stdin: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start git, for what it prints. Raises ``GitFailed``."""
        return self._start(args, stdin, subprocess.PIPE)

    def start_detached(self, *args: str) -> None:
        """Start git, which outlives this process and reports nothing. Raises ``GitFailed``."""
        _detached[:] = [each for each in _detached if each.poll() is None]
        _detached.append(self._start(args, subprocess.DEVNULL, subprocess.DEVNULL))

    def _start(self, args: tuple[str, ...], stdin: IO[bytes] | int, stdout: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._command(*args),
                cwd=self._place,
                env={**safe_environment(str(self._place)), **_NO_SETTINGS},
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                start_new_session=stdout == subprocess.DEVNULL,
            )
        except OSError as error:
            raise GitFailed(self._problem(args), error.strerror or str(error)) from error

    def _command(self, *args: str) -> list[str]:
        command = git_command(str(self._place), *self._options, *args)
        if command is None:
            raise SnapshotError(
                f"Git cannot look at {self._place}: it is not installed, or the repository has a pipe or a device in place of a file. "
                "Install git (`apt-get install git`), or remove that file."
            )
        return command

    def _problem(self, args: tuple[str, ...]) -> str:
        verb = next((word for word in args if not word.startswith("-") and "=" not in word), "")
        return f"`git {verb}` failed in {self._place}"


def last_words(stderr: bytes) -> str:
    """The most telling line of git's errors."""
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "!", " !"))]
    return escape_line((telling or lines or [""])[0].strip(), _WORDS)


def allowed_protocol(url: str) -> str:
    """The protocol of an address of a repository. Raises ``SnapshotError`` for one that would run a command."""
    scheme, found, _ = url.partition("://")
    if url.startswith("-") or "::" in url.partition("/")[0] or "\n" in url:
        raise SnapshotError(f"{url!r} is not the address of a repository. Use a path, https:// or ssh://.")
    if found:
        if scheme in {"file", "https", "http", "ssh", "git"}:
            return scheme
        raise SnapshotError(
            f"{scheme}:// is not a protocol of a repository here. Use a path, https:// or ssh://."
        )
    head, colon, _ = url.partition(":")
    return "ssh" if colon and "/" not in head else "file"


def without_password(url: str) -> str:
    """The address without the user's name and password."""
    scheme, found, rest = url.partition("://")
    if not found or scheme not in {"http", "https"}:
        return url
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"
