"""The process that searches texts for a regular expression: one that takes for ever can be ended only with its process.

Standard input is a line of JSON (a ``Task``) and the bytes of the texts, one behind the other; standard output is a line of JSON for
each text with matches. It imports as little as possible, to start fast.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from typing import Any, Final

LONGEST_LINE: Final = 500
"""Characters; of a longer line the part around the match is shown."""


def compile_pattern(pattern: str, *, ignore_case: bool, literal: bool) -> re.Pattern[str]:
    """Raises ``re.error`` and ``OverflowError``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a syntax that may change: it would be printed over the screen
        return re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0)


def main() -> None:
    task: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    expression = compile_pattern(task["pattern"], ignore_case=task["ignore_case"], literal=task["literal"])
    rest, room = task["limit"] + 1, task["room"]
    for index, size in enumerate(task["sizes"]):
        data = sys.stdin.buffer.read(size)
        found = search_text(data.decode(errors="replace"), expression, task["context"], rest)
        if found is None:
            continue
        numbers, lines = found
        answer = json.dumps({"index": index, "numbers": numbers, "lines": lines})
        sys.stdout.write(f"{answer}\n")
        room -= len(answer)
        rest -= len(numbers) if task["counts_lines"] else 1
        if rest <= 0 or room < 0:
            return


def search_text(
    text: str, expression: re.Pattern[str], context: int, limit: int
) -> tuple[list[int], dict[int, str]] | None:
    """The numbers of at most ``limit`` matching lines, counted from 1, and these lines with those around them; None without a match."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    numbers: list[int] = []
    shown: dict[int, str] = {}
    for number, ended in enumerate(lines, 1):
        line = ended.removesuffix("\r")
        match = expression.search(line)
        if match is None:
            continue
        numbers.append(number)
        for near in range(max(1, number - context), min(len(lines), number + context) + 1):
            shown.setdefault(near, cut(lines[near - 1].removesuffix("\r"), 0))
        shown[number] = cut(line, match.start())
        if len(numbers) == limit:
            break
    return (numbers, shown) if numbers else None


def cut(line: str, at: int) -> str:
    """A line for display: of a long one, the part around a place."""
    if len(line) <= LONGEST_LINE:
        return line
    start = max(0, at - LONGEST_LINE // 2)
    end = start + LONGEST_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


if __name__ == "__main__":
    main()
