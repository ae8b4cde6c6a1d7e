"""What of a job's folder does not travel with a snapshot."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

from newel.agent.messages import Wire
from newel.text.format import format_size, join_names
from newel.text.sanitize import escape_line

Reason = Literal[
    "ignored",
    "secret",
    "large",
    "special",
    "unreadable",
    "repository",
    "name",
    "deep",
    "privileged",
    "rules",
    "broken",
]

_WORDS: Final[dict[Reason, str]] = {
    "ignored": "files that git ignores, or the rules without git",
    "secret": "files that often hold secrets",
    "large": "files above the limit for one file",
    "special": "sockets, pipes and devices",
    "unreadable": "files that cannot be read",
    "repository": "the history of git repositories inside of the folder, and of those that lead out of it",
    "name": "files with names that git cannot hold",
    "deep": "folders that are nested too deeply",
    "privileged": "setuid and setgid bits",
    "broken": "branches and tags whose commits are missing in the clone, or that lead to none",
    "rules": "an answer of git about what it ignores in these folders, so that all but well-known build folders travels",
}

_MAX_NAMES: Final = 1000
_SHOWN: Final = 5


class LeftOutFile(Wire, frozen=True):
    """``path`` is relative to the job's folder; bytes that are not UTF-8 are replaced. ``size`` is in bytes, where it is the reason."""

    path: str
    reason: Reason
    size: int = 0


class SnapshotReport(Wire, frozen=True, kw_only=True):
    """What does not travel. ``counts`` has the number for each reason; ``left_out`` at most the first 1,000 names of each.
    ``files`` and ``size`` (bytes) are those of the project's files that do travel.
    """

    files: int
    size: int
    counts: dict[str, int]
    left_out: tuple[LeftOutFile, ...]

    def words(self) -> list[str]:
        """One line for each reason; none if everything travels."""
        lines: list[str] = []
        for reason, text in _WORDS.items():
            if count := self.counts.get(reason, 0):
                names = [_shown(each) for each in self.left_out if each.reason == reason][:_SHOWN]
                more = f" and {count - len(names):,} more" if count > len(names) else ""
                lines.append(f"{text}: {join_names(names, shown=_SHOWN)}{more}.")
        return lines


def _shown(left_out: LeftOutFile) -> str:
    return f"{left_out.path} ({format_size(left_out.size)})" if left_out.size else left_out.path


class ReportBuilder:
    def __init__(self) -> None:
        self.files = 0
        self.size = 0
        self._counts: Counter[str] = Counter()
        self._left_out: list[LeftOutFile] = []

    def leave_out(self, path: bytes, reason: Reason, size: int = 0) -> None:
        self._counts[reason] += 1
        if self._counts[reason] <= _MAX_NAMES:
            shown = escape_line(path.decode(errors="replace"), 1000)
            self._left_out.append(LeftOutFile(shown, reason, size))

    def has(self, reason: Reason) -> bool:
        return reason in self._counts

    def report(self) -> SnapshotReport:
        ordered = sorted(self._left_out, key=lambda each: (each.reason, each.path))
        return SnapshotReport(
            files=self.files, size=self.size, counts=dict(self._counts), left_out=tuple(ordered)
        )
