"""The state of a job, reduced from its journal."""

from __future__ import annotations

from typing import Any

import msgspec

from newel.jobs.engine import FINAL, Job
from newel.review_jobs.responses import AppliedFile, JobStatus, Question
from newel.tools.review import ProposedEdit

FINISHED: frozenset[JobStatus] = frozenset({"completed", "failed"})
ENDINGS = frozenset({"apply.completed", "job.completed", "job.failed"})
"""The events that end a job."""


class JobState:
    """The state after the events up to ``seq``."""

    def __init__(self, created_at: str) -> None:
        self.seq = 0
        self.status: JobStatus = "queued"
        self.created_at = created_at
        self.started_at: str | None = None
        self.finished_at: str | None = None
        self.error: str | None = None
        self.summary = ""
        """The model's last message."""
        self.checkpoint_id: str | None = None
        self.question: Question | None = None
        self.answer: str | None = None
        """The answer to ``question``, until the model has received it."""
        self.answers: dict[str, str] = {}
        """All answers, by question id."""
        self.edits: list[ProposedEdit] = []
        self.entries: set[str] = set()
        """Ids of the ledger's entries that hold the edits."""
        self.hashes: dict[str, str] = {}
        """The files with proposals, each with the hash of the base that clients know."""
        self.applying: list[str] | None = None
        """The accepted hunks of an unfinished application."""
        self.applied_ids: list[str] = []
        self.applied: list[AppliedFile] | None = None
        self.tool_calls = 0

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    def reconcile(self, job: Job) -> None:
        """Adopt the end of a job that the engine recorded outside the journal."""
        if job.state in FINAL:
            self.abandon(job.updated, job.reason)

    def abandon(self, ts: str, reason: str) -> None:
        """Fail a job that has not ended by itself."""
        if not self.is_finished:
            self.status, self.finished_at = "failed", ts
            self.error = reason or "The job was cancelled."

    def reduce(self, seq: int, kind: str, ts: str, data: dict[str, Any]) -> None:
        """Apply event number ``seq``."""
        self.seq = seq
        match kind:
            case "job.started":
                self.status, self.started_at = "running", ts
            case "checkpoint.created":
                self.checkpoint_id = data["checkpoint_id"]
            case "agent.message":
                self.summary = data["text"]
            case "tool.call.completed":
                self.tool_calls += 1
                if data["name"] == "clarify_user":
                    self.question = self.answer = None
            case "clarification.requested":
                self.status = "waiting_for_user"
                self.question, self.answer = Question(data["question_id"], data["question"]), None
            case "clarification.received":
                self.status, self.answer = "running", data["answer"]
                self.answers[data["question_id"]] = data["answer"]
            case "edits.proposed":
                self.edits += msgspec.convert(data["edits"], list[ProposedEdit])
                self.entries |= set(data["entries"])
                self.hashes |= data["base_file_hashes"]
            case "diff.generated":
                self.status = "awaiting_review"
                self.hashes |= {file["file_path"]: file["base_file_hash"] for file in data["files"]}
            case "review.updated" | "conflict.detected":
                hashes: dict[str, str] = data["base_file_hashes"]
                self.hashes |= {path: base for path, base in hashes.items() if path in self.hashes}
                if kind == "conflict.detected":
                    self.applying = None
            case "apply.started":
                self.applying = data["accepted_hunk_ids"]
            case _ if kind in ENDINGS:
                self._reduce_end(kind, ts, data)
            case _:
                pass

    def _reduce_end(self, kind: str, ts: str, data: dict[str, Any]) -> None:
        self.finished_at = ts
        if kind == "job.failed":
            self.status, self.error = "failed", data["error"]
            return
        self.status = "completed"
        if kind == "apply.completed":
            self.applied_ids, self.applying = self.applying or [], None
            self.applied = msgspec.convert(data["applied_files"], list[AppliedFile])
