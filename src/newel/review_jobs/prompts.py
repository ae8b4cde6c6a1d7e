"""What a review job tells its model: how to work, the task, and for a hunk that is proposed anew, that hunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.review.model.file_lines import head_of
from newel.review.model.file_review import FileReview, HunkPosition, Lines, buffer, is_head
from newel.review_jobs.requests import ContextRow

MAX_HUNK: Final = 64 << 10
"""Characters of each version of a hunk that the model is shown."""

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


def system_prompt(max_tool_calls: int) -> str:
    return SYSTEM.format(max_tool_calls=max_tool_calls)


def task(instruction: str, rows: Sequence[ContextRow], changed: str, about: str = "") -> str:
    """The user's message. Each context row is in a fence that is longer than any inside it. ``about`` describes the hunk
    that the instruction is about.
    """
    parts = [instruction, *([about] if about else [])]
    if rows:
        parts.append("The user added this context:")
        parts += [_row(row) for row in rows]
    if changed:
        parts.append(
            "This task was run before, and the files have changed since. Work on their current content. The changes:\n"
            + _fence(changed)
        )
    return "\n\n".join(parts)


def describe_hunk(review: FileReview, position: HunkPosition, title: str) -> str:
    """A hunk to propose anew: its lines in the buffer and in the file. ``title`` is what it was proposed for."""
    hunk, start, end = position
    text = buffer(review)
    head = int(head_of(text) is not None)
    here, old = text[start:end], review.base[hunk.a : hunk.b]
    first, last = max(start - head, 0) + 1, max(end - head, 0)
    if hunk.is_shown:
        lines = "no lines (it only removes some)" if first > last else f"the lines {first} to {last}"
        parts = [f"This is about one proposed change of {review.path}: {lines} as you read the file now."]
        parts += [*_quoted("The proposal:", here), *_quoted("The lines that it replaces on disk:", old)]
    else:
        parts = [
            f"This is about one proposed change of {review.path} that is no longer in the file.",
            *_quoted("The proposal that was not taken:", hunk.top.lines),
            *_quoted(f"The file now has, from line {first}:", here),
        ]
    if title:
        parts.append(f"It was proposed for: {title}")
    place = f"before line {first}" if first > last else f"of the lines {first} to {last} of {review.path}"
    parts.append(
        f"Propose a new version {place} with propose_edits, as the instruction says; other edits are refused. The user has "
        "decided on the rest separately. If something else has to change with it, say so in your summary."
    )
    return "\n\n".join(parts)


def _quoted(title: str, lines: Lines) -> list[str]:
    text = "".join(line for line in lines if not is_head(line))
    return [f"{title}\n{_fence(text[:MAX_HUNK])}"] if text else []


def _row(row: ContextRow) -> str:
    place = row.file_path or row.id
    if row.start_line is not None:
        place += f", lines {row.start_line} to {row.end_line or row.start_line}"
    return f"{row.kind}: {place}" + (f"\n{_fence(row.content)}" if row.content else "")


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    lines = text.rstrip("\r\n")
    return f"{fence}\n{lines}\n{fence}"
