"""A job's folder on one machine: its project, its own Newel home, and snapshots of both.

    folder = JobFolder(root, "job-7")
    folder.clone("https://example.org/shop.git")
    taken = folder.snapshot(1)                      # between two tool calls
    ref = store.put(1, taken.commit, folder.repository)  # then the event that names ``ref``
    JobFolder(other_root, "job-7").restore(ref, store)    # on another machine

    <root>/<job>/work              the project: a clone, or a plain folder
    <root>/<job>/home              the job's NEWEL_HOME: conversations, review ledger, logs
    <root>/<job>/snapshots.git     the snapshots, refs/newel/<job>/<number>; a clone borrows its objects

A snapshot is a commit with the trees ``work``, ``home`` and ``git`` (the clone's branches, index and the like), and the file ``manifest``.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.agent.formatting import pluralize
from newel.fleet.clone_state import (
    CloneCapture,
    CloneRecord,
    GitRef,
    clone_git,
    create_clone,
    is_clone,
    restore_clone,
)
from newel.fleet.errors import SnapshotError, disk_errors
from newel.fleet.file_tree import FolderModes, FolderScan, KnownFile, ScanRules
from newel.fleet.folder_writer import write_folder
from newel.fleet.git_process import Git, GitFailed, allowed_protocol, without_password
from newel.fleet.home_files import capture_home, restore_home
from newel.fleet.pack import FILE, TREE, GitTreeEntry, PackWriter
from newel.fleet.snapshot_report import ReportBuilder, SnapshotReport
from newel.fleet.snapshot_repository import (
    RepositoryState,
    SnapshotRef,
    SnapshotRepository,
    begins_history,
    check_job,
    check_ref,
)
from newel.fleet.snapshot_store import SnapshotStore
from newel.storage.files import make_private
from newel.storage.folder_removal import remove_folder
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

MAX_FILE: Final = 50_000_000
"""Bytes: larger files do not travel."""

_MAX_KNOWN: Final = 200_000
"""Objects that are remembered between snapshots."""

_FORMAT: Final = 1
_UNFINISHED: Final = ".restoring"
_SHA1: Final = 40
_AUTHOR: Final = "Newel <newel@localhost>"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``root`` was the place of the work folder."""

    format: int
    root: str
    modes: FolderModes


class TakenSnapshot(NamedTuple):
    """A snapshot on this machine; ``report`` says what does not travel."""

    commit: str
    report: SnapshotReport


class JobFolder:
    """The folder of a job in the fleet's folder ``root``. Methods block, and raise ``SnapshotError``. One process uses it at a time. Files
    larger than ``max_file`` bytes stay here. ``work`` is a folder elsewhere, of which only snapshots are taken, without the untracked files
    that hold secrets, as ``is_secret`` says of their paths in it.
    """

    def __init__(
        self,
        root: Path,
        job: str,
        *,
        work: Path | None = None,
        is_secret: Callable[[str], bool] = lambda _: False,
        max_file: int = MAX_FILE,
    ) -> None:
        check_job(job)
        self.job = job
        self.folder = Path(os.path.realpath(root)) / job
        self.work = self.folder / "work" if work is None else work
        self.home = self.folder / "home"
        self.repository = SnapshotRepository(self.folder / "snapshots.git", job)
        self._max_file = max_file
        self._is_secret = is_secret

    def create(self) -> None:
        """Create an empty folder for a project that has no repository."""
        self._refuse_existing(self.work, self.home, self.repository.folder)
        with disk_errors(self.folder):
            make_private(self.folder)
            self.repository.create()
            self.home.mkdir(mode=0o700)
            self.work.mkdir(mode=0o755)

    def clone(self, url: str, branch: str = "") -> None:
        """Clone a repository, by default its current branch. No submodules, and no filters such as Git LFS. A password in the address is
        not kept. If it fails, nothing is left.
        """
        self._refuse_existing(self.work, self.home, self.repository.folder)
        allowed_protocol(url)
        shown = without_password(url)
        try:
            with disk_errors(self.folder):
                make_private(self.folder)
                work, home = self._unfinished()
                self._check_out(work, shown, self._fetch(url, branch))
                self._put_in_place(work, home)
        except SnapshotError as error:
            remove_folder(self.folder)
            words = error.words if isinstance(error, GitFailed) else str(error)
            raise SnapshotError(
                f"{shown} cannot be cloned for job {self.job} ({words}). Check the address, and that this machine may read it: `git ls-remote {shown}`."
            ) from error

    def snapshot(self, number: int) -> TakenSnapshot:
        """Take a snapshot of work and home. The folder may be in use; what is written meanwhile may be half of it."""
        with disk_errors(self.folder):
            return self._snapshot(number)

    def _snapshot(self, number: int) -> TakenSnapshot:
        if not self.work.is_dir():
            raise SnapshotError(
                f"The folder {self.work} of job {self.job} is gone. Restore its last snapshot."
            )
        has_repository = is_clone(self.work)
        self.repository.create(_form_of(self.work) if has_repository else self._own_form())
        state = self.repository.load_state()
        report = ReportBuilder()
        if not has_repository and os.path.lexists(self.work / ".git"):
            report.leave_out(b".git", "repository")
        known = set(state.known)
        with self.repository.writing(known) as writer:
            entries: list[GitTreeEntry] = []
            before = "" if begins_history(number) else state.commit
            parents = [before] if before else []
            if has_repository:
                clone = CloneCapture(self.repository, self.work, self._origin()).capture(writer, before)
                entries.append(GitTreeEntry(b"git", TREE, writer.tree(clone.entries)))
                parents += clone.parents
                for name in clone.broken:
                    report.leave_out(name, "broken")
                if not known:
                    known.update(self._committed())
            scan = FolderScan(writer, state.files, self._rules(report, has_repository), report)
            entries.append(GitTreeEntry(b"work", TREE, scan.run(self.work)))
            entries.append(GitTreeEntry(b"home", TREE, self._capture_home(writer)))
            manifest = Manifest(format=_FORMAT, root=str(self.work), modes=scan.modes)
            entries.append(GitTreeEntry(b"manifest", FILE, writer.add("blob", _pretty(manifest))))
            commit = _add_commit(writer, writer.tree(entries), parents, f"{self.job} {number}")
        self.repository.keep(number, commit)
        objects = scan.seen | writer.written | (known if len(known) < _MAX_KNOWN else set[bytes]())
        self.repository.save_state(RepositoryState(commit=commit, files=scan.files, known=[*objects]))
        return TakenSnapshot(commit, report.report())

    def restore(self, ref: SnapshotRef, store: SnapshotStore, *, replace: bool = False) -> None:
        """Fetch a snapshot and write it to this folder. With ``replace``, a work and home that are here already are kept beside it, as
        ``replaced-…``. If it fails, what is here stays as it is.
        """
        if not replace:
            self._refuse_existing(self.work, self.home)
        if ref.job != self.job:
            raise SnapshotError(f"{ref.words} is not of job {self.job}.")
        self._restore(ref, store)

    def begin(self, ref: SnapshotRef, store: SnapshotStore) -> None:
        """Begin as a snapshot of another folder has it. If it fails, nothing is left."""
        self._refuse_existing(self.work, self.home)
        self._restore(ref, store)

    def holds(self, ref: SnapshotRef) -> bool:
        """Whether the work folder here has gone on from a snapshot, and from no other one since."""
        return self.work.is_dir() and self.repository.load_state().commit == ref.commit

    def _restore(self, ref: SnapshotRef, store: SnapshotStore) -> None:
        check_ref(ref)
        with disk_errors(self.folder):
            make_private(self.folder)
            self.repository.create(ref.form)
            store.fetch(ref, self.repository)
            work, home = self._unfinished()
            try:
                files = self._write(ref, store, work, home)
            except BaseException:
                self._unfinished(make=False)
                raise
            self._put_in_place(work, home)
            self.repository.keep(ref.number, ref.commit)
            known = self.repository.objects_in(ref.commit)
            self.repository.save_state(RepositoryState(commit=ref.commit, files=files, known=known))

    def _refuse_existing(self, *folders: Path) -> None:
        for folder in folders:
            if os.path.lexists(folder):
                raise SnapshotError(
                    f"Job {self.job} has a folder here already: {folder}. Move it away first."
                )

    def _capture_home(self, writer: PackWriter) -> bytes:
        with self.repository.scratch() as folder:
            return capture_home(writer, self.home, str(self.work), scratch=folder)

    def _own_form(self) -> str:
        return self.repository.form if (self.repository.folder / "HEAD").exists() else "sha1"

    def _rules(self, report: ReportBuilder, has_repository: bool) -> ScanRules:
        def ignored_in(path: bytes) -> set[bytes]:
            place = self.work / os.fsdecode(path)
            if not is_clone(place):
                return set()
            prefix = path + b"/" if path else b""
            try:
                ignored = [prefix + name for name in _ignored(clone_git(place))]
            except SnapshotError:
                report.leave_out(path or b".", "rules")
                return set()
            for each in ignored:
                report.leave_out(each, "ignored")
            return {each.rstrip(b"/") for each in ignored}

        if has_repository:
            ignored = ignored_in(b"")
            if not report.has("rules"):
                secret = {path for path in _untracked(clone_git(self.work)) if self._holds_secret(path)}
                return ScanRules(
                    ignored, ignored_in=ignored_in, limit=self._max_file, is_secret=secret.__contains__
                )
        build_dirs = {name.encode() for name in BUILD_DIRS}
        return ScanRules(
            build_dirs=build_dirs, ignored_in=ignored_in, limit=self._max_file, is_secret=self._holds_secret
        )

    def _holds_secret(self, path: bytes) -> bool:
        return self._is_secret(os.fsdecode(path))

    def _committed(self) -> list[bytes]:
        """The contents of the clone's current commit, which the job's repository has."""
        try:
            tree = (
                clone_git(self.work).run("rev-parse", "--verify", "--quiet", "HEAD^{tree}").decode().strip()
            )
            return self.repository.objects_in(tree)
        except GitFailed:  # there is no commit yet
            return []

    def _origin(self) -> str:
        for git, name in ((self.repository.git, "newel.origin"), (clone_git(self.work), "remote.origin.url")):
            try:
                url = os.fsdecode(git.run("config", "--local", "--get", name)).removesuffix("\n")
                allowed_protocol(url)
            except SnapshotError:
                continue
            return without_password(url)
        return ""

    def _fetch(self, url: str, branch: str) -> str:
        """Fetch all branches and tags; returns the ref to check out, or the commit; empty for a repository without commits."""
        self.repository.create()
        listed = self.repository.git.transfer("ls-remote", "--symref", "--", url, url=url)
        lines = [line.split("\t") for line in listed.decode("utf-8", "surrogateescape").splitlines()]
        targets = {name: oid for oid, name in lines if not oid.startswith("ref: ")}
        if any(len(oid) > _SHA1 for oid in targets.values()):
            shutil.rmtree(self.repository.folder)
            self.repository = SnapshotRepository(self.repository.folder, self.job)
            self.repository.create("sha256")
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        refs = ("+refs/heads/*:refs/origin/heads/*", "+refs/tags/*:refs/origin/tags/*")
        self.repository.git.transfer(*words, "--", url, *refs, url=url)
        self.repository.git.run("config", "--local", "newel.origin", without_password(url))
        if branch:
            if f"refs/heads/{branch}" not in targets:
                raise SnapshotError(f"it has no branch {branch!r}")
            return f"refs/heads/{branch}"
        symbolic = next((oid.removeprefix("ref: ") for oid, name in lines if name == "HEAD"), "")
        return symbolic or targets.get("HEAD", "")

    def _check_out(self, work: Path, origin: str, head: str) -> None:
        form = "--format=%(objectname) %(refname)"
        listed = self.repository.git.run("for-each-ref", form, "refs/origin/").decode("latin-1")
        refs: list[GitRef] = []
        settings: list[tuple[str, str]] = []
        name = head.removeprefix("refs/heads/").encode("utf-8", "surrogateescape").decode("latin-1")
        for line in listed.split("\n")[:-1]:
            oid, _, ref = line.partition(" ")
            ref = ref.removeprefix("refs/origin/")
            refs.append(
                GitRef(f"refs/remotes/origin/{ref[6:]}" if ref.startswith("heads/") else f"refs/{ref}", oid)
            )
            if head.startswith("refs/heads/") and ref == f"heads/{name}":
                refs.append(GitRef(f"refs/heads/{name}", oid))
                refs.append(GitRef("refs/remotes/origin/HEAD", "", f"refs/remotes/origin/{name}"))
                settings = [
                    (f"branch.{name}.remote", "origin"),
                    (f"branch.{name}.merge", f"refs/heads/{name}"),
                ]
        text = f"ref: refs/heads/{name or 'main'}\n" if not head or head.startswith("refs/") else f"{head}\n"
        create_clone(self.repository, work, CloneRecord(text, refs, settings, origin))
        if listed:
            clone_git(work).run("reset", "--hard", "--quiet")

    def _unfinished(self, *, make: bool = True) -> tuple[Path, Path]:
        """The folders that become work and home, new and empty; those of a process that was killed are removed."""
        folders = self.folder / f"work{_UNFINISHED}", self.folder / f"home{_UNFINISHED}"
        for folder, mode in zip(folders, (0o755, 0o700), strict=True):
            remove_folder(folder)
            if make:
                folder.mkdir(mode=mode)
        return folders

    def _write(
        self, ref: SnapshotRef, store: SnapshotStore, work: Path, home: Path
    ) -> dict[bytes, KnownFile]:
        repository = self.repository
        try:
            names = {name: repository.entry(ref.commit, name) for name in ("work", "home", "manifest", "git")}
            repository.cut_history(ref.commit)
            repository.check(ref.commit)
        except GitFailed as error:
            raise SnapshotError(
                f"{ref.words} from {store.name} lacks a part: {ref.key} and what it builds on ({pluralize(len(ref.bases), 'bundle')}) do not have all objects "
                f"(git: {error.words}). Choose an earlier snapshot."
            ) from error
        tree, of_home, of_manifest = names["work"], names["home"], names["manifest"]
        if tree is None or of_home is None or of_manifest is None:
            raise SnapshotError(f"{ref.words} is not a snapshot of a job: it lacks work, home or manifest.")
        try:
            manifest = _read_manifest(repository.read(of_manifest), ref)
            files = write_folder(repository, tree, manifest.modes, work)
            if names["git"]:
                restore_clone(repository, names["git"], work)
            restore_home(repository, of_home, home, root=str(self.work), earlier_root=manifest.root)
        except (ValueError, msgspec.MsgspecError) as error:
            raise SnapshotError(f"{ref.words} is damaged: {error}. Choose an earlier snapshot.") from error
        return files

    def _put_in_place(self, work: Path, home: Path) -> None:
        existing = [folder for folder in (self.work, self.home) if folder.exists()]
        if existing:
            for earlier in self.folder.glob("replaced-*"):
                remove_folder(earlier)
            kept = self.folder / f"replaced-{time.time_ns()}"
            kept.mkdir(mode=0o700)
            for folder in existing:
                folder.rename(kept / folder.name)
        home.rename(self.home)
        work.rename(self.work)


def _form_of(work: Path) -> str:
    return clone_git(work).run("rev-parse", "--show-object-format").decode().strip()


def _ignored(git: Git) -> list[bytes]:
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    return git.run(*words).split(b"\0")[:-1]


def _untracked(git: Git) -> list[bytes]:
    """Files that are in no commit, and so in no clone either."""
    return git.run("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")[:-1]


def _add_commit(writer: PackWriter, tree: bytes, parents: list[str], title: str) -> str:
    lines = [f"tree {tree.hex()}", *(f"parent {parent}" for parent in dict.fromkeys(parents))]
    signature = f"{_AUTHOR} {int(time.time())} +0000"
    lines += [f"author {signature}", f"committer {signature}", "", f"Snapshot of job {title}", ""]
    return writer.add("commit", "\n".join(lines).encode()).hex()


def _read_manifest(data: bytes, ref: SnapshotRef) -> Manifest:
    manifest = msgspec.json.decode(data, type=Manifest)
    if manifest.format > _FORMAT:
        raise SnapshotError(f"{ref.words} was taken by a newer Newel. Install that one on this machine.")
    return manifest


def _pretty(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))
