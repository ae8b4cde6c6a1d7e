"""Records the changes of a copy's files as proposals for the project's files."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from functools import partial

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.review.folders import is_folder, parents
from newel.review.model.file_kinds import described
from newel.review.model.file_lines import content_of, lines_of_state
from newel.review.model.file_review import FileReview, ReviewError, buffer, new_hunk_id
from newel.review.model.merge import staged
from newel.review.model.proposal import HunkSize
from newel.review.project import ProjectReview
from newel.review.store.schema import LedgerError
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effect_log import EffectLog
from newel.workspace.mirror.mirror import Mirror
from newel.workspace.mirror.port import FileContent
from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.secret_files import SecretTests
from newel.workspace.snapshots.uncovered import UncoveredChanges
from newel.workspace.tracked import TrackedWorkspace, snapshots_of
from newel.workspace.walk import below


def recorder_of_copy(
    workspace: TrackedWorkspace,
    project: ProjectReview,
    mirror: Mirror,
    hunks: HunkSize,
    secrets: SecretTests,
) -> ChangeRecorder:
    """The recorder of a copy. It logs no effects: when a process is killed, partial changes are discarded with the copy."""
    ledger = project.ledger
    sink = ProposalSink(project, mirror.invalidate, hunks)
    snapshots = partial(snapshots_of, workspace, ledger, secrets=secrets)
    return ChangeRecorder(workspace, project, sink, snapshots, EffectLog(ledger, None))


class ProposalSink:
    """Proposes each change of a copy for the project's file. ``on_change`` is called with the path of each file that has changed there."""

    def __init__(self, project: ProjectReview, on_change: Callable[[str], None], size: HunkSize) -> None:
        self._project = project
        self._on_change = on_change
        self._size = size

    def not_covered(self, message: str) -> str:
        return f"{message} It is not proposed: it stays in the copy, and is discarded with it."

    def describe_uncovered(self, uncovered: UncoveredChanges) -> list[str]:
        """Nothing: it is discarded with the copy."""
        del uncovered
        return []

    async def new_folders(self, folders: Sequence[str]) -> Sequence[str]:
        """Without empty folders of the project: the copy lacks them, but they are not new."""
        workspace = self._project.workspace
        infos = await workspace.stats([below(workspace, folder) for folder in folders]) if folders else []
        return [folder for folder, info in zip(folders, infos, strict=True) if info is None]

    def new(self, changes: Sequence[FileChange], *, since: str) -> list[FileChange]:
        """All of them: nobody but one agent changes the copy."""
        del since
        return list(changes)

    async def put(self, run: str, changes: Sequence[FileChange], prepare: Callable[[], None]) -> list[str]:
        await anyio.to_thread.run_sync(prepare)
        notices: list[str] = []
        filled = {folder for change in changes if change.after for folder in parents(change.path)}
        for change in changes:
            states = [state for state in (change.before, change.after) if state is not None]
            if not all(is_folder(state) for state in states):
                self._on_change(change.path)
            if change.before is None and is_folder(change.after) and change.path in filled:
                continue  # the files in the folder imply it
            if not _is_proposed(change):
                notices.append(await anyio.to_thread.run_sync(self._describe_unproposable, change))
                continue
            if await anyio.to_thread.run_sync(self._lacks_content, change):
                notices.append(self.not_covered(f"{change.path} is too large to be reviewed."))
                continue
            try:
                await self._project.saver.refresh(
                    change.path, itself=any(state.mode > 0o7777 for state in states)
                )
                notices += await anyio.to_thread.run_sync(self._propose, run, change)
            except LedgerError:
                raise
            except (ReviewError, WorkspaceError) as error:
                notices.append(f"The changes of {change.path} are not proposed. {error}")
        return notices

    def _lacks_content(self, change: FileChange) -> bool:
        """Whether the file's content was too large to be stored."""
        after = change.after
        return (
            after is not None
            and not stat.S_IFMT(after.mode)
            and not self._project.ledger.has_blob(after.blob)
        )

    def _describe_unproposable(self, change: FileChange) -> str:
        """The notice for a change that cannot be proposed: of a folder, or a named pipe."""
        blob = self._project.ledger.blob
        about = described(lines_of_state(change.before, blob), lines_of_state(change.after, blob)).about
        return self.not_covered(f"{change.path}: {about}.")

    def _propose(self, run: str, change: FileChange) -> Sequence[str]:
        ledger = self._project.ledger
        before, after = lines_of_state(change.before, ledger.blob), lines_of_state(change.after, ledger.blob)
        left_out: tuple[str, ...] = ()

        def make(review: FileReview) -> FileReview:
            nonlocal left_out
            done = staged(review, before=before, after=after, run=run, new_id=new_hunk_id, size=self._size)
            left_out = done.left_out
            return done.review

        ledger.change(change.path, "propose", make, run=run)
        return left_out


def _is_proposed(change: FileChange) -> bool:
    """Whether the change can be reviewed: that of a file or a link, and of a folder that replaces one or is replaced by one."""
    kinds = [stat.S_IFMT(state.mode) for state in (change.before, change.after) if state is not None]
    return all(kind in {0, stat.S_IFLNK, stat.S_IFDIR} for kind in kinds) and kinds.count(stat.S_IFDIR) < len(
        kinds
    )


async def proposed_contents(project: ProjectReview) -> dict[str, FileContent | None]:
    """The files that the pending proposals would change, as they would be if all were kept."""
    contents: dict[str, FileContent | None] = {}
    for path in await anyio.to_thread.run_sync(project.ledger.paths):
        review = await anyio.to_thread.run_sync(project.ledger.get, path)
        if any(hunk.is_shown for hunk in review.hunks):
            review = await project.saver.refresh(path)
            contents[path] = await anyio.to_thread.run_sync(_content, project, review)
    return contents


def _content(project: ProjectReview, review: FileReview) -> FileContent | None:
    content = content_of(buffer(review))
    if content is None or stat.S_ISDIR(content.mode):
        return None  # the files in a folder imply it
    return FileContent(project.ledger.blob(content.blob) if content.blob else content.data, content.mode)
