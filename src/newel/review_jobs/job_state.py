"""What a job has come to: the fold of its journal."""

from __future__ import annotations

from typing import Any

import msgspec

from newel.jobs.engine import FINAL, Job
from newel.review_jobs.schemas import AppliedFile, JobStatus, Question
from newel.tools.review import ProposedEdit

FINISHED: frozenset[JobStatus] = frozenset({"completed", "failed"})
ENDINGS = frozenset({"apply.completed", "job.completed", "job.failed"})
"""The events with which a job has ended."""


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
        """What the model said last."""
        self.checkpoint_id: str | None = None
        self.question: Question | None = None
        self.answer: str | None = None
        """The answer to ``question`` that the model has not been given yet."""
        self.edits: list[ProposedEdit] = []
        self.entries: set[str] = set()
        """Ids of the ledger's entries in which the edits stand."""
        self.hashes: dict[str, str] = {}
        """The files that the job proposed changes of, and the base of each that clients were told last."""
        self.applying: list[str] | None = None
        """The hunks of an application that was begun and has not come to its end."""
        self.applied_ids: list[str] = []
        self.applied: list[AppliedFile] | None = None
        self.tool_calls = 0

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    def settle(self, job: Job) -> None:
        """An engine that gave a job up says so outside its journal."""
        if job.state in FINAL:
            self.give_up(job.updated, job.reason)

    def give_up(self, ts: str, reason: str) -> None:
        """Take over an engine's verdict on a job that has not ended by itself."""
        if not self.is_finished:
            self.status, self.finished_at = "failed", ts
            self.error = reason or "The job was cancelled."

    def fold(self, seq: int, kind: str, ts: str, data: dict[str, Any]) -> None:
        """Take over what an event says."""
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
            case "edits.proposed":
                self.edits += msgspec.convert(data["edits"], list[ProposedEdit])
                self.entries |= set(data["entries"])
                self.hashes |= data["base_file_hashes"]
            case "diff.generated":
                self.status = "awaiting_review"
                self.hashes |= {each["file_path"]: each["base_file_hash"] for each in data["files"]}
            case "review.updated" | "conflict.detected":
                told: dict[str, str] = data["base_file_hashes"]
                self.hashes |= {path: base for path, base in told.items() if path in self.hashes}
                if kind == "conflict.detected":
                    self.applying = None
            case "apply.started":
                self.applying = data["accepted_hunk_ids"]
            case _ if kind in ENDINGS:
                self._fold_end(kind, ts, data)
            case _:
                pass

    def _fold_end(self, kind: str, ts: str, data: dict[str, Any]) -> None:
        self.finished_at = ts
        if kind == "job.failed":
            self.status, self.error = "failed", data["error"]
            return
        self.status = "completed"
        if kind == "apply.completed":
            self.applied_ids, self.applying = self.applying or [], None
            self.applied = msgspec.convert(data["applied_files"], list[AppliedFile])
