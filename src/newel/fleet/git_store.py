"""Snapshots in a bare git repository: on a shared disk, or on a server."""

from __future__ import annotations

from pathlib import Path

from newel.fleet.errors import SnapshotError
from newel.fleet.git_process import Git, GitFailed, allowed_protocol, without_password
from newel.fleet.snapshot_repository import SnapshotRef, SnapshotRepository, check_commit
from newel.storage.files import make_private


class GitStore:
    """``SnapshotStore`` in the repository ``url``: an address, or the absolute path of a folder, which is created if there is none. Git sends only
    what is new.
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
        for key in (
            name,
            f"{name}-{commit}",
        ):  # the first may be another snapshot, of a worker that was believed dead
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
        check_commit(ref.commit)
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

    def _create(self, form: str) -> None:
        folder = Path(self._url)
        if (folder / "HEAD").exists():
            return
        try:
            make_private(folder)
        except OSError as error:
            raise SnapshotError(f"The store {folder} cannot be created: {error.strerror}.") from error
        git = Git(folder)
        git.run("init", "--bare", "--quiet", "--template=", f"--object-format={form}")
        # A clone of the agent may be shallow. A push must not wait for a clean-up, nor be lost with the power.
        for name, value in (("receive.shallowUpdate", "true"), ("gc.auto", "0"), ("core.fsync", "all")):
            git.run("config", "--local", name, value)
