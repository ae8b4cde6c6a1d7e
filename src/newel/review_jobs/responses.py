"""Responses of the review API; the structs are the JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from newel.agent.ports import AgentMode
from newel.review.model.file_kinds import Change as FileChange
from newel.review.model.file_lines import Kind
from newel.review.serialize import ChangeView, DiffBundle, FileView
from newel.review_jobs.requests import ContextRow, HunkName
from newel.tools.review import ProposedEdit

JobStatus = Literal["queued", "running", "waiting_for_user", "awaiting_review", "completed", "failed"]
SessionStatus = Literal["active", "archived"]
FileKind = Literal["text", "binary", "too_large", "absent", "directory", "special"]
EntryState = Literal["none", "pending", "accepted", "conflict"]
FileAction = Literal[
    "accept",
    "reject",
    "reopen",
    "peel",
    "split",
    "accept_all_file",
    "reject_all_file",
    "edit",
    "undo",
    "redo",
    "save",
    "rollback",
]
"""The ``action`` of ``review.updated``."""


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Base of responses; the JSON contains every field."""


class SessionCreated(Payload, frozen=True):
    session_id: str
    status: SessionStatus
    created_at: str


class JobStarted(Payload, frozen=True):
    job_id: str
    status: JobStatus


class ChatEntry(Payload, frozen=True):
    """An instruction, or its result. ``tool_calls`` is the number of calls that the job made."""

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


class RevisingJob(Payload, frozen=True):
    """A job that has not ended and proposes a hunk anew; ``instruction`` is shortened."""

    job_id: str
    file_path: str
    hunk_id: str
    status: JobStatus
    instruction: str


class SessionSummary(Payload, frozen=True):
    """``title`` is the start of the first instruction, ``asking_job_id`` the job that waits for an answer; ``revising`` are
    the jobs that are to propose a hunk anew and have not yet done so.
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
    revising: tuple[RevisingJob, ...] = ()


class SessionList(Payload, frozen=True):
    """The newest first."""

    sessions: tuple[SessionSummary, ...]


class AppliedFile(Payload, frozen=True):
    file_path: str
    applied_hunks: int
    rejected_hunks: int


class JobView(Payload, frozen=True):
    """A job. ``diff_bundle`` is set while the job awaits review, and afterwards as far as the ledger still has its hunks;
    ``question`` is set while the job waits for the user, ``revise`` for a job that may change one hunk only.
    """

    id: str
    session_id: str
    status: JobStatus
    instruction: str
    agent_mode: AgentMode | None
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
    revise: HunkName | None = None


class JobSummary(Payload, frozen=True):
    """A job in a list. ``instruction`` is shortened; ``files`` is the number of files with proposals."""

    id: str
    session_id: str
    status: JobStatus
    instruction: str
    created_at: str
    finished_at: str | None
    files: int


class JobList(Payload, frozen=True):
    """The newest first. ``more``: there are older ones."""

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


class ApplyResponse(Payload, frozen=True):
    status: JobStatus
    applied_files: tuple[AppliedFile, ...]


class SavedFile(Payload, frozen=True):
    """``saved_hunks`` were written to the file, ``left_hunks`` stay under review."""

    file_path: str
    saved_hunks: int
    left_hunks: int
    rev: int
    base_file_hash: str


class FileState(FileView, frozen=True):
    """A file under review. ``content`` is the text of its buffer if ``kind`` is ``text``, else null. ``absent``: the file would
    not exist. ``binary``: not UTF-8 text. ``too_large``: more than 2 MiB. ``directory``, ``special``: the path on disk is
    not a file. ``size`` is in bytes; ``base_size`` is that of the file on disk as the ledger knows it, or null.
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
    """A file with undecided (``pending``) or accepted but unsaved hunks (``accepted``); the base of ``conflicts`` of them has
    changed, and ``pending_conflicts`` of these are undecided. The user's own edits need a decision only in a conflict; they
    and accepted hunks are ``unsaved``. ``run_ids`` are the jobs and other runs of the hunks, ``session_ids`` their sessions:
    reviews, chats, agents. ``kind``, ``change`` and
    ``about`` describe the file once all is saved, as in ``BundleFile``; ``is_binary``: it has no lines; ``base_mode`` and
    ``mode`` are its permissions before and after, in octal, null without a file. A deleted and a created file with the same
    content are a move: ``moved_to`` and ``moved_from`` name the other. ``rejected`` and ``applied`` (saved) count other hunks
    of the listed runs.
    """

    file_path: str
    rev: int
    base_file_hash: str
    pending: int
    accepted: int
    conflicts: int
    pending_conflicts: int
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
    rejected: int = 0
    applied: int = 0


class PendingRun(Payload, frozen=True):
    """A run with undecided or unsaved hunks: a job, or the answer to one prompt of a chat or agent. ``title`` is the start of
    the prompt, ``session_id`` the session of the review, chat or agent. A hunk that two runs wrote counts for both.
    ``rejected`` and ``applied`` (saved) include hunks in files that are no longer listed.
    """

    run_id: str
    session_id: str
    title: str
    created_at: str
    files: int
    pending: int
    accepted: int
    rejected: int = 0
    applied: int = 0


class PendingFiles(Payload, frozen=True):
    """``runs`` are those of the hunks in ``files``, the oldest first. Of the ``total`` hunks of these runs, in all files, the user
    has ``decided`` some: accepted, rejected or saved. Each hunk counts once.
    """

    files: tuple[PendingFile, ...]
    runs: tuple[PendingRun, ...]
    decided: int = 0
    total: int = 0


class DecidedFile(Payload, frozen=True):
    """``hunk_ids`` were decided, ``left`` hunks are undecided."""

    file_path: str
    rev: int
    hunk_ids: tuple[str, ...]
    left: int


class DecidedFiles(Payload, frozen=True):
    files: tuple[DecidedFile, ...]


class FolderEntry(Payload, frozen=True):
    """A file or folder. ``waits`` counts undecided or unsaved hunks, including those of all files below a folder. ``state`` is
    that of the least advanced hunk; the user's own edits count as ``accepted``. ``size`` is in bytes, null for a folder or a
    file that is only proposed. ``ignored``: git ignores it, or it is a build product.
    """

    name: str
    kind: Literal["file", "directory"]
    size: int | None
    state: EntryState
    waits: int
    ignored: bool


class Stamps(Payload, frozen=True):
    """A stamp for each path, in the order of the request. It changes with the file on disk, and that of a folder with its names;
    ``none``: nothing is there, or it is not in the project.
    """

    stamps: tuple[str, ...]


class FolderView(Payload, frozen=True):
    """The entries of a folder, folders first, by name; ``folder`` is empty for the project's root. ``more``: there are others."""

    folder: str
    entries: tuple[FolderEntry, ...]
    more: bool


class FoundFiles(Payload, frozen=True):
    """Paths, the best match first."""

    files: tuple[str, ...]
    more: bool


class FileCounts(Payload, frozen=True):
    """The hunks of a run in a file: undecided, accepted but not saved, rejected, saved; and the lines that all but the rejected ones
    add and remove. Hunks that a later edit replaced are not counted. In a list of checkpoints, a file that the run deleted and one that it
    created with the same content are a move: ``moved_to`` and ``moved_from`` name the other.
    """

    file_path: str
    pending: int
    accepted: int
    rejected: int
    applied: int
    added: int
    removed: int
    moved_from: str | None = None
    moved_to: str | None = None


class CheckpointSummary(Payload, frozen=True):
    """A checkpoint in a list. ``is_undone``: its run was undone, and not redone since; ``kept_files`` are those that this undo has left
    as they were, because they had changed.
    """

    checkpoint_id: str
    session_id: str
    job_id: str
    created_at: str
    title: str
    files: tuple[FileCounts, ...]
    is_undone: bool
    kept_files: tuple[str, ...] = ()


class CheckpointList(Payload, frozen=True):
    """The newest first. ``more``: there are older ones."""

    checkpoints: tuple[CheckpointSummary, ...]
    more: bool


class Diff3View(Payload, frozen=True):
    """Three versions of a file; null for no file, or no text. The patches are unified diffs from ``checkpoint_base``."""

    checkpoint_id: str
    file_path: str
    current_file: str | None
    checkpoint_base: str | None
    agent_proposed: str | None
    current_patch: str
    proposed_patch: str


class RollbackFile(Payload, frozen=True):
    """The change of a file's buffer by a rollback."""

    file_path: str
    patch: str
    hunk_ids: tuple[str, ...]


class RollbackConflict(Payload, frozen=True):
    """A hunk, or with an empty ``hunk_id`` a file, that a rollback skips, and why."""

    file_path: str
    hunk_id: str
    reason: str


class RollbackView(Payload, frozen=True):
    """A rollback; ``status`` is ``planned`` for a dry run. It changes the buffers; the next save writes the files.
    ``rollback_checkpoint_id`` is the checkpoint of the state before it.
    """

    checkpoint_id: str
    mode: str
    status: str
    files: tuple[RollbackFile, ...]
    conflicts: tuple[RollbackConflict, ...]
    rollback_checkpoint_id: str | None = None
    buffers: tuple[FileView, ...] = ()


class RewindFile(Payload, frozen=True):
    """A file, at its revision before, and its change by an undo as a unified diff. ``about`` describes what no line shows."""

    file_path: str
    rev: int
    patch: str
    about: str


class OperationView(Payload, frozen=True):
    """How many of the ``total`` files of an undo, redo or rewind are written; 0 of 0 if it does not run."""

    done: int
    total: int


class RewindView(Payload, frozen=True):
    """An undo, redo or rewind; ``status`` is ``planned`` for a dry run, or ``completed``: the files are written.
    ``checkpoint_ids`` are those of the runs, the latest first.
    """

    status: str
    checkpoint_ids: tuple[str, ...]
    files: tuple[RewindFile, ...]
    conflicts: tuple[RollbackConflict, ...]
