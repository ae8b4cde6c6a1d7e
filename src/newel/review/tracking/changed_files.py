"""What a command has changed, in numbers, for the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from newel.review.model.file_lines import Lines, head_of, is_blob, lines_of_state, spans_of
from newel.workspace.port import ChangedFile
from newel.workspace.snapshots.port import FileChange

MOST_COUNTED: Final = 20
"""Files whose lines are counted: the others need not wait for it."""

LONGEST: Final = 20_000
"""Lines of a file beyond which they are not counted."""


def changed_files(
    changes: Sequence[FileChange], find_blob: Callable[[str], bytes | None]
) -> list[ChangedFile]:
    """The files of recorded changes; ``find_blob`` returns the bytes of a hash."""
    return [
        _counted(change, find_blob) if number < MOST_COUNTED else ChangedFile(change.path, _kind(change))
        for number, change in enumerate(changes)
    ]


def _kind(change: FileChange) -> Literal["new", "deleted", "changed"]:
    return "new" if change.before is None else "deleted" if change.after is None else "changed"


def _without_head(lines: Lines) -> Lines:
    """The lines of the file itself: its mode is none."""
    return lines if head_of(lines) is None else lines[1:]


def _counted(change: FileChange, find_blob: Callable[[str], bytes | None]) -> ChangedFile:
    before, after = (lines_of_state(state, find_blob) for state in (change.before, change.after))
    if is_blob(before) or is_blob(after) or max(len(before), len(after)) > LONGEST:
        return ChangedFile(change.path, _kind(change))
    spans = spans_of(_without_head(before), _without_head(after))
    return ChangedFile(
        change.path,
        _kind(change),
        sum(span.b1 - span.b0 for span in spans),
        sum(span.a1 - span.a0 for span in spans),
    )
