"""Changes of a file other than its lines: created, deleted, replaced by a link or folder, changed mode."""

from __future__ import annotations

import itertools
import stat
from typing import Final, Literal, NamedTuple

from newel.review.model.file_lines import Kind, content_of, head_of, is_blob, kind_of
from newel.review.model.file_review import FileReview, Lines, is_head

Change = Literal["created", "deleted", "modified", "mode", "kind"]

_NAMES: Final[dict[Kind, str]] = {
    "absent": "nothing",
    "file": "file",
    "link": "symbolic link",
    "folder": "folder",
    "pipe": "named pipe",
}


class FileDescription(NamedTuple):
    """``kind`` is that of the file afterwards, or of the deleted file. ``about`` describes changes that no line
    shows; it is empty for a regular file that was created, deleted or has other lines. It may contain any text,
    because a link's target may.
    """

    kind: Kind
    change: Change
    about: str


def described(before: Lines, after: Lines) -> FileDescription:
    """Describe the change from ``before`` to ``after``."""
    was, now = kind_of(before), kind_of(after)
    if now == "absent":
        return FileDescription(
            was, "deleted", "" if was == "file" else f"{_NAMES[was]} removed{_leads(before)}"
        )
    if was == "absent":
        return FileDescription(now, "created", "" if now == "file" else f"new {_NAMES[now]}{_leads(after)}")
    if was != now:
        return FileDescription(now, "kind", f"{_NAMES[was]} became a {_NAMES[now]}{_leads(after)}")
    if before[1:] != after[1:]:
        return FileDescription(now, "modified", f"{_NAMES[now]}{_leads(after)}" if now == "link" else "")
    return FileDescription(now, "mode", f"mode {_bits(before)} → {_bits(after)}")


def has_other_kinds(review: FileReview) -> bool:
    """Whether a run replaced a regular file by something else, or the reverse, or proposes to."""
    contents = (
        (review.base,),
        (applied_hunk.before for applied_hunk in review.applied),
        (layer.lines for hunk in review.hunks for layer in hunk.layers),
    )
    # Only a head tells a kind; there may be 100,000 hunks, and few have one.
    with_head = (lines for lines in itertools.chain(*contents) if lines and is_head(lines[0]))
    return any(kind_of(lines) != "file" for lines in with_head)


def git_mode(mode: int) -> str:
    """A mode in git's notation, also for folders and pipes, which git does not have."""
    return f"{mode if stat.S_IFMT(mode) else stat.S_IFREG | mode:06o}"


def _leads(lines: Lines) -> str:
    content = content_of(lines)
    if content is None or kind_of(lines) != "link":
        return ""
    return " → (not text)" if is_blob(lines) else f" → {content.data.decode()}"


def _bits(lines: Lines) -> str:
    return f"{stat.S_IMODE(head_of(lines) or 0):03o}"
