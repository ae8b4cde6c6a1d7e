"""Runs of agents, and the operations that they do on files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from newel.agent.errors import HostUnavailable, NewelError
from newel.agent.messages import new_id, now

if TYPE_CHECKING:
    from newel.review.store.ledger import Checkpoint, Extent
    from newel.workspace.port import WriteResult
    from newel.workspace.snapshots.port import FileChange
    from newel.workspace.snapshots.tree import FileSnapshot


MAX_TITLE: Final = 80
"""Characters of the title of a run, which is the start of its prompt."""


RECORDS_DELETED: Final = (
    "Something other than Newel has deleted records of changes while a command ran. What was recorded before may not be undone "
    "any more; look at `newel review` and at your files."
)

SCAN_TIMED_OUT: Final = (
    "The interrupted command may have changed files; scanning for changes timed out. "
    "They will be recorded with the next command, or when Newel is next used here."
)

KILLED: Final = 'Newel was killed during "{title}". {text}'
"""About changes of a killed run that are found by the next process, but not recorded."""


class TrackedRun:
    """One prompt and all that is done for it. Its ``checkpoint`` is created when its first change is recorded."""

    def __init__(self, session: str, *, id: str = "", title: str = "") -> None:  # noqa: A002 — the field's name
        self.id = id or new_id()
        self.session = session
        self.title = title
        self.started_at = now()
        self.created = ""
        """When its checkpoint counts as created; empty for when its first change is recorded."""
        self.commands_began_ns = 0
        """When the first command began, in nanoseconds since 1970; 0 without one."""
        self.effect_id = ""
        """Of the run in the effect log, from its first command to its end."""
        self.is_between = False
        """Whether it stands for what happens after a run, until the next one."""
        self.has_acted = False
        """Whether a tool was called that may change something."""
        self.checkpoint: Checkpoint | None = None

    def continued_by(self, process: str) -> TrackedRun:
        """What changes from the end of this run on, while a process that it left behind still runs. It may be the user's doing, so
        it is not undone with this run, and counts as older than the next one.
        """
        between = TrackedRun(self.session, title=f"While {process} ran in the background"[:MAX_TITLE])
        between.created = between.started_at
        between.is_between = True
        return between


class TrackedOperation:
    """A change of one file, or a command that may change any file (``path`` None). ``expect`` is the digest that a write
    requires of the file; the path is then resolved, and no link in it is followed. ``notices`` are messages for the user, ``changes``
    what was recorded; ``error`` says why the operation is not recorded.
    """

    def __init__(self, run: TrackedRun, path: str | None, *, expect: str | None = None) -> None:
        self.run = run
        self.path = path
        self.expect = expect
        self.started_at = now()
        self.is_tracked = False
        self.extent: Extent | None = None
        """Of the ledger when a command began."""
        self.effect_id = ""
        self.before: FileSnapshot | None = None
        self.folders: list[str] = []
        """Folders above the file that did not exist before."""
        self.write: tuple[WriteResult, bytes] | None = None
        """The result of a write that succeeded, and what it wrote. Otherwise the file is read to find out."""
        self.is_refused = False
        """Whether the file was not as expected, so that nothing was written: what changed it was something else."""
        self.notices: list[str] = []
        self.changes: list[FileChange] = []
        self.error: Exception | None = None


T = TypeVar("T")

RETRY_DELAYS_S: Final = (0.0, 0.05)
"""Seconds before each retry."""


async def retry(work: Callable[[], Awaitable[T]]) -> T:
    """The result of ``work``, repeated if it fails: most errors of a disk are gone a moment later. It must be safe to repeat. Raises
    its last error, and ``HostUnavailable`` at once, as the connection has its own timeout.
    """
    for delay in RETRY_DELAYS_S:
        try:
            return await work()
        except HostUnavailable:
            raise
        except (NewelError, OSError):
            await anyio.sleep(delay)
    return await work()
