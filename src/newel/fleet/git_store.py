"""Snapshots in a bare git repository: on a shared disk, or on a server."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from newel.fleet.errors import SnapshotError, disk_errors
from newel.fleet.git_process import Git, GitFailed, allowed_protocol, without_password
from newel.fleet.snapshot_repository import (
    SnapshotRef,
    SnapshotRepository,
    check_job,
    check_ref,
    number_in,
)
from newel.storage.files import make_private

_COLLECTED: Final = "newel-collected"
_OF_NEW: Final = frozenset({"HEAD", "HEAD.lock", "branches", "config", "config.lock", "objects", "refs"})
"""What another worker may just have written, that creates the same store."""
_BATCH: Final = 500
"""Refs that one push removes."""
_DAY_S: Final = 86_400.0
_SHA1: Final = 40


class GitStore:
    """``SnapshotStore`` in the repository ``url``: an address, or the absolute path of a folder, which is created if there is none. Git
    sends only what is new.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_folder = allowed_protocol(url) == "file" and "://" not in url

    @property
    def name(self) -> str:
        return without_password(self._url)

    def put(self, number: int, commit: str, repository: SnapshotRepository, /) -> SnapshotRef:
        if self._is_folder:
            self._create(repository.form)
        name = repository.ref_name(number)
        # the first may be another snapshot, of a worker that was believed dead
        for key in (name, f"{name}-{commit}"):
            if self._push(key, commit, repository):
                return SnapshotRef(
                    job=repository.job,
                    number=number,
                    commit=commit,
                    store=self.name,
                    key=key,
                    form=repository.form,
                )
        raise SnapshotError(f"{self.name} has another commit as {name}-{commit}. Something replaced it.")

    def _push(self, key: str, commit: str, repository: SnapshotRepository) -> bool:
        """Whether the store has the commit as ``key`` now; False if something else has that name."""
        try:
            repository.git.transfer(
                *("push", "--quiet", "--no-verify", f"--force-with-lease={key}:"),
                *("--", self._url, f"{commit}:{key}"),
                url=self._url,
            )
        except GitFailed as error:
            there = self._commit_of(key, repository)
            if there == commit:
                return True
            if there is not None:
                return False
            raise SnapshotError(
                f"Snapshot {commit[:12]} of job {repository.job} cannot be pushed to {self.name} (git: {error.words}). "
                "It is kept on this machine. Check that the store can be reached and written, and try again."
            ) from error
        return True

    def _commit_of(self, key: str, repository: SnapshotRepository) -> str | None:
        try:
            listed = repository.git.transfer("ls-remote", "--", self._url, key, url=self._url)
        except GitFailed:
            return None
        return next(
            (line.split("\t")[0] for line in listed.decode().splitlines() if line.endswith(f"\t{key}")), None
        )

    def fetch(self, ref: SnapshotRef, repository: SnapshotRepository, /) -> None:
        check_ref(ref)
        if self._is_folder and not Path(self._url, "HEAD").exists():
            raise SnapshotError(
                f"{ref.words} cannot be fetched: there is no repository in {self.name}. Is the disk mounted?"
            )
        try:
            repository.git.transfer(
                *(
                    "fetch",
                    "--quiet",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "--no-auto-maintenance",
                    "--update-shallow",
                ),
                *("--", self._url, f"+{ref.key}:refs/fetched/{ref.commit}"),
                url=self._url,
            )
        except GitFailed as error:
            raise SnapshotError(
                f"{ref.words} cannot be fetched from {self.name}: {ref.key} is missing or damaged there, or the store cannot be reached "
                f"(git: {error.words})."
            ) from error
        fetched = repository.git.run("rev-parse", f"refs/fetched/{ref.commit}").decode().strip()
        repository.git.run("update-ref", "-d", f"refs/fetched/{ref.commit}")
        if fetched != ref.commit:
            raise SnapshotError(
                f"{ref.words} is not in {self.name}: {ref.key} is {fetched[:12]} there. Something replaced it."
            )

    def remove(self, jobs: Sequence[str], /) -> None:
        for job in jobs:
            check_job(job)
        with tempfile.TemporaryDirectory() as folder:
            repository = SnapshotRepository(Path(folder, "sha1"), "none")
            repository.create()
            refs = self._refs(repository.git, jobs)
            if any(len(commit) > _SHA1 for commit in refs.values()):
                repository = SnapshotRepository(Path(folder, "sha256"), "none")
                repository.create("sha256")
            self._delete(repository.git, refs)

    def remove_superseded(
        self, first: SnapshotRef, last: SnapshotRef, repository: SnapshotRepository, /
    ) -> None:
        refs = self._refs(repository.git, [last.job])
        self._delete(
            repository.git,
            [ref for ref in refs if ref not in {first.key, last.key} and number_in(ref) < last.number],
        )

    def collect_garbage(self) -> None:
        """A server does that itself."""
        folder = Path(self._url)
        if not self._is_folder or not (folder / "HEAD").exists():
            return
        stamp = folder / _COLLECTED
        with contextlib.suppress(OSError):
            if stamp.stat().st_mtime > time.time() - _DAY_S:
                return
        with disk_errors(folder):
            stamp.touch()
        # It may take minutes, and be killed at any time. A push may be under way: what nothing names is kept for a day.
        Git(folder).start_detached("-c", "gc.cruftPacks=true", "gc", "--quiet", "--prune=1.day.ago")

    def _refs(self, git: Git, jobs: Sequence[str]) -> dict[str, str]:
        """The snapshots of some jobs, and their commits."""
        if self._is_folder and not Path(self._url, "HEAD").exists():
            raise SnapshotError(
                f"Snapshots cannot be removed: there is no repository in {self.name}. Is the disk mounted?"
            )
        try:
            patterns = [f"refs/newel/{job}/*" for job in jobs]
            listed = git.transfer("ls-remote", "--", self._url, *patterns, url=self._url).decode(
                errors="replace"
            )
        except GitFailed as error:
            raise self._not_removed(error) from error
        return {ref: commit for commit, _, ref in (line.partition("\t") for line in listed.splitlines())}

    def _delete(self, git: Git, refs: Iterable[str]) -> None:
        names = sorted(refs)
        for start in range(0, len(names), _BATCH):
            batch = names[start : start + _BATCH]
            try:
                self._push_deletions(git, batch)
            except GitFailed:
                # Another process may have removed some of them meanwhile.
                listed = self._refs(git, sorted({name.split("/")[2] for name in batch}))
                try:
                    self._push_deletions(git, [name for name in batch if name in listed])
                except GitFailed as error:
                    raise self._not_removed(error) from error

    def _push_deletions(self, git: Git, names: Sequence[str]) -> None:
        if names:
            refs = [f":{name}" for name in names]
            git.transfer("push", "--quiet", "--no-verify", "--", self._url, *refs, url=self._url)

    def _not_removed(self, error: GitFailed) -> SnapshotError:
        return SnapshotError(
            f"Snapshots cannot be removed from {self.name} (git: {error.words}). Check that the store can be reached, and that its user "
            "may delete refs."
        )

    def _create(self, form: str) -> None:
        folder = Path(self._url)
        if (folder / "HEAD").exists():
            return
        try:
            make_private(folder)
            foreign = min((path.name for path in folder.iterdir() if path.name not in _OF_NEW), default="")
        except OSError as error:
            raise SnapshotError(f"The store {folder} cannot be created: {error.strerror}.") from error
        if foreign:
            raise SnapshotError(
                f"The store {folder} has other files in it, such as {foreign}. Name an empty folder, or one that does not exist."
            )
        git = Git(folder)
        git.run("init", "--bare", "--quiet", "--template=", f"--object-format={form}")
        # A clone of the agent may be shallow. A push must not wait for a clean-up, nor be lost with the power.
        for name, value in (("receive.shallowUpdate", "true"), ("gc.auto", "0"), ("core.fsync", "all")):
            git.run("config", "--local", name, value)
