"""Prompts for the model of a review job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.review_jobs.requests import ContextRow

SYSTEM: Final = """\
You propose changes to the files of a project. You never write files: the user reviews each change and accepts or rejects it.

How to work:
1. Find the relevant code with search_project, list_files and read_file. Read the lines that you are going to change.
2. If you need information that only the user has, ask one short question with clarify_user. Do not ask what the files can
   answer.
3. Propose all edits for the task with propose_edits. Line numbers start at 1, as in read_file; pass expected_hash if
   read_file returned one. Change only the lines that must change, with a separate edit for each place.
4. If an edit is rejected, read the file again and propose an edit of its current content. Each accepted proposal shifts
   the numbers of the lines below it.
5. Finish with one or two sentences that summarize the proposal, without a tool call.

Paths are relative to the project. You may make at most {max_tool_calls} tool calls."""

NO_CHANGES: Final = "The job ended before it proposed a change. {why}"
TOO_MANY_FAILURES: Final = "The model made {times} malformed proposals in a row. The last error: {problem}"
JOURNAL_FULL: Final = "The job was stopped because its journal reached the limit of {limit} entries."


def system_prompt(max_tool_calls: int) -> str:
    return SYSTEM.format(max_tool_calls=max_tool_calls)


def task(instruction: str, rows: Sequence[ContextRow], changed: str) -> str:
    """The user's message. Each context row is in a fence that is longer than any inside it."""
    parts = [instruction]
    if rows:
        parts.append("The user added this context:")
        parts += [_row(row) for row in rows]
    if changed:
        parts.append(
            "This task was run before, and the files have changed since. Work on their current content. The changes:\n"
            + _fenced(changed)
        )
    return "\n\n".join(parts)


def _row(row: ContextRow) -> str:
    place = row.file_path or row.id
    if row.start_line is not None:
        place += f", lines {row.start_line} to {row.end_line or row.start_line}"
    return f"{row.kind}: {place}" + (f"\n{_fenced(row.content)}" if row.content else "")


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    lines = text.rstrip("\r\n")
    return f"{fence}\n{lines}\n{fence}"
