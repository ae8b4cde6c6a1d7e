"""Snapshots as git bundles in an object store: a folder, S3, or what speaks its protocol. Needs the extra ``fleet``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from newel.fleet.errors import SnapshotError
from newel.fleet.git_process import GitFailed
from newel.fleet.snapshot_repository import (
    SnapshotRef,
    SnapshotRepository,
    begins_history,
    check_job,
    check_ref,
    number_in,
)
from newel.version import install_with

if TYPE_CHECKING:
    from obstore.store import ObjectStore, S3Config

FULL_EVERY: Final = 20
"""Bundles between two that need no other: each of them costs a request when a job is restored."""

_INSTALL: Final = f"Object stores need the extra `fleet`. Install Newel with it: {install_with('fleet')}."


class BundleStore:
    """``SnapshotStore`` that puts one bundle for each snapshot, ``<job>/<number>-<commit>.bundle``, with what is new since the one
    before.
    """

    def __init__(
        self, objects: ObjectStore, name: str, *, full_every: int = FULL_EVERY, folder: Path | None = None
    ) -> None:
        """``folder`` is the one that ``objects`` writes to, if it does: it is flushed to the disk after each bundle."""
        self._objects = objects
        self._name = name
        self._full_every = full_every
        self._folder = folder

    @property
    def name(self) -> str:
        return self._name

    def put(self, number: int, commit: str, repository: SnapshotRepository, /) -> SnapshotRef:
        base = repository.last_stored(self.name)
        if base is not None and base.commit == commit:
            return base
        if begins_history(number) or (base is not None and len(base.bases) + 1 >= self._full_every):
            base = None
        ref = SnapshotRef(
            job=repository.job,
            number=number,
            commit=commit,
            store=self.name,
            key=f"{repository.job}/{number}-{commit}.bundle",
            bases=(*base.bases, base.key) if base else (),
            form=repository.form,
        )
        self._upload(ref, base, repository)
        repository.note_stored(ref)
        return ref

    def _upload(self, ref: SnapshotRef, base: SnapshotRef | None, repository: SnapshotRepository) -> None:
        import obstore
        from obstore.exceptions import BaseError

        name = repository.ref_name(ref.number)
        repository.git.run("update-ref", name, ref.commit)  # git makes bundles of names only
        with repository.scratch() as folder:
            bundle = folder / "bundle"
            words = ("bundle", "create", "--quiet", str(bundle), name)
            repository.git.run(*words, *((f"^{base.commit}",) if base else ()))
            try:
                obstore.put(self._objects, ref.key, bundle)
                if self._folder is not None:
                    _flush(self._folder / ref.key)
            except (BaseError, OSError) as error:
                raise SnapshotError(
                    f"{ref.words} cannot be stored in {self.name} as {ref.key}: {_words(error)}. It is kept on this machine. "
                    "Check that the store can be reached and written, and try again."
                ) from error

    def fetch(self, ref: SnapshotRef, repository: SnapshotRepository, /) -> None:
        check_ref(ref)
        here = repository.snapshots()
        for key in (*ref.bases, ref.key):
            commit = key.rpartition("-")[2].removesuffix(".bundle")
            if commit not in here:
                self._download(ref, key, repository)
        repository.note_stored(ref)

    def _download(self, ref: SnapshotRef, key: str, repository: SnapshotRepository) -> None:
        import obstore
        from obstore.exceptions import BaseError

        part = f"{ref.words} lacks a part: {key} in {self.name}"
        with repository.scratch() as folder, (folder / "bundle").open("wb") as bundle:
            try:
                for chunk in obstore.get(self._objects, key).stream():
                    bundle.write(chunk)
            except FileNotFoundError as error:
                raise SnapshotError(
                    f"{part} does not exist. Restore that object from a backup, or choose an earlier snapshot."
                ) from error
            except (BaseError, OSError) as error:
                raise SnapshotError(f"{part} cannot be read: {_words(error)}.") from error
            bundle.flush()
            try:
                repository.git.run("bundle", "unbundle", bundle.name)
                repository.cut_history(key.rpartition("-")[2].removesuffix(".bundle"))
            except GitFailed as error:
                raise SnapshotError(
                    f"{part} is damaged (git: {error.words}). Restore that object from a backup, or choose an earlier snapshot."
                ) from error

    def remove(self, jobs: Sequence[str], /) -> None:
        for job in jobs:
            check_job(job)
            self._remove(job, lambda _: True)
            if self._folder is not None:
                with contextlib.suppress(OSError):  # a snapshot came meanwhile
                    (self._folder / job).rmdir()

    def remove_superseded(self, first: SnapshotRef, last: SnapshotRef, _: SnapshotRepository, /) -> None:
        needed = {first.key, *first.bases, last.key, *last.bases}
        self._remove(last.job, lambda key: key not in needed and number_in(key) < last.number)

    def collect_garbage(self) -> None:
        """An object's space is free at once."""

    def _remove(self, job: str, is_removed: Callable[[str], bool]) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            for page in obstore.list(self._objects, f"{job}/"):  # pyright: ignore[reportUnknownMemberType]
                keys = [meta["path"] for meta in page if is_removed(meta["path"])]
                try:
                    obstore.delete(self._objects, keys)
                except FileNotFoundError:  # another process removes the same
                    for key in keys:
                        with contextlib.suppress(FileNotFoundError):
                            obstore.delete(self._objects, key)
        except (BaseError, OSError) as error:
            raise SnapshotError(
                f"The snapshots of job {job} cannot be removed from {self.name}: {_words(error)}. Check that the store can be reached, "
                "and that its user may list and delete objects."
            ) from error


def folder_store(folder: Path) -> BundleStore:
    """A store in a folder, which is created. Raises ``SnapshotError`` if that fails, or without the extra ``fleet``."""
    try:
        from obstore.store import LocalStore
    except ImportError as error:
        raise SnapshotError(_INSTALL) from error
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SnapshotError(f"The store {folder} cannot be created: {error.strerror}.") from error
    return BundleStore(LocalStore(folder), str(folder), folder=folder)


def s3_store(
    bucket: str, *, prefix: str = "", endpoint: str = "", region: str = "", full_every: int = FULL_EVERY
) -> BundleStore:
    """A store in a bucket of S3, or of the server ``endpoint`` that speaks its protocol. The keys are those of the environment
    (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``), or of the machine's role. Raises ``SnapshotError`` without the extra ``fleet``.
    """
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise SnapshotError(_INSTALL) from error
    config = {key: value for key, value in (("endpoint", endpoint), ("region", region)) if value}
    store = S3Store(
        bucket,
        prefix=prefix or None,
        config=cast("S3Config", config),
        client_options={"allow_http": endpoint.startswith("http://")},
    )
    name = "/".join(filter(None, (endpoint.rstrip("/") or "s3:/", bucket, prefix)))
    return BundleStore(store, name, full_every=full_every)


def _flush(path: Path) -> None:
    """Wait until a file and its name are on disk."""
    for place in (path, path.parent):
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _words(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
