"""All that Newel stores about one project: found, described and deleted."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import msgspec

from newel.agent.errors import NewelError
from newel.agent.formatting import pluralize
from newel.contracts.run_index import journals, list_runs
from newel.jobs.directory_lock import DirectoryLock
from newel.review.store.database import sole_user
from newel.review.tracking.recording_workspace import ledger_folder
from newel.session.appender import Appender
from newel.session.paths import read_metadata, session_files
from newel.storage.files import project_folder
from newel.storage.prompt_history import PromptHistory

MAX_RUNS = 1 << 30


class StoredData(msgspec.Struct, frozen=True):
    """``ledger`` and ``traces`` are folders, None if there is none; ``journals`` are folders, ``sessions`` and ``logs``
    files. ``prompts`` messages of the ``history`` were typed in ``project``. ``worktrees`` are folders of agents and conversations of
    the project, about which there is more: what is deleted here does not include it.
    """

    project: str
    history: PromptHistory
    prompts: int

    ledger: Path | None
    traces: Path | None
    sessions: list[Path]
    journals: list[Path]
    logs: list[Path]
    worktrees: list[str]

    def describe(self) -> list[str]:
        """A line for each kind of data that there is, with its size."""
        folders = [folder for folder in (self.ledger, self.traces) if folder]
        names = {
            self.ledger: "the changes of agents, with earlier contents of files",
            self.traces: "traces of review jobs",
        }
        rows = [(names[folder], [folder]) for folder in folders]
        rows += [
            (pluralize(len(self.sessions), "session"), self.sessions),
            (
                f"the journals of chats, jobs and agents ({pluralize(len(self.journals), 'file')})",
                self.journals,
            ),
            (pluralize(len(self.logs), "log"), self.logs),
        ]
        typed = [f"{pluralize(self.prompts, 'message')} that you typed"] if self.prompts else []
        return [*(f"{name}, {_size(paths)}" for name, paths in rows if paths), *typed]

    def delete(self) -> None:
        """Delete all of it, or nothing if another process uses any of it. Raises ``NewelError``."""
        with contextlib.ExitStack() as held:
            for folder in self.journals:
                held.callback(DirectoryLock(folder).release)
            sessions = [Appender(path) for path in self.sessions]
            for session in sessions:
                held.callback(session.release)
            if self.ledger is not None:
                held.enter_context(sole_user(self.ledger))
            for session in sessions:
                session.delete()
            folders = [*self.journals, *(folder for folder in (self.ledger, self.traces) if folder)]
            try:
                for folder in folders:
                    shutil.rmtree(folder)
                for log in self.logs:
                    log.unlink(missing_ok=True)
                if self.prompts:
                    self.history.forget(self.project)
            except OSError as error:
                raise NewelError(
                    f"{error.filename} cannot be deleted: {error.strerror}. The rest may be deleted already."
                ) from error


async def find_stored_data(home: Path, project: str) -> StoredData:
    """What the folder ``home`` has about a project."""
    folders = journals(home, project)
    runs = await list_runs(folders, limit=MAX_RUNS)
    logs = [Path(run.params.log) for run in runs]
    places = {run.params.folder for run in runs} | _linked_worktrees(home / "worktrees", project)
    ledger, traces = ledger_folder(home, project), project_folder(home / "traces", project)
    sessions = [
        path
        for path, _ in session_files(home / "sessions", project)
        # Two projects may share a folder.
        if (metadata := read_metadata(path)) is None or metadata.is_of(project)
    ]
    history = PromptHistory(home / "history")
    try:
        prompts = history.count(project)
    except OSError:  # it is no file
        prompts = 0
    return StoredData(
        project,
        history,
        prompts,
        ledger if ledger.is_dir() else None,
        traces if traces.is_dir() else None,
        sessions,
        folders,
        [log for log in logs if log.is_file()],
        sorted(place for place in places - {project} if _has_records(home, place)),
    )


def _linked_worktrees(folder: Path, project: str) -> set[str]:
    """The worktrees in ``folder`` of the repository at ``project``."""
    with contextlib.suppress(OSError):
        return {str(path) for path in folder.iterdir() if _is_linked(path / ".git", project)}
    return set()


def _is_linked(file: Path, project: str) -> bool:
    try:
        return file.read_text(errors="replace").startswith(f"gitdir: {project}/.git/worktrees/")
    except OSError:
        return False


def _has_records(home: Path, project: str) -> bool:
    return ledger_folder(home, project).is_dir() or bool(session_files(home / "sessions", project))


def _size(paths: list[Path]) -> str:
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    size = sum(file.lstat().st_size for file in files)
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / 1024:.1f} KiB"
