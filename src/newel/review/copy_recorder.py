"""What happens to the files of a copy becomes proposals for those of the project."""

from __future__ import annotations

import stat
from collections.abc import Sequence

import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.review.implied import above, is_folder
from newel.review.interrupted import Notes
from newel.review.kinds import described
from newel.review.ledger import FileReview, ReviewError, buffer, new_hunk_id
from newel.review.proposal import HunkSize
from newel.review.recorder import Recorder
from newel.review.runs import Project
from newel.review.staging import staged
from newel.review.store import LedgerError
from newel.review.text import content_of, lines_of_state
from newel.workspace.mirror import Mirror
from newel.workspace.mirror_disk import Content
from newel.workspace.watching import FileChange, WatchedWorkspace


def recorder_of_copy(
    workspace: WatchedWorkspace, project: Project, mirror: Mirror, hunks: HunkSize
) -> Recorder:
    """Watches the copy; what a killed process had not put down there is gone with the copy."""
    meaning = Proposed(project, mirror, hunks)
    return Recorder(workspace, project, meaning, workspace.snapshots(project.ledger), Notes(None))


class Proposed:
    """A change of the copy is a proposal for the project's file."""

    def __init__(self, project: Project, mirror: Mirror, size: HunkSize) -> None:
        self._project = project
        self._mirror = mirror
        self._size = size

    def not_covered(self, words: str) -> str:
        return f"{words} It is not proposed: it stays in the copy, and goes with it."

    def new(self, changes: Sequence[FileChange], *, since: str) -> list[FileChange]:
        """All of them: the copy is one agent's alone."""
        del since
        return list(changes)

    async def put(self, run: str, changes: Sequence[FileChange]) -> list[str]:
        notices: list[str] = []
        filled = {folder for change in changes if change.after for folder in above(change.path)}
        for change in changes:
            states = [state for state in (change.before, change.after) if state is not None]
            if not all(is_folder(state) for state in states):
                self._mirror.touched(change.path)
            if is_folder(change.after) and change.path in filled and not is_folder(change.before):
                change = FileChange(change.path, change.before, None)  # noqa: PLW2901 — what is in the folder brings it
                states = [state for state in (change.before,) if state is not None]
            if not all(stat.S_IFMT(state.mode) in {0, stat.S_IFLNK} for state in states):
                notices.append(await anyio.to_thread.run_sync(self._named, change))
                continue
            try:
                await self._project.saver.refresh(
                    change.path, itself=any(state.mode > 0o7777 for state in states)
                )
                notices += await anyio.to_thread.run_sync(self._put, run, change)
            except LedgerError:
                raise
            except (ReviewError, WorkspaceError) as error:
                notices.append(f"What was done to {change.path} is not proposed. {error}")
        return notices

    def _named(self, change: FileChange) -> str:
        """What is said of a change that nobody can decide on: of a folder, or a named pipe."""
        blob = self._project.ledger.blob
        about = described(lines_of_state(change.before, blob), lines_of_state(change.after, blob)).about
        return self.not_covered(f"{change.path}: {about}.")

    def _put(self, run: str, change: FileChange) -> Sequence[str]:
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


async def proposed_contents(project: Project) -> dict[str, Content | None]:
    """The files that would be others if all that is proposed were kept, as they would be then."""
    contents: dict[str, Content | None] = {}
    for path in await anyio.to_thread.run_sync(project.ledger.paths):
        review = await anyio.to_thread.run_sync(project.ledger.get, path)
        if any(hunk.is_shown for hunk in review.hunks):
            review = await project.saver.refresh(path)
            contents[path] = await anyio.to_thread.run_sync(_content, project, review)
    return contents


def _content(project: Project, review: FileReview) -> Content | None:
    found = content_of(buffer(review))
    if found is None:
        return None
    return Content(project.ledger.blob(found.blob) if found.blob else found.data, found.mode)
