"""What a host is asked to tell of its files, as sh text for whatever programs it has, and what its answers mean.

Every answer is records of ``FACTS .//PATH`` and a newline. No path holds ``.//`` but where it begins, and no facts hold a
newline, so that whatever a file is called, the records can be told apart.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from newel.agent.errors import WorkspaceError
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS, NEVER
from newel.workspace.ssh.port import quote

ROOT: Final = b"."
PRUNED: Final = frozenset(os.fsencode(name) for name in NEVER | BUILD_DIRS)
"""Names of directories in which mostly nobody wants to look."""

NO_FOLDER: Final = 66
"""The status of a request about a root that is not there."""

_OCTAL: Final = re.compile("[0-7]+")
_SUM: Final = re.compile(rb"\\?([0-9a-f]{64})(?: \*)?")
_ODD: Final = re.compile(rb"[\n\r\\]")
"""In a name: programs that print sums print something else for it."""

_EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class AnswerTooLarge(WorkspaceError):
    """More than was asked for came."""


class HostFileStat(NamedTuple):
    """A ``FileStat`` of a file on a host."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_ino: int
    st_nlink: int


class StatVariant(NamedTuple):
    """A way to look at files. ``folders`` and ``files`` are what ``find`` is to do with them, ``named`` looks at the files
    ``"$@"``; ``seen`` reads the facts of a file, and raises ``ValueError`` for what are none.
    """

    folders: str
    files: str
    named: str
    seen: Callable[[bytes], HostFileStat]


def _of_find(facts: bytes) -> HostFileStat:
    mode, size, modified, changed, inode, links = facts.split()
    kind = _KINDS.get(mode[:1], stat.S_IFSOCK)
    return HostFileStat(
        kind | int(mode[1:], 8),
        int(size),
        _nanoseconds(modified),
        _nanoseconds(changed),
        int(inode),
        int(links),
    )


def _of_stat(facts: bytes) -> HostFileStat:
    mode, size, modified, changed, inode, links = facts.split()
    return HostFileStat(
        int(mode, 16), int(size), _nanoseconds(modified), _nanoseconds(changed), int(inode), int(links)
    )


_KINDS: Final = {
    b"f": stat.S_IFREG,
    b"d": stat.S_IFDIR,
    b"l": stat.S_IFLNK,
    b"p": stat.S_IFIFO,
    b"c": stat.S_IFCHR,
    b"b": stat.S_IFBLK,
}


def _nanoseconds(seconds: bytes) -> int:
    whole, _, part = seconds.partition(b".")
    return int(whole) * 1_000_000_000 + int(part[:9].ljust(9, b"0"))


_FIND: Final = r"-printf '%y%m %s %T@ %C@ %i %n %p\n'"
_STAT: Final = "stat -c '%f %s %Y %Z %i %h %n'"
_BSD_STAT: Final = "stat -f '%Xp %z %Fm %Fc %i %l %N'"

STAT_VARIANTS: Final = {
    "find": StatVariant(r"-printf 'd%m %p\n'", _FIND, f'find "$@" -maxdepth 0 {_FIND}', _of_find),
    "stat": StatVariant("-exec stat -c 'd%a %n' {} +", f"-exec {_STAT} {{}} +", f'{_STAT} "$@"', _of_stat),
    "bsd": StatVariant(
        "-exec stat -f 'd%Mp%Lp %N' {} +", f"-exec {_BSD_STAT} {{}} +", f'{_BSD_STAT} "$@"', _of_stat
    ),
}
"""GNU's ``find``; the ``stat`` of GNU and of busybox, whose times are in seconds; that of the BSDs and of macOS."""

_HASHES: Final = ("sha256sum", "shasum -a 256", "sha256 -r", "openssl dgst -sha256 -r")


class HostCapabilities(NamedTuple):
    """What a host has: the name of a flavour, a program that prints SHA-256 sums, whether it has ``gzip``; and the
    permission bits that new folders do not get there.
    """

    variant: str
    sums: str
    gzip: bool
    umask: int


def probe() -> str:
    """Sh text that tries what there is. See ``parse_capabilities``."""
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
    """The SHA-256 that a program printed before a path, empty where it printed something else for the path; None for no sum."""
    found = _SUM.fullmatch(facts)
    if found is None:
        return None
    return "" if _ODD.search(path) else found[1].decode()


def time_of(facts: bytes) -> int | None:
    """The time that facts tell, in nanoseconds since 1970; it may be up to a second later. None if they do not."""
    said, _, time = facts.partition(b" ")
    seconds, _, part = time.partition(b".")
    return _nanoseconds(time if part.isdigit() else seconds) if said == b"now" else None


def parse_capabilities(answer: bytes, root: str) -> HostCapabilities:
    """Raises ``WorkspaceError`` if the host has not what it takes."""
    said: dict[str, str] = {}
    for facts, path in records(answer):
        if not path:
            what, _, value = facts.decode(errors="replace").partition(" ")
            said[what] = value
    known = [name for name in STAT_VARIANTS if name in said]
    if not known or "sums" not in said or "xargs" not in said:
        raise WorkspaceError(
            f"Cannot record what commands change in {root}: the host needs `xargs -0`, a `find` with -printf or a "
            "`stat`, and `sha256sum`, `shasum` or `openssl`."
        )
    umask = said.get("umask", "")
    return HostCapabilities(
        known[0], said["sums"], "gzip" in said, int(umask, 8) if _OCTAL.fullmatch(umask) else 0o22
    )


def records(answer: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Facts and paths. Raises ``WorkspaceError`` where there are none."""
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
    """The requests, for a host that has certain means. ``"$@"`` are paths with ``.//`` before them."""

    capabilities: HostCapabilities

    @property
    def _variant(self) -> StatVariant:
        return STAT_VARIANTS[self.capabilities.variant]

    def seen(self, facts: bytes) -> HostFileStat:
        """Of a folder only its mode. Raises ``WorkspaceError`` for what are no facts of either."""
        try:
            if is_folder(facts):
                return HostFileStat(stat.S_IFDIR | int(facts[1:], 8), 0, 0, 0, 0, 0)
            return self._variant.seen(facts)
        except ValueError as error:
            raise WorkspaceError("The host sent a malformed answer about its files.") from error

    def listing(self, pruned: Iterable[bytes], paths: Iterable[bytes] = ()) -> str:
        """All that is below the folders ``"$@"``, but not what is in folders of the names ``pruned``, and of ``paths`` in the root."""
        tests = [f"-name {quote(os.fsdecode(name))}" for name in sorted(pruned)]
        tests += [f"-path {quote('.//./' + _literal(os.fsdecode(path)))}" for path in sorted(paths)]
        folders = f"-type d {self._variant.folders} \\( {' -o '.join(tests)} \\) -prune"
        find = f'find "$@" -mindepth 1 {folders} -o ! -type d {self._variant.files} 2>/dev/null'
        return f"{find}; printf '? %s .//\\n' \"$?\""

    def listing_unless(self, known: str, pruned: Iterable[bytes], paths: Iterable[bytes] = ()) -> str:
        """All that is below the root, or nothing if that has the hash ``known``."""
        text = self.listing(pruned, paths)
        if not known:
            return f"set -- .//.; {text}"
        return f'set -- .//.; l() {{ {text}; }}; case $(l "$@" | {self.capabilities.sums}) in {known}*) ;; *) l "$@";; esac'

    def facts(self) -> str:
        """The time, how the files ``"$@"`` are, which may not be looked at or read, and unless there are any, all sums."""
        return (
            f"{CLOCK}; {self.looks()}; b=; "
            'for f do [ -f "$f" ] && [ -r "$f" ] && continue; b=1; d=${f%/*}; '
            'while [ ! -d "$d" ] && [ "$d" != . ]; do d=${d%/*}; done; '
            # What is not seen is gone if one may look into the innermost folder that is there.
            '[ ! -e "$f" ] && [ -x "$d" ] || printf \'! %s\\n\' "$f"; done; '
            f'[ "$b" ] || {self.sums()}; :'
        )

    def targets(self) -> str:
        """Where the links ``"$@"`` lead, and their paths, with a NUL behind each."""
        return """for f do readlink -n -- "$f" && printf '\\0%s\\0' "$f"; done 2>/dev/null"""

    def looks(self) -> str:
        """How the files ``"$@"`` are, those that are there."""
        return f"{self._variant.named} 2>/dev/null"

    def sums(self) -> str:
        """The sums of the files ``"$@"``, those that can be read. See ``sum_of``."""
        return f'{self.capabilities.sums} "$@" 2>/dev/null'

    def contents(self, total: int) -> str:
        """The contents of the files ``"$@"``, no more than ``total`` bytes and one; a newline; how they are then."""
        return (
            'for f do [ -f "$f" ] && [ ! -L "$f" ] || exit 0; done; '  # whoever reads a pipe may wait for ever
            f'{{ cat "$@" | head -c {total + 1}; echo; {self._variant.named}; }} 2>/dev/null'
        )

    def pack(self, text: str, most: int) -> str:
        """The output of sh text, ``most`` bytes of it, as ``unpack`` reads it."""
        return f"{{ {text}; }} | gzip -1c" if self._is_packed(most) else text

    def unpack(self, data: bytes, most: int) -> bytes:
        """Raises ``WorkspaceError`` if that is not all, and ``AnswerTooLarge``."""
        whole = True
        if self._is_packed(most):
            unpacking = zlib.decompressobj(wbits=31)
            try:
                data = unpacking.decompress(data, most + 1)
            except zlib.error as error:
                raise WorkspaceError("The host sent a malformed answer about its files.") from error
            whole = unpacking.eof or len(data) > most
        if len(data) > most:
            raise AnswerTooLarge(f"The host's answer about its files is longer than {most >> 20} MiB.")
        if not whole:
            raise WorkspaceError(_BROKE_OFF)
        return data

    def _is_packed(self, most: int) -> bool:
        return self.capabilities.gzip and most > _MIN_PACKED_BYTES


def _literal(path: str) -> str:
    """A pattern of ``find`` for the path alone."""
    return re.sub(r"[][*?\\]", r"\\\g<0>", path)


_MIN_PACKED_BYTES: Final = 4096
_BROKE_OFF: Final = "The host's answer about its files is incomplete."

SHUT: Final = (
    'for d do if [ -L "$d" ] || [ ! -d "$d" ]; then printf \'gone %s\\n\' "$d"; '
    'elif [ ! -r "$d" ] || [ ! -x "$d" ]; then printf \'shut %s\\n\' "$d"; fi; done'
)
"""Which of the folders ``"$@"`` are none, or cannot be read."""

CLOCK: Final = "date '+now %s.%N .//'"
"""The host's time; not every ``date`` knows parts of a second, and what it says then is no number."""
