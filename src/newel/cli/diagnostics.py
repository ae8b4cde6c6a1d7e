"""What a command that looks into things has found: a line for each, and the remedy below it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from newel.text.format import pluralize
from newel.text.sanitize import sanitize

GOOD: Final = "ok"
BAD: Final = "!!"
NOTE: Final = "  "


class Check(NamedTuple):
    """One line: how it stands, what is looked at, and what was found."""

    mark: str
    subject: str
    words: str


class Checks:
    """Prints each as it comes, and counts those that need the user."""

    def __init__(self) -> None:
        self.problems = 0

    def show(self, findings: Iterator[Check]) -> None:
        for each in findings:
            self.add(each)

    async def show_each(self, findings: AsyncIterator[Check]) -> None:
        async for each in findings:
            self.add(each)

    def add(self, finding: Check) -> None:
        self.problems += finding.mark == BAD
        first, *rest = sanitize(finding.words).split("\n")
        print(f"{finding.mark} {finding.subject:<12} {first}", flush=True)
        for line in rest:
            print(f"{'':16}{line}", flush=True)

    def close(self) -> int:
        """Say how it stands in all; returns the exit code."""
        words = f"{pluralize(self.problems, 'problem')} to solve."
        print("Nothing is wrong." if not self.problems else words)
        return 1 if self.problems else 0
