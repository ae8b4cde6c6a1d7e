"""What goes over the wire between a desk and its clients, as it stands in the JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from newel.review.decisions import Mine
from newel.review.views import Change, DiffBundle, FileView
from newel.tools.project import ProposedEdit

JobStatus = Literal["queued", "running", "waiting_for_user", "awaiting_review", "completed", "failed"]
SessionStatus = Literal["active", "archived"]
RollbackMode = Literal["hard_all", "scoped_selected"]


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what a desk answers with; every field stands in the JSON."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a client sends. Unknown fields are refused: a misspelt one must not be as if it were left out."""


# -- requests -----------------------------------------------------------------------------------------


class ContextRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the model is shown with the instruction: a selection or a file, as the user saw it."""

    id: str
    kind: str = "selection"
    file_path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    content: str = ""


class ToolConfig(Request, frozen=True):
    max_tool_calls: int | None = None


class RunRequest(Request, frozen=True):
    session_id: str
    instruction: str
    context_rows: list[ContextRow] = []
    tool_config: ToolConfig = ToolConfig()


class Decision(Request, frozen=True):
    """``accept``, ``reject``, ``reopen`` and ``peel`` are about ``hunk_id``; ``accept_all_file`` is about all hunks of the
    file that are undecided and no conflict. ``mine`` says what becomes of the user's own lines in a hunk that is rejected.
    ``rev`` is the revision that the decision was made on.
    """

    file_path: str
    rev: int
    action: Literal["accept", "reject", "reopen", "peel", "accept_all_file"]
    hunk_id: str = ""
    mine: Mine | None = None


class Splice(Request, frozen=True):
    """``new_text`` in place of ``delete_lines`` lines of the buffer from line ``start_line`` on, which counts from 1."""

    start_line: int
    delete_lines: int
    new_text: str


class EditRequest(Request, frozen=True):
    """What the user typed. All splices count in the buffer of revision ``rev``; they are apart from each other."""

    file_path: str
    rev: int
    splices: list[Splice]


class RollbackRequest(Request, frozen=True):
    """With ``dry_run`` nothing is changed: the answer says what would be, for the user to confirm."""

    mode: RollbackMode
    hunk_ids: list[str] = []
    dry_run: bool = False


# -- answers ------------------------------------------------------------------------------------------


class SessionCreated(Payload, frozen=True):
    session_id: str
    status: SessionStatus
    created_at: str


class JobStarted(Payload, frozen=True):
    job_id: str
    status: JobStatus


class ChatEntry(Payload, frozen=True):
    """Something said in a session. ``tool_calls`` is how many calls the answer took."""

    role: Literal["user", "assistant"]
    text: str
    job_id: str
    ts: str
    tool_calls: int = 0


class PendingReview(Payload, frozen=True):
    job_id: str
    files: tuple[str, ...]


class SessionView(Payload, frozen=True):
    id: str
    status: SessionStatus
    created_at: str
    updated_at: str
    chat: tuple[ChatEntry, ...]
    context_rows: tuple[ContextRow, ...]
    last_job_id: str | None
    pending_review: PendingReview | None


class Question(msgspec.Struct, frozen=True):
    question_id: str
    question: str


class AppliedFile(Payload, frozen=True):
    file_path: str
    applied_hunks: int
    rejected_hunks: int


class JobView(Payload, frozen=True):
    """A job as it stands. ``diff_bundle`` is there while it awaits review; ``question`` while it waits for the user."""

    id: str
    session_id: str
    status: JobStatus
    instruction: str
    created_at: str
    started_at: str | None
    finished_at: str | None
    cursor: int
    summary: str
    proposed_edits: tuple[ProposedEdit, ...]
    diff_bundle: DiffBundle | None
    question: Question | None
    checkpoint_id: str | None
    applied_files: tuple[AppliedFile, ...] | None
    error: str | None
    rerun_of: str | None


class EventView(Payload, frozen=True):
    cursor: int
    type: str
    ts: str
    data: dict[str, Any]


class EventsPage(Payload, frozen=True):
    job_id: str
    status: JobStatus
    next_cursor: int
    events: tuple[EventView, ...]


class Applied(Payload, frozen=True):
    status: JobStatus
    applied_files: tuple[AppliedFile, ...]


class SavedFile(Payload, frozen=True):
    """``saved_hunks`` went into the file, ``left_hunks`` stay under review."""

    file_path: str
    saved_hunks: int
    left_hunks: int
    rev: int
    base_file_hash: str


class ChangeLog(Payload, frozen=True):
    file: FileView
    changes: tuple[Change, ...]
