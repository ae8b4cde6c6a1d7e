"""Output of the commands that check something: a line for each check, and its remedy below."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from newel.agent.formatting import pluralize
from newel.text.sanitize import sanitize

GOOD: Final = "ok"
BAD: Final = "!!"
NOTE: Final = "  "


class Check(NamedTuple):
    """A result: its mark, its subject, and the finding, with the remedy on further lines."""

    mark: str
    subject: str
    words: str


class Checks:
    """Prints checks as they come, and counts the problems."""

    def __init__(self) -> None:
        self.problems = 0

    def show(self, findings: Iterator[Check]) -> None:
        for finding in findings:
            self.add(finding)

    async def show_each(self, findings: AsyncIterator[Check]) -> None:
        async for finding in findings:
            self.add(finding)

    def add(self, finding: Check) -> None:
        self.problems += finding.mark == BAD
        first, *rest = sanitize(finding.words).split("\n")
        print(f"{finding.mark} {finding.subject:<12} {first}", flush=True)
        for line in rest:
            print(f"{'':16}{line}", flush=True)

    def close(self) -> int:
        """Print the summary; return the exit code."""
        message = f"{pluralize(self.problems, 'problem')} found."
        print("No problems found." if not self.problems else message)
        return 1 if self.problems else 0
