"""Requests of the review API; the structs are the JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from newel.providers.routing import AgentModeName
from newel.review.model.decisions import Mine

RollbackMode = Literal["hard_all", "scoped_selected"]

Name = Annotated[str, Meta(max_length=4096)]
"""A path or id in a request."""
MAX_IDS = 100_000
"""Hunks in one request."""
MAX_STAMPS = 1_000
"""Files and folders whose stamps are asked for in one request."""
MAX_FILES = 10_000
"""Files in one request."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests. Unknown fields are refused, so that a misspelt one is not ignored."""


class ContextRow(msgspec.Struct, frozen=True, kw_only=True):
    """Context for the instruction: a selection or a file, as the user saw it."""

    id: Name
    kind: str = "selection"
    file_path: Name | None = None
    start_line: int | None = None
    end_line: int | None = None
    content: str = ""


class ToolConfig(Request, frozen=True):
    max_tool_calls: int | None = None


class HunkName(Request, frozen=True):
    """A hunk of a file as the user saw it."""

    file_path: Name
    hunk_id: Name


class RunRequest(Request, frozen=True):
    """``agent_mode`` chooses the model that works: ``local``, ``remote`` or ``hybrid_auto``; None is the configured mode.
    With ``revise`` the instruction is about that hunk, and the job may propose only a new version of it.
    """

    session_id: Name
    instruction: str
    context_rows: list[ContextRow] = []
    tool_config: ToolConfig = ToolConfig()
    agent_mode: AgentModeName | None = None
    revise: HunkName | None = None


class ClarifyRequest(Request, frozen=True):
    """The answer to a question. None, or ``no_user_answer``, skips the question."""

    question_id: Name
    answer: str | None


class NoFields(Request, frozen=True):
    """An empty body, which may be omitted."""


class ApplyRequest(Request, frozen=True):
    """The hunks of a job to save. Its other hunks are rejected."""

    session_id: Name
    job_id: Name
    accepted_hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)]


class Decision(Request, frozen=True):
    """``accept``, ``reject``, ``reopen`` and ``peel`` apply to ``hunk_id``, or to all of ``hunk_ids`` together.
    ``accept_all_file`` applies to the undecided hunks of the file without conflict, ``reject_all_file`` to the undecided
    ones; those with edits by the user are included only with ``mine``. ``mine`` decides on the user's own lines in a
    rejected hunk. ``split`` replaces a hunk by its parts, ``HUNK-1``, ``HUNK-2`` and so on, or fails with 409 if it has none. ``rev``
    is the revision that the user saw.
    """

    file_path: Name
    rev: int
    action: Literal["accept", "reject", "reopen", "peel", "split", "accept_all_file", "reject_all_file"]
    hunk_id: Name = ""
    hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)] = []
    mine: Mine | None = None


class SeenFile(Request, frozen=True):
    """A file with the hunks that the user has seen."""

    file_path: Name
    hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)]


class DecideAll(Request, frozen=True):
    """``accept`` or ``reject`` the undecided hunks of files that the user has seen. Conflicts are not accepted; hunks with
    edits by the user are rejected only if ``mine`` decides on these edits. ``reopen`` takes the decisions on these hunks back.
    """

    action: Literal["accept", "reject", "reopen"]
    files: Annotated[list[SeenFile], Meta(min_length=1, max_length=MAX_FILES)]
    mine: Mine | None = None


class Splice(Request, frozen=True):
    """Replaces ``delete_lines`` lines of the buffer by ``new_text``, starting at line ``start_line``, counted from 1."""

    start_line: int
    delete_lines: int
    new_text: str


class EditRequest(Request, frozen=True):
    """Edits by the user. All splices refer to the buffer at revision ``rev`` and do not overlap."""

    file_path: Name
    rev: int
    splices: list[Splice]


class StampsRequest(Request, frozen=True):
    """Paths of files and folders, relative to the project; an empty one is its root."""

    paths: Annotated[list[str], Meta(max_length=MAX_STAMPS)]


class UndoRequest(Request, frozen=True):
    """Undo, or redo, the latest change of a file's buffer, which is at revision ``rev``."""

    file_path: Name
    rev: int


class SaveFile(Request, frozen=True):
    """``rev`` is the revision that the user saw; without it, the current revision is saved. An accepted conflict replaces what others
    wrote on disk since it was proposed: without ``overwrite`` it is refused with 409 (``overwrites_disk``), and no file is written.
    """

    file_path: Name
    rev: int | None = None
    overwrite: bool = False


class SaveRequest(Request, frozen=True):
    """Save the accepted hunks and the user's own edits of files."""

    files: Annotated[list[SaveFile], Meta(min_length=1, max_length=MAX_FILES)]


class RollbackRequest(Request, frozen=True):
    """With ``dry_run`` nothing changes: the response shows what would, for confirmation."""

    mode: RollbackMode
    hunk_ids: Annotated[list[Name], Meta(max_length=MAX_IDS)] = []
    dry_run: bool = False


class PlannedRevision(Request, frozen=True):
    """A file that would change, at the revision that the user saw."""

    file_path: Name
    rev: int


class UndoRunRequest(Request, frozen=True):
    """With ``dry_run`` nothing changes: the response shows what would, for confirmation. Otherwise ``files`` are those of that
    response, all of them; if they are not as they were, nothing changes. ``operation`` is a name of the client's choice, by which it can
    ask how far this has come, and stop it.
    """

    dry_run: bool = False
    files: Annotated[list[PlannedRevision], Meta(max_length=MAX_FILES)] = []
    operation: Annotated[str, Meta(max_length=100)] = ""


class RewindRequest(UndoRunRequest, frozen=True, kw_only=True):
    """Undo the runs of a session that began at ``since`` or later: the ``timestamp`` of a message."""

    session_id: Name
    since: Name
