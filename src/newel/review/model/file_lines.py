r"""Files as lines, and back, byte for byte.

A line includes its end; only ``\n`` ends a line. The first line of an existing file is its *head*: a NUL and the
mode, so that creating, deleting or changing the mode of a file changes a line like any other. A file that is not
UTF-8 text has a second line, which names its bytes by their hash. Text cannot be confused with either, because it
contains no NUL.

For other kinds the mode includes the bits of the kind, as in ``stat``. The text of a symbolic link is its target;
a folder and a named pipe have none. A change of the kind is one hunk over all lines (``spans_of``).
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from newel.diff.patience import LineSpan, diff
from newel.review.model.file_review import Lines
from newel.workspace.snapshots.tree import FileSnapshot

Kind = Literal["absent", "file", "link", "folder", "pipe"]

MODE: Final = 0o644
"""The permission bits of a file that has lines but no head: a deletion that was kept in part."""

_HEAD: Final = re.compile(r"\0[0-7]+\n")
BLOB: Final = "\0sha256:"

MAX_TEXT: Final = 2 << 20
"""In bytes; a longer file is kept as a whole."""


class Content(msgspec.Struct, frozen=True):
    """A file's bytes, or the SHA-256 of its bytes (``blob``), and its mode."""

    data: bytes
    mode: int
    blob: str = ""


def lines_of(data: bytes | None, mode: int = MODE) -> Lines:
    """A file's lines; none for None, no file."""
    if data is None:
        return ()
    head = make_head(mode)
    text = decoded(data)
    if text is None:
        return (head, f"{BLOB}{hashlib.sha256(data).hexdigest()}\n")
    lines = text.split("\n")
    last = lines.pop()
    return (head, *(line + "\n" for line in lines), *([last] if last else []))


def make_head(mode: int = MODE) -> str:
    """The head of a file with this mode."""
    return f"\0{mode:o}\n"


def decoded(data: bytes) -> str | None:
    """The text of a file; None if it is not text, or too long to be compared by lines."""
    if len(data) > MAX_TEXT or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def head_of(lines: Lines) -> int | None:
    """The mode in a file's head; None if there is no head."""
    # Most lines are text; the pattern would take most of the time of a review with many hunks.
    return int(lines[0][1:], 8) if lines and lines[0][:1] == "\0" and _HEAD.fullmatch(lines[0]) else None


def kind_of(lines: Lines) -> Kind:
    """The kind of file that lines represent."""
    if not lines:
        return "absent"
    match stat.S_IFMT(head_of(lines) or 0):
        case stat.S_IFLNK:
            return "link"
        case stat.S_IFDIR:
            return "folder"
        case stat.S_IFIFO:
            return "pipe"
        case _:
            return "file"


def is_whole(old: Lines, new: Lines) -> bool:
    """Whether the two are different kinds of content, rather than two texts."""
    return not new or is_blob(old) or is_blob(new) or (bool(old) and kind_of(old) != kind_of(new))


def spans_of(old: Lines, new: Lines) -> list[LineSpan]:
    """The ranges in which ``new`` differs from ``old``: everything if their kinds differ."""
    if old and new and kind_of(old) != kind_of(new):
        return [LineSpan(0, len(old), 0, len(new))]
    return diff(old, new)


def lines_of_state(state: FileSnapshot | None, blob: Callable[[str], bytes | None]) -> Lines:
    """The lines of a file that was found on disk; None is no file. ``blob`` returns the bytes of a hash, None if they are not
    stored: the file is then kept as a whole.
    """
    if state is None:
        return ()
    has_bytes = stat.S_IFMT(state.mode) in {0, stat.S_IFLNK}
    data = blob(state.blob) if has_bytes else b""
    return (make_head(state.mode), f"{BLOB}{state.blob}\n") if data is None else lines_of(data, state.mode)


def is_blob(lines: Lines) -> bool:
    """Whether the file is kept as a whole, without lines of text."""
    return any(line.startswith(BLOB) for line in lines[:2])


def content_of(lines: Lines) -> Content | None:
    """The file that lines represent; None for no file."""
    if not lines:
        return None
    mode = head_of(lines)
    rest = lines if mode is None else lines[1:]
    if is_blob(lines):
        return Content(b"", MODE if mode is None else mode, rest[0].removeprefix(BLOB).rstrip("\n"))
    return Content("".join(rest).encode(), MODE if mode is None else mode)


def text_hash(lines: Lines) -> str:
    """``sha256:`` and the hash of the bytes that lines represent; ``none`` for no file."""
    content = content_of(lines)
    if content is None:
        return "none"
    return f"sha256:{content.blob or hashlib.sha256(content.data).hexdigest()}"
