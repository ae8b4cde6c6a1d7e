"""Requests about the files below a directory on a host: shell scripts adapted to its programs, parsers for their answers, and Git.

An answer consists of records ``FACTS .//PATH`` and a newline. No path contains ``.//`` except at its start, and facts contain no
newline, so records are unambiguous whatever a file is called.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

from newel.agent.errors import WorkspaceError
from newel.workspace.git import SAFE_GIT
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, NEVER
from newel.workspace.ssh.port import MODES, SECONDS, SIZES, AnswerTooLong, HostAnswer, bounded, quote
from newel.workspace.ssh.thread_bridge import ThreadBridge

T = TypeVar("T")

PRUNED: Final = frozenset(os.fsencode(name) for name in NEVER | BUILD_DIRS)
"""Names of directories that are not listed unless requested."""

NO_FOLDER: Final = 66
"""The exit status of a request for a root that does not exist."""

_OCTAL: Final = re.compile("[0-7]+")
_SUM: Final = re.compile(rb"\\?([0-9a-f]{64})(?: \*)?")
_ODD: Final = re.compile(rb"[\n\r\\]")
"""Characters in a name that checksum programs escape in their output."""

_EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def batches(items: Iterable[T], *limits: tuple[Callable[[T], int], int]) -> Iterator[list[T]]:
    """Split items for several requests: what each function measures adds up to its limit at most, unless one item exceeds it."""
    batch: list[T] = []
    totals = [0] * len(limits)
    for item in items:
        sizes = [size_of(item) for size_of, _ in limits]
        totals = [total + size for total, size in zip(totals, sizes, strict=True)]
        if batch and any(total > most for total, (_, most) in zip(totals, limits, strict=True)):
            yield batch
            batch, totals = [], sizes
        batch.append(item)
    if batch:
        yield batch


class HostFileStat(NamedTuple):
    """A ``FileStat`` of a file on a host."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_ino: int
    st_nlink: int


class StatVariant(NamedTuple):
    """A way to stat files. ``folders`` and ``files`` are actions for ``find``, ``named`` stats the files ``"$@"``; ``mode``
    parses a file's mode.
    """

    folders: str
    files: str
    named: str
    mode: Callable[[bytes], int]

    def seen(self, facts: bytes) -> HostFileStat:
        """Parse a file's facts. Raises ``ValueError`` for invalid ones."""
        mode, size, modified, changed, inode, links = facts.split()
        times = _nanoseconds(modified), _nanoseconds(changed)
        numbers = bounded(inode, 2 * SIZES), bounded(links, SIZES)
        return HostFileStat(self.mode(mode), bounded(size, SIZES), *times, *numbers)


_KINDS: Final = {
    b"f": stat.S_IFREG,
    b"d": stat.S_IFDIR,
    b"l": stat.S_IFLNK,
    b"p": stat.S_IFIFO,
    b"c": stat.S_IFCHR,
    b"b": stat.S_IFBLK,
}


def _mode_of_find(mode: bytes) -> int:
    return _KINDS.get(mode[:1], stat.S_IFSOCK) | bounded(mode[1:], 1 << 12, base=8)


def _mode_of_stat(mode: bytes) -> int:
    return bounded(mode, MODES, base=16)


def _nanoseconds(seconds: bytes) -> int:
    whole, _, part = seconds.partition(b".")
    return bounded(whole, SECONDS, least=-SECONDS) * 1_000_000_000 + int(part[:9].ljust(9, b"0"))


_FIND: Final = r"-printf '%y%m %s %T@ %C@ %i %n %p\n'"
_STAT: Final = "stat -c '%f %s %Y %Z %i %h %n'"
_BSD_STAT: Final = "stat -f '%Xp %z %Fm %Fc %i %l %N'"

STAT_VARIANTS: Final = {
    "find": StatVariant(r"-printf 'd%m %p\n'", _FIND, f'find "$@" -maxdepth 0 {_FIND}', _mode_of_find),
    "stat": StatVariant(
        "-exec stat -c 'd%a %n' {} +", f"-exec {_STAT} {{}} +", f'{_STAT} "$@"', _mode_of_stat
    ),
    "bsd": StatVariant(
        "-exec stat -f 'd%Mp%Lp %N' {} +", f"-exec {_BSD_STAT} {{}} +", f'{_BSD_STAT} "$@"', _mode_of_stat
    ),
}
"""GNU ``find``; ``stat`` of GNU and busybox, with times in seconds; ``stat`` of the BSDs and macOS."""

_HASHES: Final = ("sha256sum", "shasum -a 256", "sha256 -r", "openssl dgst -sha256 -r")


class HostCapabilities(NamedTuple):
    """A host's programs: the key in ``STAT_VARIANTS``, a program that prints SHA-256 sums, whether it has ``gzip``; and its
    umask.
    """

    variant: str
    sums: str
    gzip: bool
    umask: int


def probe() -> str:
    """Sh text that detects the programs; see ``parse_capabilities``."""
    tried = (f"{way.named} 2>/dev/null && echo {name} .//" for name, way in STAT_VARIANTS.items())
    hashes = " ".join(map(quote, _HASHES))
    return (
        f"set -- .//.; {{ {' || '.join(f'{{ {one}; }}' for one in tried)}; }}; "
        f"for s in {hashes}; do case $(printf '' | $s 2>/dev/null) in {_EMPTY}*) "
        "printf 'sums %s .//\\n' \"$s\"; break;; esac; done; "
        "printf 'umask %s .//\\n' \"$(umask)\"; "
        "printf '' | gzip -1c >/dev/null 2>&1 && echo gzip .//; "
        "printf 'a\\0' | xargs -0 printf 'xargs %s .//\\n' 2>/dev/null; :"
    )


def is_folder(facts: bytes) -> bool:
    return facts[:1] == b"d" and facts[1:].isdigit()


def sum_of(facts: bytes, path: bytes) -> str | None:
    """The SHA-256 in the facts; empty if the program escaped the path, None if the facts are not a sum."""
    match = _SUM.fullmatch(facts)
    if match is None:
        return None
    return "" if _ODD.search(path) else match[1].decode()


def time_of(facts: bytes) -> int | None:
    """The time in the facts, in nanoseconds since 1970, rounded down to a second on some hosts; None if there is none. Raises
    ``WorkspaceError``.
    """
    label, _, time = facts.partition(b" ")
    if label != b"now":
        return None
    seconds, _, part = time.partition(b".")
    try:
        return _nanoseconds(time if part.isdigit() else seconds)
    except ValueError as error:
        raise WorkspaceError("The host sent a malformed answer about its time.") from error


def parse_capabilities(answer: bytes, root: str) -> HostCapabilities:
    """Parse the answer to ``probe``. Raises ``WorkspaceError`` if the host lacks a program."""
    values: dict[str, str] = {}
    for facts, path in records(answer):
        if not path:
            what, _, value = facts.decode(errors="replace").partition(" ")
            values[what] = value
    variants = [name for name in STAT_VARIANTS if name in values]
    if not variants or "sums" not in values or "xargs" not in values:
        raise WorkspaceError(
            f"Cannot record what commands change in {root}: the host needs `xargs -0`, a `find` with -printf or a "
            "`stat`, and `sha256sum`, `shasum` or `openssl`."
        )
    umask = values.get("umask", "")
    return HostCapabilities(
        variants[0], values["sums"], "gzip" in values, int(umask, 8) if _OCTAL.fullmatch(umask) else 0o22
    )


def records(answer: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Split an answer into facts and paths. Raises ``WorkspaceError`` for a truncated one."""
    pieces = answer.split(b".//")
    facts = pieces[0]
    for piece in pieces[1:]:
        path, end, following = piece.rpartition(b"\n")
        if not end:
            break
        yield facts.rstrip(), path
        facts = following
    if facts:
        raise WorkspaceError(_BROKE_OFF)


class SnapshotScripts(NamedTuple):
    """Scripts for a host with certain capabilities. ``"$@"`` are paths with ``.//`` before them."""

    capabilities: HostCapabilities

    @property
    def _variant(self) -> StatVariant:
        return STAT_VARIANTS[self.capabilities.variant]

    def seen(self, facts: bytes) -> HostFileStat:
        """Parse the facts of a file or a folder, of which only the mode is valid. Raises ``WorkspaceError``."""
        try:
            if is_folder(facts):
                return HostFileStat(stat.S_IFDIR | bounded(facts[1:], 1 << 12, base=8), 0, 0, 0, 0, 0)
            return self._variant.seen(facts)
        except ValueError as error:
            raise WorkspaceError("The host sent a malformed answer about its files.") from error

    def listing(self, pruned: Iterable[bytes], paths: Iterable[bytes] = ()) -> str:
        """List everything below the folders ``"$@"``, except inside folders with the names ``pruned`` or the ``paths`` below the root."""
        tests = [f"-name {quote(os.fsdecode(name))}" for name in sorted(pruned)]
        tests += [f"-path {quote('.//./' + _literal(os.fsdecode(path)))}" for path in sorted(paths)]
        folders = f"-type d {self._variant.folders} \\( {' -o '.join(tests)} \\) -prune"
        find = f'find "$@" -mindepth 1 {folders} -o ! -type d {self._variant.files} 2>/dev/null'
        return f"{find}; printf '? %s .//\\n' \"$?\""

    def listing_unless(self, known: str, pruned: Iterable[bytes], paths: Iterable[bytes] = ()) -> str:
        """List everything below the root, or nothing if the listing has the hash ``known``."""
        text = self.listing(pruned, paths)
        if not known:
            return f"set -- .//.; {text}"
        return f'set -- .//.; l() {{ {text}; }}; case $(l "$@" | {self.capabilities.sums}) in {known}*) ;; *) l "$@";; esac'

    def facts(self) -> str:
        """Print the time, the stat of the files ``"$@"``, which of them are unreadable, and if none is, their sums."""
        return (
            f"{CLOCK}; {self.looks()}; b=; "
            'for f do [ -f "$f" ] && [ -r "$f" ] && continue; b=1; d=${f%/*}; '
            'while [ ! -d "$d" ] && [ "$d" != . ]; do d=${d%/*}; done; '
            # A missing file was deleted if its innermost existing folder is searchable; otherwise it is unreadable.
            '[ ! -e "$f" ] && [ -x "$d" ] || printf \'! %s\\n\' "$f"; done; '
            f'[ "$b" ] || {self.sums()}; :'
        )

    def targets(self) -> str:
        """Print the targets of the links ``"$@"`` and their paths, each with a NUL after it."""
        return """for f do readlink -n -- "$f" && printf '\\0%s\\0' "$f"; done 2>/dev/null"""

    def looks(self) -> str:
        """Stat those of the files ``"$@"`` that exist."""
        return f"{self._variant.named} 2>/dev/null"

    def sums(self) -> str:
        """Print the sums of those of the files ``"$@"`` that are readable; see ``sum_of``."""
        return f'{self.capabilities.sums} "$@" 2>/dev/null'

    def contents(self, total: int) -> str:
        """Print the contents of the files ``"$@"``, at most ``total`` bytes and one; a newline; their stat afterwards."""
        return (
            'for f do [ -f "$f" ] && [ ! -L "$f" ] || exit 0; done; '  # reading a pipe may block for ever
            f'{{ cat "$@" | head -c {total + 1}; echo; {self._variant.named}; }} 2>/dev/null'
        )

    def pack(self, text: str, most: int) -> str:
        """Compress the output of sh text, expected to have up to ``most`` bytes, for ``unpack``."""
        return f"{{ {text}; }} | gzip -1c" if self._is_packed(most) else text

    def unpack(self, data: bytes, most: int) -> bytes:
        """Raises ``WorkspaceError`` if the data is truncated, and ``AnswerTooLong``."""
        whole = True
        if self._is_packed(most):
            unpacking = zlib.decompressobj(wbits=31)
            try:
                data = unpacking.decompress(data, most + 1)
            except zlib.error as error:
                raise WorkspaceError("The host sent a malformed answer about its files.") from error
            whole = unpacking.eof or len(data) > most
        if len(data) > most:
            raise AnswerTooLong(f"The host's answer about its files is longer than {most >> 20} MiB.")
        if not whole:
            raise WorkspaceError(_BROKE_OFF)
        return data

    def _is_packed(self, most: int) -> bool:
        return self.capabilities.gzip and most > _MIN_PACKED_BYTES


def _literal(path: str) -> str:
    """Escape a path for a pattern of ``find``."""
    return re.sub(r"[][*?\\]", r"\\\g<0>", path)


_MIN_PACKED_BYTES: Final = 4096
_BROKE_OFF: Final = "The host's answer about its files is incomplete."

SHUT: Final = (
    'for d do if [ -L "$d" ] || [ ! -d "$d" ]; then printf \'gone %s\\n\' "$d"; '
    'elif [ ! -r "$d" ] || [ ! -x "$d" ]; then printf \'shut %s\\n\' "$d"; fi; done'
)
"""Prints which of the folders ``"$@"`` are gone or unreadable."""

CLOCK: Final = "date '+now %s.%N .//'"
"""Prints the host's time. Where ``date`` does not support ``%N``, the fraction is not a number."""


class RootedShell:
    """``root`` is an absolute path on the host. Methods raise what ``bridge.ask`` does, ``OSError`` if the root is not
    there, and ``WorkspaceError``.
    """

    def __init__(self, bridge: ThreadBridge, root: str) -> None:
        self.ask = bridge.ask
        self._change = bridge.change
        self._root = root

    @cached_property
    def scripts(self) -> SnapshotScripts:
        return SnapshotScripts(parse_capabilities(self._in_root(probe()), self._root))

    def ask_here(self, text: str, most: int, stdin: bytes = b"") -> bytes:
        """The output of sh text that runs in the root, at most ``most`` bytes."""
        return self.scripts.unpack(self._in_root(self.scripts.pack(text, most), stdin), most)

    def ask_of(self, paths: Iterable[bytes], text: str, most: int) -> bytes:
        """The output of sh text for paths, its ``"$@"``; it runs several times for many paths."""
        stdin = b"".join(b".//" + path + b"\0" for path in paths)
        return self.ask_here(f"xargs -0 sh -c {quote(text)} sh", most, stdin)

    def clock_offset_ns(self) -> int:
        """A lower bound for the host's clock minus ours, in nanoseconds."""
        host_time = next((time_of(facts) for facts, _ in records(self.ask(CLOCK).data)), None)
        if host_time is None:
            raise WorkspaceError("The host did not report its time.")
        return host_time - time.time_ns()

    def ask_in(self, folder: str, text: str, stdin: bytes) -> HostAnswer:
        """Evaluate sh text in a folder; it need not read all of its input."""
        return self.ask(_in_folder(folder, text, len(stdin)), stdin)

    def change_in(self, folder: str, text: str, stdin: bytes) -> HostAnswer:
        """As ``ask_in``, for changes."""
        return self._change(_in_folder(folder, text, len(stdin)), stdin)

    def change(self, text: str) -> HostAnswer:
        """Evaluate sh text that makes changes; it may be long and have many lines."""
        return self.change_in("/", '(eval "$(cat)")', os.fsencode(text))

    def run_git(
        self,
        folder: str,
        *args: str,
        stdin: bytes = b"",
        ok_codes: Collection[int] = (0,),
        changes: bool = False,
    ) -> bytes | None:
        """As ``newel.workspace.git.run_git``, without running any program that the repository configures."""
        text = f"{SAFE_GIT} {' '.join(map(quote, args))} 2>/dev/null"
        answer = (self.change_in if changes else self.ask_in)(folder, text, stdin)
        return answer.data if answer.status in ok_codes else None

    def find_repository(self, folder: str) -> str | None:
        """As ``newel.workspace.git.top_of``."""
        text = (
            f'd={quote(folder)}; while [ ! -e "$d/.git" ] && [ ! -L "$d/.git" ] && [ "$d" ]; do d=${{d%/*}}; done; '
            '[ -e "$d/.git" ] || [ -L "$d/.git" ] && printf %s "${d:-/}"'
        )
        answer = self.ask(f"({text})")
        return os.fsdecode(answer.data) if answer.status == 0 else None

    def _in_root(self, text: str, stdin: bytes = b"") -> bytes:
        answer = self.ask_in(self._root, text, stdin)
        if answer.status == NO_FOLDER:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._root)
        return answer.data


def _in_folder(folder: str, text: str, size: int) -> str:
    """Run the text in a folder with ``size`` bytes as its input."""
    enter = f"cd -P -- {quote(folder)} 2>/dev/null"
    if not size:
        return f"({enter} || exit {NO_FOLDER}; {text})"
    return (
        f"({enter} || {{ head -c {size} >/dev/null; exit {NO_FOLDER}; }}; "
        f"head -c {size} | {{ {text}; s=$?; cat >/dev/null; exit $s; }})"
    )
