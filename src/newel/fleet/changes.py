"""What a job has changed in its folder: the difference of its first snapshot and its last one."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from newel.fleet.errors import SnapshotError
from newel.fleet.proposals import JobFile, JobFileChange
from newel.fleet.snapshot_repository import SnapshotRepository, TreeFile, read_ref
from newel.fleet.snapshot_store import SnapshotStore
from newel.runs.run_events import FolderSnapshot


def read_changes(
    folder: Path, store: SnapshotStore, snapshots: Sequence[FolderSnapshot]
) -> list[JobFileChange]:
    """The changed files, by name. ``folder`` is for what is fetched, and is removed afterwards. Blocks. Raises ``SnapshotError``."""
    first, last = (read_ref(each.ref) for each in (snapshots[0], snapshots[-1]))
    repository = SnapshotRepository(folder, first.job)
    try:
        repository.create(first.form)
        trees: list[dict[bytes, TreeFile]] = []
        for ref in (first, last):
            store.fetch(ref, repository)
            repository.check(ref.commit)
            tree = repository.entry(ref.commit, "work")
            if tree is None:
                raise SnapshotError(f"{ref.words} is not a snapshot of a job: it lacks the project.")
            trees.append({file.path: file for file in repository.files_in(tree)})
        return _compare(repository, *trees)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compare(
    repository: SnapshotRepository, before: dict[bytes, TreeFile], after: dict[bytes, TreeFile]
) -> list[JobFileChange]:
    paths = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    needed = {file.oid for path in paths for file in (before.get(path), after.get(path)) if file is not None}
    data = dict(repository.read_all(sorted(needed)))

    def state(file: TreeFile | None) -> JobFile | None:
        if file is None:
            return None
        mode = file.mode if stat.S_ISLNK(file.mode) else stat.S_IMODE(file.mode)
        return JobFile(data[file.oid], mode | 0o777 if stat.S_ISLNK(mode) else mode)

    return [
        JobFileChange(os.fsdecode(path), state(before.get(path)), state(after.get(path))) for path in paths
    ]
