"""What a run of an agent is about to do to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newel.agent.messages import new_id, now

if TYPE_CHECKING:
    from newel.review.store.ledger import Checkpoint
    from newel.workspace.snapshots.tree import FileSnapshot


class TrackedRun:
    """One prompt and all that is done for it. ``checkpoint`` is made with its first effect."""

    def __init__(self, session: str, *, id: str = "", title: str = "") -> None:  # noqa: A002 — the field's name
        self.id = id or new_id()
        self.session = session
        self.title = title
        self.began = now()
        self.has_acted = False
        """Whether a tool was called that may change something."""
        self.checkpoint: Checkpoint | None = None


class TrackedOperation:
    """Something that is about to happen: to one file, or to any for ``path`` None. ``notices`` are for a person."""

    def __init__(self, run: TrackedRun, path: str | None) -> None:
        self.run = run
        self.path = path
        self.before: FileSnapshot | None = None
        self.is_left_out = False
        self.began = now()
        self.note = ""
        self.notices: list[str] = []
