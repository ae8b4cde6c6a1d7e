"""The port to a host's shell: how sh text with any bytes reaches it, and the parsers for the output of the functions of ``host.sh``.

The text goes over standard input, so that no process list shows it. A host may print anything: malformed output is a
``WorkspaceError``.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.disk.files import kind_of
from newel.workspace.port import DirectoryEntry, FileInfo, FileNode, Kind, kept_mode
from newel.workspace.ssh.connection_errors import SshProblem
from newel.workspace.ssh.target import Target

RUN_COMMAND: Final = """exec sh -c 'IFS= read -r s && eval "$(printf %b "$s")"'"""
"""The command line for ssh: a constant that any login shell passes on to sh, which reads the text itself.

Half a line, from a connection that broke, is not evaluated.
"""

_SAFE: Final = re.compile(rb"[A-Za-z0-9@%+=:,./_-]+")


class HostAnswer(NamedTuple):
    """The exit status of sh text, and its standard output."""

    status: int
    data: bytes


class AnswerTooLong(WorkspaceError):
    """The answer exceeds the limit."""


AskHost = Callable[[str], Awaitable[HostAnswer]]
"""Asks a host something that it answers at once, as ``RemoteHostPort.ask`` does."""


class RemoteHostPort(Protocol):
    """A persistent shell on a host."""

    async def ask(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        """Evaluate one line of sh text, with ``stdin`` as its standard input.

        The text (see ``quote``) reads exactly the bytes that are given, terminates, and leaves no state behind that later
        requests must not see. It must change nothing: it may be sent twice. Raises ``WorkspaceError``.
        """
        ...

    async def change(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        """As ``ask``, but sent only once. Raises ``ConnectionLost`` if the outcome is unknown."""
        ...


def quote(word: str) -> str:
    """A word of sh text on one line: a newline becomes ``$n``. ``word`` is as from ``os.fsdecode``, so that it may be any bytes."""
    if _SAFE.fullmatch(os.fsencode(word)):
        return word
    return "'" + word.replace("'", "'\\''").replace("\n", "'\"$n\"'") + "'"


_ESCAPED: Final = {byte: f"\\0{byte:03o}" for byte in range(256) if not 32 <= byte < 127} | {
    ord("\n"): r"\n",
    ord("\\"): r"\\",
}


def encode_line(script: str) -> bytes:
    """The line that ``RUN_COMMAND`` reads, in printable ASCII. The text may be any but NUL.

    Raises ``UnicodeEncodeError`` for unpaired surrogates, other than those of ``os.fsdecode``.
    """
    return os.fsencode(script).decode("latin-1").translate(_ESCAPED).encode() + b"\n"


# -- answers ----------------------------------------------------------------------------------------------

_KINDS: Final[dict[str, Kind]] = {"d": "directory", "f": "file", "o": "other"}
_MAX_REASON: Final = 4096


class HostInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a host. ``root`` and ``home`` are physical paths; ``bash``, ``rg``, ``git``, ``setsid`` are paths of programs, or
    empty. ``clock_ahead`` is the host's clock minus this machine's, in seconds, accurate to about one.
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
        pairs = [os.fsdecode(fact).partition("=") for fact in data.split(b"\0")[:-1]]
        facts = {name: value for name, _, value in pairs}
        missing = [value for name, _, value in pairs if name == "missing"]
        if missing:
            raise SshProblem(
                "shell",
                f"{target.host} lacks {', '.join(missing)}.",
                "Newel needs the usual POSIX utilities, stat, and one of sha256sum, shasum, sha256 or openssl.",
            ).error()
        if not facts.get("root", "").startswith("/"):
            reason = facts.get("problem", "").rpartition(": ")[2] or "permission denied"
            raise SshProblem(
                "path",
                f"Cannot work in {target.path} on {target.host}: {reason}.",
                "Choose an existing directory.",
            ).error()
        clock = facts.get("clock", "")
        return cls(
            **{name: facts.get(name, "") for name in cls.__struct_fields__ if name != "clock_ahead"},
            clock_ahead=int(clock) - round(time.time()) if re.fullmatch(r"[0-9]{1,12}", clock) else 0,
        )


@contextlib.contextmanager
def _map_errors(data: bytes) -> Generator[None]:
    try:
        yield
    except (ValueError, LookupError) as error:
        raise WorkspaceError(
            f"The host sent a malformed answer: {data[:100]!r}. Check that its sh is a POSIX shell."
        ) from error


def bounded(text: str | bytes, limit: int, *, base: int = 10, least: int = 0) -> int:
    """A number that a host sent. Raises ``ValueError`` for one that no file has: other code relies on its size."""
    number = int(text, base)
    if not least <= number < limit:
        raise ValueError("a number is out of range")
    return number


MODES: Final = 1 << 32
SIZES: Final = 1 << 63
SECONDS: Final = 1 << 40
"""Limits of ``bounded``. Times may be before 1970."""


def info(data: bytes) -> FileInfo:
    """Parse a line of ``newel_stat``: mode in hexadecimal, size, seconds, and the time with a fraction."""
    with _map_errors(data):
        written, size, seconds, *detail = data.decode().split()
        mode = bounded(written, MODES, base=16)
        fraction = re.search(r"\.([0-9]{1,9})", " ".join(detail))
        return FileInfo(
            kind=kind_of(mode),
            size=bounded(size, SIZES),
            mode=stat.S_IMODE(mode),
            modified_ns=bounded(seconds, SECONDS, least=-SECONDS) * 10**9
            + (int(fraction[1].ljust(9, "0")) if fraction else 0),
        )


def infos(data: bytes, count: int) -> list[FileInfo | None] | None:
    """Parse ``newel_stats`` of that many files; None if one was deleted between its two steps."""
    flags, *lines = data.splitlines() or [b""]
    with _map_errors(data):
        if len(flags) != count or flags.strip(b"01"):
            raise ValueError("it is not about the files that were asked for")
    if len(lines) != flags.count(b"1"):
        return None
    rest = iter(lines)
    return [info(next(rest)) if exists == ord("1") else None for exists in flags]


def node(data: bytes) -> FileNode | None:
    """Parse ``newel_thing``."""
    if not data:
        return None
    mode, _, target = data.partition(b"\n")
    with _map_errors(data):
        return FileNode(kept_mode(bounded(mode, MODES, base=16)), target)


def entries(data: bytes) -> list[DirectoryEntry]:
    """Parse ``newel_list``; the entries are unordered."""
    pieces = os.fsdecode(data).split("/")
    with _map_errors(data):
        return [
            DirectoryEntry(name, _KINDS[kind[-1]], kind.startswith("l"))
            for kind, name in zip(pieces[::2], pieces[1::2], strict=False)
        ]


def link(data: bytes, asked: Sequence[str]) -> tuple[int, str] | None:
    """Parse ``newel_link`` of the paths ``asked``: the index of the first link and its target; None if there is none."""
    if not data:
        return None
    number, _, target = data.partition(b"/")
    with _map_errors(data):
        return range(len(asked))[int(number) - 1], os.fsdecode(target.removesuffix(b"\n"))


def reason(answer: HostAnswer) -> str:
    """The system's reason, which ends an error message of a program on the host."""
    text = answer.data[-_MAX_REASON:].decode(errors="replace").strip().rpartition(": ")[2]
    return "".join(sign for sign in text if sign.isprintable()) or "the command failed on the host"
