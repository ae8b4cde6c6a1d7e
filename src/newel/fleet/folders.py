"""The folders of a fleet's jobs on one machine, which come from a store and go back to it with each step."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from newel.fleet.errors import SnapshotError
from newel.fleet.git_process import allowed_protocol
from newel.fleet.git_store import GitStore
from newel.fleet.job import FleetJob, ImpossibleJob
from newel.fleet.job_folder import JobFolder, TakenSnapshot
from newel.fleet.object_store import folder_store, s3_store
from newel.fleet.runner import FolderUnavailable
from newel.fleet.snapshot_repository import SnapshotRef, begins_history, read_ref
from newel.fleet.snapshot_store import SnapshotStore
from newel.runs.run_events import FolderSnapshot
from newel.storage.folder_removal import remove_folder
from newel.text.json import to_json

RETRY_S: Final = (1.0, 30.0)
"""Between attempts to reach a store: the first pause, and the longest."""

START: Final = "start-"
"""Begins the name of the snapshot that the jobs of a fleet begin with; the database removes it by this name, too."""


def open_store(address: str) -> SnapshotStore:
    """The store at an address: ``s3://BUCKET/PREFIX``, ``file:///FOLDER``, or that of a bare git repository. Raises ``SnapshotError``."""
    if address.startswith("s3://"):
        bucket, _, prefix = address.removeprefix("s3://").partition("/")
        return s3_store(bucket, prefix=prefix)
    if address.startswith("file:///"):
        return folder_store(Path(address.removeprefix("file://")))
    return GitStore(address)


class MovingFolder:
    """Fulfils ``newel.fleet.runner.WorkFolder``. ``number`` is that of the last snapshot; the others are those of ``JobFolders``."""

    def __init__(
        self,
        folder: JobFolder,
        store: SnapshotStore,
        number: int,
        *,
        report: Callable[[str], None],
        is_full: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._store = store
        self._report = report
        self._is_full = is_full
        self._number = number
        self._content: Sequence[str | None] = ()
        self._missing = ""

    @property
    def path(self) -> Path:
        return self._folder.work

    @property
    def home(self) -> Path:
        return self._folder.home

    async def snapshot(self) -> FolderSnapshot | None:
        """Waits while the store cannot be reached: without a snapshot the step would be lost with this machine."""
        number = self._number + 1
        taken, content = await anyio.to_thread.run_sync(self._take, number)
        if content == self._content:
            return None
        put = partial(self._store.put, number, taken.commit, self._folder.repository)
        ref = await self._until_reached(put)
        self._number, self._content = number, content
        missing = "\n".join(taken.report.words())
        is_new, self._missing = missing != self._missing, missing
        return FolderSnapshot(number=number, ref=to_json(ref).decode(), missing=missing if is_new else "")

    async def forget_superseded(self, first: FolderSnapshot, last: FolderSnapshot) -> None:
        """When a new history begins: the earlier ones are of no use then. If it fails, the next time, or with the job."""
        if begins_history(last.number):
            refs = read_ref(first.ref), read_ref(last.ref)
            remove = partial(self._store.remove_superseded, *refs, self._folder.repository)
            with contextlib.suppress(SnapshotError):
                await anyio.to_thread.run_sync(remove)

    def _take(self, number: int) -> tuple[TakenSnapshot, Sequence[str | None]]:
        """A snapshot, and what distinguishes it: the conversation in the home grows with each step, but the journal has it, too."""
        taken = self._folder.snapshot(number)
        entry = self._folder.repository.entry
        return taken, [entry(taken.commit, name) for name in ("work", "git", "home/review")]

    async def _until_reached(self, put: Callable[[], SnapshotRef]) -> SnapshotRef:
        delay, longest = RETRY_S
        while True:
            try:
                return await anyio.to_thread.run_sync(put)
            except SnapshotError as error:
                if self._is_full():  # of this machine, which would wait in vain
                    raise
                if delay == RETRY_S[0]:
                    self._report(f"{self._folder.job[:8]} waits for the store: {error}")
                await anyio.sleep(delay)
                delay = min(2 * delay, longest)


class JobFolders:
    """The folders below ``root``. ``report`` gets a line when a job has to wait for the store; ``is_full`` tells whether the disk is full.
    With ``allow_local_repos`` a job may name a repository on this machine's disk.
    """

    def __init__(
        self,
        root: Path,
        store: SnapshotStore,
        report: Callable[[str], None] = lambda _: None,
        *,
        is_full: Callable[[], bool] = lambda: False,
        allow_local_repos: bool = False,
    ) -> None:
        self._root = root
        self._store = store
        self._report = report
        self._is_full = is_full
        self._allow_local_repos = allow_local_repos

    @asynccontextmanager
    async def open(
        self, job_id: str, job: FleetJob, latest: FolderSnapshot | None
    ) -> AsyncGenerator[MovingFolder]:
        """The folder of a job: as it was left here, or as the ``latest`` snapshot has it, or as it begins. Raises ``FolderUnavailable`` and
        ``ImpossibleJob``.
        """
        folder = JobFolder(self._root, job_id)
        try:
            await anyio.to_thread.run_sync(self._prepare, folder, job, latest)
        except SnapshotError as error:
            raise FolderUnavailable(str(error)) from error
        number = latest.number if latest else 0
        yield MovingFolder(folder, self._store, number, report=self._report, is_full=self._is_full)

    async def store_start(
        self, fleet: str, folder: Path, is_secret: Callable[[str], bool]
    ) -> tuple[str, list[str]]:
        """Store a folder of the user as jobs begin with it, without the untracked files that hold secrets; returns the reference of its
        snapshot, and what is not in it. Raises ``SnapshotError``.
        """

        def take() -> tuple[str, list[str]]:
            start = JobFolder(self._root, START + fleet, work=folder, is_secret=is_secret)
            try:
                taken = start.snapshot(0)
                ref = self._store.put(0, taken.commit, start.repository)
                return to_json(ref).decode(), taken.report.words()
            finally:
                remove_folder(start.folder)

        return await anyio.to_thread.run_sync(take)

    def _prepare(self, folder: JobFolder, job: FleetJob, latest: FolderSnapshot | None) -> None:
        """Make the folder what it has to be. Blocks."""
        if latest is not None:
            ref = read_ref(latest.ref)
            if not folder.holds(ref):
                folder.restore(ref, self._store, replace=True)
            return
        if job.repo and not job.start:
            _check_repo(job.repo, allow_local=self._allow_local_repos)
        remove_folder(folder.folder)  # of a worker that died before its first step
        if job.start:
            folder.begin(read_ref(job.start), self._store)
        elif job.repo:
            folder.clone(job.repo, job.ref)
        else:
            folder.create()


def _check_repo(url: str, *, allow_local: bool) -> None:
    """Raises ``ImpossibleJob`` for an address that no worker clones, and for a place on its own disk: other jobs have their folders there,
    and the user of the worker private ones.
    """
    try:
        is_local = allowed_protocol(url) == "file" or url.lower().startswith("file:")
    except SnapshotError as error:
        raise ImpossibleJob(
            f"{url[:200]!r} is not the address of a repository that a worker clones. Give an https:// or ssh:// address."
        ) from error
    if is_local and not allow_local:
        raise ImpossibleJob(
            f"{url[:200]!r} is a repository on the worker's own disk, which jobs may not read. Give an https:// or ssh:// address, or set "
            "allow_local_repos = true under [fleet] in the workers' ~/.newel/config.toml."
        )
