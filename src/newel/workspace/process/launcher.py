"""How the processes of commands are started: by this process, or in a sandbox."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import IO, Protocol, TypeVar, runtime_checkable

from newel.workspace.process.process_mark import inherit_number

Stream = int | IO[bytes]


class StartedProcess(Protocol):
    """The first process of a command. ``pid`` is its number here, ``returncode`` as of ``subprocess.Popen``. If it has a ``descriptor``,
    that is a pidfd of its own.
    """

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and reap it."""
        ...

    def kill(self) -> None: ...


@runtime_checkable
class PreparableLauncher(Protocol):
    """A launcher that takes time to start."""

    def prepare(self) -> None:
        """Begin to start it, and return at once."""
        ...


P_co = TypeVar("P_co", bound=StartedProcess, covariant=True)


class ProcessLauncher(Protocol[P_co]):
    """Starts processes in sessions of their own, marked with a command's number (``newel.workspace.process.process_mark``)."""

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: tuple[Stream, Stream, Stream],
        mark: str,
    ) -> P_co:
        """Start a program with these standard streams. Raises what ``Popen`` raises."""
        ...

    def reached(self) -> list[str]:
        """What limits of all processes together have stopped since the last call, for the user and the model."""
        ...


FindServerLauncher = Callable[
    [str, Callable[[str], Awaitable[bool]]], Awaitable[ProcessLauncher[StartedProcess]]
]
"""Finds what starts a tool server, by its name, in a sandbox of its own. The function decides whether it may reach a server of the network.
"""


class DirectLauncher:
    """Starts children of this process, which get ``descriptors`` of ours besides their standard streams."""

    def __init__(self, descriptors: Sequence[int] = ()) -> None:
        self._descriptors = descriptors

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: tuple[Stream, Stream, Stream],
        mark: str,
    ) -> subprocess.Popen[bytes]:
        stdin, stdout, stderr = streams
        with inherit_number(mark):
            return subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                pass_fds=self._descriptors,
                start_new_session=True,
            )

    def reached(self) -> list[str]:
        return []


DIRECT = DirectLauncher()
