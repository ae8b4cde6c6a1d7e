"""An agent that works in a copy of the project: what it does there is proposed, and the project's files are left alone.

    the copy          the project as it would be if all that is proposed were kept, made so before each run
    after an effect   each file of the copy that changed is a proposal of the run, in the project's ledger
    a person          keeps or rejects, hunk by hunk; only then is anything written

Nothing here is a sandbox: a command can name the project's own files by their whole path. What one does that names the
project's folder is recorded, as an agent's doing is elsewhere, and said.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import WorkspaceError
from newel.agent.events import AgentEvent, AgentStart
from newel.review.last_run import LastRun
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.workspace.port import Completed, DirectoryEntry, FileInfo, OnOutput
from newel.workspace.tracked import TrackedWorkspace

if TYPE_CHECKING:
    from pathlib import Path

    from newel.review.model.proposal import HunkSize
    from newel.review.tracking.change_recorder import ChangeRecorder
    from newel.session.coding_agent import CodingAgent
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits
    from newel.workspace.mirror.port import FileContent

OUTSIDE: Final = (
    "{path} was not changed: in this run only files of the project can be, in their copy at {root}, as a person reviews each "
    "change before it takes effect."
)
COPYING: Final = "Copying the files of {root}: the agent works in the copy, and what it changes there waits for your decision."
LEAKED: Final = "A command named the project's own folder and changed files there, past the review: {paths}. `newel undo` takes it back."


class IsolatedWorkspace:
    """Fulfils ``newel.workspace.port.Workspace`` over a copy of the project that ``outer`` is of. Use ``open``."""

    def __init__(
        self, outer: RecordingWorkspace, mirror: Mirror, copy: TrackedWorkspace, hunks: HunkSize
    ) -> None:
        self._outer = outer
        self._mirror = mirror
        self._hunks = hunks
        self._inner = RecordingWorkspace(copy, self)
        self._recorder: ChangeRecorder | None = None
        self._opening = anyio.Lock()
        self._lock = anyio.Lock()
        self._is_stale = True

    @classmethod
    async def open(
        cls,
        workspace: TrackedWorkspace,
        outer: RecordingWorkspace,
        home: Path,
        *,
        copied: MirrorLimits,
        hunks: HunkSize,
    ) -> IsolatedWorkspace:
        """``workspace`` is the project, which ``outer`` records. Its copy is filled as soon as a run begins; of this machine it lies in
        Newel's folder ``home``. ``copied`` are the limits of the project, ``hunks`` those of what is proposed. Raises
        ``WorkspaceError``.
        """
        mirror = await workspace.mirror(home / "copies", limits=copied, left_out=[str(home)])
        return cls(outer, mirror, workspace.at(mirror.root), hunks)

    def attend(self, agent: CodingAgent) -> None:
        """As ``RecordingWorkspace.attend``, which is called for the project's own files too."""
        agent.subscribe(self._see)
        self._inner.attend(agent)

    def _see(self, event: AgentEvent) -> None:
        if isinstance(event, AgentStart):
            self._is_stale = True
            self._mirror.start()  # while the model thinks

    async def of(self, workspace: TrackedWorkspace) -> ChangeRecorder:
        """The recorder of the copy, whose changes are proposals in the project's ledger. Raises ``LedgerError``."""
        async with self._opening:
            if self._recorder is None:
                from newel.review.tracking.copy_recorder import recorder_of_copy

                project = (await self._outer.recorder()).project
                self._recorder = recorder_of_copy(workspace, project, self._mirror, self._hunks)
                weakref.finalize(self, self._recorder.let_go)
            return self._recorder

    def acts(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        """The project's own workspace hears of it as well."""

    # -- the copy -----------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Make the copy what it shall be at the beginning of a run."""
        async with self._lock:
            if not self._is_stale:
                return
            async with self._outer.telling(COPYING.format(root=self._outer.root)):
                await self._mirror.update(await self._proposed())
            self._is_stale = False
        for notice in self._mirror.drain_notices():
            await self._inner.say(notice)

    async def _proposed(self) -> dict[str, FileContent | None]:
        """The files that would be others if what is proposed were kept."""
        from newel.review.tracking.copy_recorder import proposed_contents

        return await proposed_contents((await self._outer.recorder()).project)

    def _own(self, path: str) -> str:
        """A path that a change may go to. Raises ``WorkspaceError``."""
        if not path.startswith(f"{self.root}/"):
            raise WorkspaceError(OUTSIDE.format(path=path, root=self.root))
        return path

    # -- the port -----------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def name(self) -> str:
        return self._inner.name

    async def resolve(self, path: str, /) -> str:
        """A path of the project means that of its copy, whose links are there once it is up to date."""
        await self._ready()
        found = await self._inner.resolve(path)
        project = self._outer.root.rstrip("/")
        if found == project or found.startswith(f"{project}/"):
            inside = found.removeprefix(project).lstrip("/")
            return await self._inner.resolve(f"{self.root}/{inside}")
        return found

    async def stat(self, path: str, /) -> FileInfo | None:
        await self._ready()
        return await self._inner.stat(path)

    async def stats(self, paths: Sequence[str], /) -> list[FileInfo | None]:
        await self._ready()
        return await self._inner.stats(paths)

    async def list(
        self, path: str, /, *, limit: int = 10_000, nofollow: bool = False
    ) -> list[DirectoryEntry]:
        await self._ready()
        return await self._inner.list(path, limit=limit, nofollow=nofollow)

    async def read_bytes(
        self, path: str, /, *, start: int = 0, size: int | None = None, nofollow: bool = False
    ) -> bytes:
        await self._ready()
        return await self._inner.read_bytes(path, start=start, size=size, nofollow=nofollow)

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> str:
        await self._ready()
        return await self._inner.write_bytes(self._own(path), data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        await self._ready()
        await self._inner.remove(self._own(path), expect=expect)

    async def remove_folder(self, path: str, /) -> None:
        await self._ready()
        await self._inner.remove_folder(self._own(path))

    async def run(
        self,
        command: str,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 — see the port
        on_output: OnOutput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        await self._ready()
        before = self._outer.recorded_paths
        async with AsyncExitStack() as stack:
            if self._outer.root in command:
                await stack.enter_async_context(self._outer.recording())
            done = await self._inner.run(command, timeout=timeout, on_output=on_output, env=env)
        if leaked := self._outer.recorded_paths - before:
            await self._inner.say(LEAKED.format(paths=_some(sorted(leaked))))
        return done


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
