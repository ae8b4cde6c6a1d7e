"""What goes over the wire between a desk and its clients, as it stands in the JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from newel.review.model.decisions import Mine
from newel.review.model.file_kinds import Change as FileChange
from newel.review.model.file_lines import Kind
from newel.review.serialize import ChangeView, DiffBundle, FileView
from newel.tools.review import ProposedEdit

JobStatus = Literal["queued", "running", "waiting_for_user", "awaiting_review", "completed", "failed"]
SessionStatus = Literal["active", "archived"]
RollbackMode = Literal["hard_all", "scoped_selected"]
FileKind = Literal["text", "binary", "too_large", "absent", "directory", "special"]
EntryState = Literal["none", "pending", "accepted", "conflict"]
FileAction = Literal[
    "accept",
    "reject",
    "reopen",
    "peel",
    "accept_all_file",
    "reject_all_file",
    "edit",
    "undo",
    "redo",
    "save",
    "rollback",
]
"""The ``action`` of ``review.updated``."""

Name = Annotated[str, Meta(max_length=4096)]
"""A path, or an id, that somebody sends."""
MAX_IDS = 100_000
"""Hunks that one request may name."""
MAX_FILES = 10_000
"""Files that one request may name."""


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what a desk answers with; every field stands in the JSON."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a client sends. Unknown fields are refused: a misspelt one must not be as if it were left out."""


# -- requests -----------------------------------------------------------------------------------------


class ContextRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the model is shown with the instruction: a selection or a file, as the user saw it."""

    id: Name
    kind: str = "selection"
    file_path: Name | None = None
    start_line: int | None = None
    end_line: int | None = None
    content: str = ""


class ToolConfig(Request, frozen=True):
    max_tool_calls: int | None = None


class RunRequest(Request, frozen=True):
    session_id: Name
    instruction: str
    context_rows: list[ContextRow] = []
    tool_config: ToolConfig = ToolConfig()


class ClarifyRequest(Request, frozen=True):
    """An answer to a question. None, or ``no_user_answer``, skips it."""

    question_id: Name
    answer: str | None


class NoFields(Request, frozen=True):
    """A body that says nothing, and may be left out."""


class ApplyRequest(Request, frozen=True):
    """The hunks of a job that are to be kept. All others of it are rejected."""

    session_id: Name
    job_id: Name
    accepted_hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)]


class Decision(Request, frozen=True):
    """``accept``, ``reject``, ``reopen`` and ``peel`` are about ``hunk_id``, or about all of ``hunk_ids`` at once.
    ``accept_all_file`` is about all hunks of the file that are undecided and no conflict, ``reject_all_file`` about those
    that are undecided; with ``mine`` also about those in which the user has written. ``mine`` says what becomes of the user's
    own lines in a hunk that is rejected. ``rev`` is the revision that the decision was made on.
    """

    file_path: Name
    rev: int
    action: Literal["accept", "reject", "reopen", "peel", "accept_all_file", "reject_all_file"]
    hunk_id: Name = ""
    hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)] = []
    mine: Mine | None = None


class SeenFile(Request, frozen=True):
    """A file as a window shows it: the hunks that its user has seen."""

    file_path: Name
    hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)]


class DecideAll(Request, frozen=True):
    """``accept`` or ``reject`` what is undecided in files, of the hunks that were seen. Of conflicts none is accepted, and
    hunks in which the user has written are rejected only if ``mine`` says what becomes of that.
    """

    action: Literal["accept", "reject"]
    files: Annotated[list[SeenFile], Meta(min_length=1, max_length=MAX_FILES)]
    mine: Mine | None = None


class Splice(Request, frozen=True):
    """``new_text`` in place of ``delete_lines`` lines of the buffer from line ``start_line`` on, which counts from 1."""

    start_line: int
    delete_lines: int
    new_text: str


class EditRequest(Request, frozen=True):
    """What the user typed. All splices count in the buffer of revision ``rev``; they are apart from each other."""

    file_path: Name
    rev: int
    splices: list[Splice]


class UndoRequest(Request, frozen=True):
    """The latest change of a file's buffer, which has revision ``rev``, is taken back, or made again."""

    file_path: Name
    rev: int


class SaveFile(Request, frozen=True):
    """``rev`` is the revision that was looked at; without one the file is saved as it is reviewed now."""

    file_path: Name
    rev: int | None = None


class SaveRequest(Request, frozen=True):
    """Files to be saved: what is accepted in them, and what the user alone wrote."""

    files: Annotated[list[SaveFile], Meta(min_length=1, max_length=MAX_FILES)]


class RollbackRequest(Request, frozen=True):
    """With ``dry_run`` nothing is changed: the answer says what would be, for the user to confirm."""

    mode: RollbackMode
    hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)] = []
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


class SessionSummary(Payload, frozen=True):
    """A session in the list of all. ``title`` is the beginning of its first instruction, ``asking_job_id`` the job that waits
    for an answer.
    """

    id: str
    status: SessionStatus
    created_at: str
    updated_at: str
    title: str
    jobs: int
    last_job_id: str | None
    pending_review: PendingReview | None
    asking_job_id: str | None


class SessionList(Payload, frozen=True):
    """The latest first."""

    sessions: tuple[SessionSummary, ...]


class AppliedFile(Payload, frozen=True):
    file_path: str
    applied_hunks: int
    rejected_hunks: int


class JobView(Payload, frozen=True):
    """A job as it stands. ``diff_bundle`` is there while it awaits review, and afterwards as far as the ledger knows what became
    of it; ``question`` while it waits for the user.
    """

    id: str
    session_id: str
    status: JobStatus
    instruction: str
    context_rows: tuple[ContextRow, ...]
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


class JobSummary(Payload, frozen=True):
    """A job in a list. ``instruction`` is its beginning; ``files`` is how many it has proposed changes of."""

    id: str
    session_id: str
    status: JobStatus
    instruction: str
    created_at: str
    finished_at: str | None
    files: int


class JobList(Payload, frozen=True):
    """The latest first. ``more``: there are earlier ones."""

    jobs: tuple[JobSummary, ...]
    more: bool


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


class JobEnd(Payload, frozen=True):
    """The last event of a stream: how the job ended."""

    job_id: str
    status: JobStatus
    error: str | None


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


class FileState(FileView, frozen=True):
    """A file under review as a window shows it: the text of its buffer, if ``kind`` is ``text``, else null. ``absent``: it
    would not exist. ``binary``: no UTF-8 text. ``too_large``: more than 2 MiB. ``directory``, ``special``: on the disk there
    is no file. ``size`` is in bytes, ``base_size`` that of the file on the disk as the ledger knows it, null where there is none.
    """

    kind: FileKind
    size: int
    base_size: int | None


class ChangeLog(Payload, frozen=True):
    file: FileState
    changes: tuple[ChangeView, ...]


class SavedFiles(Payload, frozen=True):
    saved_files: tuple[SavedFile, ...]


class PendingFile(Payload, frozen=True):
    """A file with hunks that are to be decided (``pending``), or decided and not saved (``accepted``); ``conflicts`` of them
    stand on lines that changed. What the user alone wrote is to be decided only where it is a conflict; it and what is accepted
    are ``unsaved``. ``run_ids`` are the jobs and other runs that they are of, ``session_ids`` the sessions of
    those: of reviews, of chats, of agents. ``kind``, ``change`` and ``about`` say what becomes of the file if all of that is
    saved, as in ``BundleFile``; ``is_binary`` whether it is kept as one piece; ``base_mode`` and ``mode`` are its permissions before
    and after, in octal, null for no file. A file that was deleted and a new one with the same content are one move: ``moved_to``
    and ``moved_from`` name the other.
    """

    file_path: str
    rev: int
    base_file_hash: str
    pending: int
    accepted: int
    conflicts: int
    unsaved: int
    hunk_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    session_ids: tuple[str, ...]
    kind: Kind
    change: FileChange
    about: str
    is_binary: bool
    base_mode: str | None
    mode: str | None
    moved_from: str | None = None
    moved_to: str | None = None


class PendingRun(Payload, frozen=True):
    """A run whose hunks wait: a job, or what was done for one prompt of a chat or an agent, which ``title`` begins with.
    ``session_id`` is that of the review, the chat or the agent. A hunk in which two runs wrote counts for both.
    """

    run_id: str
    session_id: str
    title: str
    created_at: str
    files: int
    pending: int
    accepted: int


class PendingFiles(Payload, frozen=True):
    """``runs`` are those that the hunks of ``files`` are of, the oldest first."""

    files: tuple[PendingFile, ...]
    runs: tuple[PendingRun, ...]


class DecidedFile(Payload, frozen=True):
    """A file after a decision on all of it: ``hunk_ids`` were decided, ``left`` hunks are undecided."""

    file_path: str
    rev: int
    hunk_ids: tuple[str, ...]
    left: int


class DecidedFiles(Payload, frozen=True):
    files: tuple[DecidedFile, ...]


class FolderEntry(Payload, frozen=True):
    """A file or folder. ``waits`` counts the hunks that are not decided or not saved, of a folder those of all files below
    it, and ``state`` says the least settled of them; what the user alone wrote is as good as ``accepted``. ``size`` is in
    bytes, None of a folder and of a file that is only proposed. ``ignored``: git ignores it, or it is made anew.
    """

    name: str
    kind: Literal["file", "directory"]
    size: int | None
    state: EntryState
    waits: int
    ignored: bool


class FileStamp(Payload, frozen=True):
    """What a file on the disk is known again by, without being read; ``stamp`` is ``none`` where there is none."""

    file_path: str
    stamp: str


class FolderView(Payload, frozen=True):
    """What is in a folder, folders first, by name; ``folder`` is empty for the project's own. ``more``: not all is told."""

    folder: str
    entries: tuple[FolderEntry, ...]
    more: bool


class FoundFiles(Payload, frozen=True):
    """Files by their paths, the best first."""

    files: tuple[str, ...]
    more: bool


class FileCounts(Payload, frozen=True):
    """What has become of the hunks of a run in a file: undecided, accepted and not saved, rejected, saved. Those that a later
    edit wrote over count no more.
    """

    file_path: str
    pending: int
    accepted: int
    rejected: int
    applied: int


class CheckpointSummary(Payload, frozen=True):
    """A checkpoint in a list."""

    checkpoint_id: str
    session_id: str
    job_id: str
    created_at: str
    title: str
    files: tuple[FileCounts, ...]


class CheckpointList(Payload, frozen=True):
    """The latest first. ``more``: there are earlier ones."""

    checkpoints: tuple[CheckpointSummary, ...]
    more: bool


class Diff3View(Payload, frozen=True):
    """A file three times; None where it is no file, or no text. The patches are unified diffs from ``checkpoint_base``."""

    checkpoint_id: str
    file_path: str
    current_file: str | None
    checkpoint_base: str | None
    agent_proposed: str | None
    current_patch: str
    proposed_patch: str


class RollbackFile(Payload, frozen=True):
    """What a rollback does to a file's buffer."""

    file_path: str
    patch: str
    hunk_ids: tuple[str, ...]


class RollbackConflict(Payload, frozen=True):
    """What it leaves alone, and why; ``hunk_id`` is empty where that is a whole file."""

    file_path: str
    hunk_id: str
    reason: str


class RollbackView(Payload, frozen=True):
    """A rollback. ``status`` is ``planned`` of one that was only looked at. The buffers have changed, and the files are
    written with the next save; ``rollback_checkpoint_id`` is how they were before.
    """

    checkpoint_id: str
    mode: str
    status: str
    files: tuple[RollbackFile, ...]
    conflicts: tuple[RollbackConflict, ...]
    rollback_checkpoint_id: str | None = None
    buffers: tuple[FileView, ...] = ()
