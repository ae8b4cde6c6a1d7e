"""A workspace for an agent that works in a copy of the project: its changes become proposals, the project's files stay.

    IsolatedWorkspace  -->  RecordingWorkspace of the copy  -->  CopyRecorder  -->  RecordingWorkspace of the project

Before each run, the copy is updated to the project as it would be with all proposals kept. After each operation, every file of
the copy that changed is a proposal in the project's ledger. Only the user's decision changes the project.

This is no sandbox: a command can use the absolute path of the project. Changes by a command that names the project's folder
are recorded there like those of any agent, and reported.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Unpack

import anyio

from newel.agent.errors import WorkspaceError
from newel.agent.events import AgentEvent, AgentStart
from newel.review.last_run import LastRun
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.workspace.port import CommandResult, DelegatingWorkspace, RunOptions, WriteResult
from newel.workspace.tracked import TrackedWorkspace

if TYPE_CHECKING:
    from pathlib import Path

    from newel.review.model.proposal import HunkSize
    from newel.review.tracking.change_recorder import ChangeRecorder
    from newel.review.tracking.effects import TrackedOperation
    from newel.session.coding_agent import CodingAgent
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits

OUTSIDE: Final = (
    "{path} was not changed: this run can only change files of the project, in their copy at {root}, because the user reviews "
    "each change before it takes effect."
)
COPYING: Final = (
    "Copying the files of {root}: the agent works in the copy, and its changes there await your decision."
)
LEAKED: Final = (
    "A command, or a hook, used the project's own folder and changed files there, bypassing the review: {paths}. To undo that, run "
    "`newel undo`."
)


class CopyRecorder:
    """Provides the recorder of a copy, whose changes are proposals in the ledger of ``project``."""

    def __init__(self, project: RecordingWorkspace, mirror: Mirror, hunks: HunkSize) -> None:
        self._project = project
        self._mirror = mirror
        self._hunks = hunks
        self._recorder: ChangeRecorder | None = None
        self._opening = anyio.Lock()

    @property
    def own_folders(self) -> Sequence[str]:
        return self._project.own_folders

    async def recorder_of(self, workspace: TrackedWorkspace) -> ChangeRecorder:
        """Raises ``LedgerError``."""
        async with self._opening:
            if self._recorder is None:
                from newel.review.tracking.copy_recorder import recorder_of_copy

                of = await self._project.recorder()
                self._recorder = recorder_of_copy(
                    workspace, of.project, self._mirror, self._hunks, of.secrets
                )
                weakref.finalize(self, self._recorder.stop)
            return self._recorder

    def on_first_action(self, workspace: TrackedWorkspace, last: LastRun) -> None:
        """The workspace of the project notes it as well."""


class IsolatedWorkspace(DelegatingWorkspace[RecordingWorkspace]):
    """A copy of the project that ``project`` records. Use ``open``."""

    def __init__(
        self, project: RecordingWorkspace, mirror: Mirror, copy: TrackedWorkspace, hunks: HunkSize
    ) -> None:
        super().__init__(RecordingWorkspace(copy, CopyRecorder(project, mirror, hunks)))
        self._project = project
        self._mirror = mirror
        self._updating = anyio.Lock()
        self._is_stale = True

    @classmethod
    async def open(
        cls,
        workspace: TrackedWorkspace,
        project: RecordingWorkspace,
        home: Path,
        *,
        copied: MirrorLimits,
        hunks: HunkSize,
        left_out: Sequence[str] = (),
    ) -> IsolatedWorkspace:
        """``workspace`` is the project's, which ``project`` records. Its copy is filled as soon as a run starts; on this machine it
        is in Newel's folder ``home``. ``copied`` limits the project, ``hunks`` the proposals; ``left_out`` are paths of this machine
        that are not copied. Raises ``WorkspaceError``.
        """
        mirror = await workspace.mirror(home / "copies", limits=copied, left_out=[str(home), *left_out])
        return cls(project, mirror, workspace.at(mirror.root), hunks)

    def attend(self, agent: CodingAgent) -> None:
        """As ``RecordingWorkspace.attend``, which must be called for the project's workspace too."""
        agent.subscribe(self._on_event)
        self._inner.attend(agent)

    def _on_event(self, event: AgentEvent) -> None:
        if isinstance(event, AgentStart):
            self._is_stale = True
            self._mirror.start()  # while the model thinks

    async def _target(self) -> RecordingWorkspace:
        """The copy, once it is up to date for this run."""
        async with self._updating:
            if self._is_stale:
                from newel.review.tracking.copy_recorder import proposed_contents

                async with self._project.progress(COPYING.format(root=self._project.root)):
                    project = (await self._project.recorder()).project
                    await self._mirror.update(await proposed_contents(project))
                self._is_stale = False
                for notice in self._mirror.drain_notices():
                    await self._inner.notify(notice)
        return self._inner

    def _check_inside(self, path: str) -> None:
        """Raises ``WorkspaceError`` for a path that must not be changed."""
        if not path.startswith(f"{self.root}/"):
            raise WorkspaceError(OUTSIDE.format(path=path, root=self.root))

    # -- the port -----------------------------------------------------------------------------------

    async def resolve(self, path: str, /) -> str:
        """A path in the project is resolved to the same one in the copy."""
        copy = await self._target()  # first, as its links must be up to date
        resolved = await copy.resolve(path)
        project = self._project.root.rstrip("/")
        if resolved == project or resolved.startswith(f"{project}/"):
            relative = resolved.removeprefix(project).lstrip("/")
            return await copy.resolve(f"{self.root}/{relative}")
        return resolved

    async def write_bytes(
        self, path: str, data: bytes, /, *, expect: str | None = None, mode: int | None = None
    ) -> WriteResult:
        self._check_inside(path)
        return await super().write_bytes(path, data, expect=expect, mode=mode)

    async def remove(self, path: str, /, *, expect: str | None = None) -> None:
        self._check_inside(path)
        await super().remove(path, expect=expect)

    async def remove_folder(self, path: str, /) -> None:
        self._check_inside(path)
        await super().remove_folder(path)

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        copy = await self._target()
        if self._project.root not in command:
            return await copy.run(command, **options)
        async with self._noticing_leaks(copy):
            return await copy.run(command, **options)

    @asynccontextmanager
    async def recording(self) -> AsyncGenerator[TrackedOperation | None]:
        """As ``RecordingWorkspace.recording``, for a program that runs in the copy and also knows the project's folder."""
        copy = await self._target()
        async with self._noticing_leaks(copy), copy.recording() as operation:
            yield operation

    @asynccontextmanager
    async def _noticing_leaks(self, copy: RecordingWorkspace) -> AsyncGenerator[None]:
        before = self._project.recorded_paths
        async with self._project.recording():
            yield
        if leaked := self._project.recorded_paths - before:
            await copy.notify(LEAKED.format(paths=_some(sorted(leaked))))


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
