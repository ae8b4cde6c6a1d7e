"""What the model of a review job is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.review_jobs.schemas import ContextRow

SYSTEM: Final = """\
You propose changes to the files of a project. You never write files yourself: a person reviews each of your changes and
keeps or rejects it.

Work like this:
1. Find what you need with search_project, list_files and read_file. Read the lines that you mean to change.
2. If something that only the user can know is missing, ask one short question with clarify_user. Do not ask what the files
   can tell you.
3. Propose all edits of the task with propose_edits. Line numbers count from 1, as read_file shows them; give
   expected_hash where read_file gave it to you. Change only the lines that have to change, and make one edit for each place.
4. When an edit is refused, read the file anew and propose it again on what it says now. After each accepted proposal the
   numbers of the lines behind it have moved.
5. End with one or two sentences on what you propose, without a tool call.

Paths are relative to the project. You may make {max_tool_calls} tool calls in all."""

NO_CHANGES: Final = "The job ended before it proposed a change. {why}"
TOO_MANY_FAILURES: Final = (
    "The model's edits did not fit the schema {times} times in a row. The last time: {problem}"
)
FULL: Final = "The job's journal has its {limit} entries: it was ended."


def system_prompt(max_tool_calls: int) -> str:
    return SYSTEM.format(max_tool_calls=max_tool_calls)


def task(instruction: str, rows: Sequence[ContextRow], changed: str) -> str:
    """The user's message. Context rows are fenced by a line that their own text does not hold."""
    parts = [instruction]
    if rows:
        parts.append("The user added this as context:")
        parts += [_row(row) for row in rows]
    if changed:
        parts.append(
            "This was proposed before, and then the files changed. Start from how they are now. What changed since:\n"
            + _fenced(changed)
        )
    return "\n\n".join(parts)


def _row(row: ContextRow) -> str:
    where = row.file_path or row.id
    if row.start_line is not None:
        where += f", lines {row.start_line} to {row.end_line or row.start_line}"
    return f"{row.kind}: {where}" + (f"\n{_fenced(row.content)}" if row.content else "")


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    lines = text.rstrip("\r\n")
    return f"{fence}\n{lines}\n{fence}"
