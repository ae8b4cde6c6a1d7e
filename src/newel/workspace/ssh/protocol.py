"""What the functions of ``host.sh`` print, read. A host may print anything: what makes no sense is a ``WorkspaceError``."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Generator, Sequence
from typing import Final

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.disk.files import kind_of
from newel.workspace.port import DirectoryEntry, FileInfo, FileNode, Kind, kept_mode
from newel.workspace.ssh.connection_errors import SshProblem
from newel.workspace.ssh.port import HostAnswer
from newel.workspace.ssh.target import Target

_KINDS: Final[dict[str, Kind]] = {"d": "directory", "f": "file", "o": "other"}
_LONGEST_REASON: Final = 4096


class HostInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``root`` and ``home`` are physical paths. ``bash``, ``rg``, ``git``, ``setsid`` are paths of programs, or empty.
    ``clock_ahead`` is by how many seconds the host's clock is ahead of this machine's, to about one second.
    """

    system: str = ""
    user: str = ""
    home: str = ""
    root: str = ""
    bash: str = ""
    rg: str = ""
    git: str = ""
    setsid: str = ""
    clock_ahead: int = 0

    @classmethod
    def parse(cls, data: bytes, target: Target) -> HostInfo:
        """Parse the output of ``newel_facts``. Raises ``HostUnreachable`` for a host that Newel cannot work on."""
        pairs = [os.fsdecode(each).partition("=") for each in data.split(b"\0")[:-1]]
        said = {name: value for name, _, value in pairs}
        missing = [value for name, _, value in pairs if name == "missing"]
        if missing:
            raise SshProblem(
                "shell",
                f"{target.host} has no {', '.join(missing)}.",
                "Newel works with what POSIX systems bring along, and with stat and sha256sum (or shasum, sha256, openssl).",
            ).error()
        if not said.get("root", "").startswith("/"):
            reason = said.get("problem", "").rpartition(": ")[2] or "it cannot be entered"
            raise SshProblem(
                "path",
                f"{target.path} on {target.host} is no directory to work in: {reason}.",
                "Name one that exists there.",
            ).error()
        clock = said.get("clock", "")
        return cls(
            **{name: said.get(name, "") for name in cls.__struct_fields__ if name != "clock_ahead"},
            clock_ahead=int(clock) - round(time.time()) if clock.isdecimal() else 0,
        )


@contextlib.contextmanager
def _understood(data: bytes) -> Generator[None]:
    try:
        yield
    except (ValueError, LookupError) as error:
        raise WorkspaceError(
            f"The host's answer makes no sense: {data[:100]!r}. See whether its sh is one."
        ) from error


def info(data: bytes) -> FileInfo:
    """A line of ``newel_stat``: mode in hexadecimal, size, seconds, and the time again in more detail."""
    with _understood(data):
        mode, size, seconds, *detail = data.decode().split()
        fraction = re.search(r"\.([0-9]{1,9})", " ".join(detail))
        return FileInfo(
            kind=kind_of(int(mode, 16)),
            size=int(size),
            mode=stat.S_IMODE(int(mode, 16)),
            modified_ns=int(seconds) * 10**9 + (int(fraction[1].ljust(9, "0")) if fraction else 0),
        )


def infos(data: bytes) -> list[FileInfo | None] | None:
    """What ``newel_stats`` prints; None if a file went away between the one look and the other."""
    there, *lines = data.splitlines() or [b""]
    if len(lines) != there.count(b"1"):
        return None
    found = iter(lines)
    return [info(next(found)) if each == ord("1") else None for each in there]


def thing(data: bytes) -> FileNode | None:
    """What ``newel_thing`` prints."""
    if not data:
        return None
    mode, _, target = data.partition(b"\n")
    with _understood(data):
        return FileNode(kept_mode(int(mode, 16)), target)


def entries(data: bytes) -> list[DirectoryEntry]:
    """What ``newel_list`` prints, in no order."""
    words = os.fsdecode(data).split("/")
    with _understood(data):
        return [
            DirectoryEntry(name, _KINDS[kind[-1]], kind.startswith("l"))
            for kind, name in zip(words[::2], words[1::2], strict=False)
        ]


def link(data: bytes, asked: Sequence[str]) -> tuple[int, str] | None:
    """What ``newel_link`` prints of the paths that were ``asked``: which is one, from 0, and where it leads; None if none is."""
    if not data:
        return None
    number, _, target = data.partition(b"/")
    with _understood(data):
        return range(len(asked))[int(number) - 1], os.fsdecode(target.removesuffix(b"\n"))


def reason(answer: HostAnswer) -> str:
    """The system's words, with which what a program on the host complains of ends."""
    words = answer.data[-_LONGEST_REASON:].decode(errors="replace").strip().rpartition(": ")[2]
    return "".join(sign for sign in words if sign.isprintable()) or "it failed on the host"
