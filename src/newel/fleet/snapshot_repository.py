"""A job's snapshots on one machine: a bare repository of Newel's own, beside the job's folder.

The objects in it are complete: it borrows none from the folder's repository, in which the agent may delete what it likes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from newel.agent.messages import Wire
from newel.fleet.errors import SnapshotError
from newel.fleet.file_tree import KnownFile
from newel.fleet.git_names import is_oid
from newel.fleet.git_process import Git
from newel.fleet.pack import Kind, PackWriter, object_name
from newel.jobs.engine import JOB_ID, is_job_id, not_a_job_id
from newel.storage.files import make_private, read_regular, replace_file
from newel.text.json import decode_json

STATE: Final = "newel-state"
HISTORY: Final = 20
"""So many snapshots have one history, in which an object that has not changed is stored once."""
_STORED: Final = "newel-stored"
_DAY_S: Final = 86_400.0
_MAX_PACKS: Final = 40
_MAX_SNAPSHOTS: Final = 10_000
_NUMBER: Final = re.compile(r"/([0-9]{1,18})(?:-[0-9a-f]+)?(?:\.bundle)?$")
_BASE: Final = re.compile(rf"{JOB_ID.pattern}/[0-9]{{1,18}}-(?:[0-9a-f]{{40}}|[0-9a-f]{{64}})\.bundle")
_LENGTHS: Final = {"sha1": 40, "sha256": 64}
"""Of the names of objects, by their hash."""


class SnapshotRef(Wire, frozen=True, kw_only=True):
    """A stored snapshot, for the event that names it. ``commit`` is its commit, ``store`` the store, ``key`` its place there.
    ``bases`` are the places that must be fetched before, in this order. ``form`` is the hash of the repository, ``sha1`` or ``sha256``.
    """

    job: str
    number: int
    commit: str
    store: str
    key: str
    bases: tuple[str, ...] = ()
    form: str = "sha1"

    @property
    def words(self) -> str:
        """The snapshot, for messages."""
        return f"Snapshot {self.number} of job {self.job} ({self.commit[:12]})"


class RepositoryState(msgspec.Struct):
    """What the last snapshot left behind: it saves work, and may be lost. ``commit`` is empty before the first one. ``files`` are those
    whose signatures can be trusted, ``known`` objects that are in the repository.
    """

    commit: str = ""
    files: dict[bytes, KnownFile] = {}
    known: list[bytes] = []


class TreeFile(NamedTuple):
    """A file in a tree: ``path`` is relative to it, ``oid`` hexadecimal."""

    path: bytes
    mode: int
    oid: str


class SnapshotRepository:
    """Methods block, and raise ``SnapshotError``. One process uses it at a time."""

    def __init__(self, folder: Path, job: str) -> None:
        check_job(job)
        self.folder = folder
        self.job = job
        self.git = Git(folder)

    def create(self, form: str = "sha1") -> None:
        """Create the repository unless it exists. Raises ``SnapshotError`` if it exists with another hash."""
        if (self.folder / "HEAD").exists():
            if self.form != form:
                raise SnapshotError(
                    f"The repository of job {self.job} has hashes of {form}, and its snapshots in {self.folder} those of {self.form}. "
                    "Start another job for it."
                )
            return
        make_private(self.folder)
        self.git.run("init", "--bare", "--quiet", "--template=", f"--object-format={form}")
        for name, value in (("gc.auto", "0"), ("core.logAllRefUpdates", "false"), ("core.fsync", "all")):
            self.git.run("config", "--local", name, value)

    @cached_property
    def form(self) -> str:
        """The hash that names objects: ``sha1`` or ``sha256``."""
        return self.git.run("rev-parse", "--show-object-format").decode().strip()

    def load_state(self) -> RepositoryState:
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError):
            return msgspec.msgpack.decode(read_regular(self.folder / STATE, None), type=RepositoryState)
        return RepositoryState()

    def save_state(self, state: RepositoryState) -> None:
        replace_file(self.folder / STATE, msgspec.msgpack.encode(state))

    def last_stored(self, store: str) -> SnapshotRef | None:
        """The last snapshot that this machine put into a store, or fetched from it; None if there is none."""
        return self._stored().get(store)

    def note_stored(self, ref: SnapshotRef) -> None:
        replace_file(self.folder / _STORED, msgspec.json.encode({**self._stored(), ref.store: ref}))

    def _stored(self) -> dict[str, SnapshotRef]:
        with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError):
            return msgspec.json.decode(read_regular(self.folder / _STORED), type=dict[str, SnapshotRef])
        return {}

    @contextlib.contextmanager
    def scratch(self) -> Generator[Path]:
        """A folder for temporary files. Removes what processes that were killed left a day ago."""
        folder = self.folder / "scratch"
        make_private(folder)
        for left in folder.iterdir():
            with contextlib.suppress(OSError):
                if left.stat().st_mtime < time.time() - _DAY_S:
                    shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            yield Path(own)

    @contextlib.contextmanager
    def writing(self, known: set[bytes]) -> Generator[PackWriter]:
        """A writer, whose objects are in the repository afterwards."""
        with tempfile.TemporaryFile(dir=self.folder) as file:
            writer = PackWriter(file, self.form, known)
            yield writer
            if writer.written:
                writer.finish()
                self.take(file)

    def take(self, pack: IO[bytes] | bytes) -> None:
        """Add the objects of a pack, which git checks."""
        self.git.run("index-pack", "--stdin", "--fix-thin", stdin=pack)

    def missing(self, oids: Iterable[str]) -> set[str]:
        """Those of some objects that are not here."""
        return {oid for oid, kind in kinds(self.git, oids).items() if kind is None}

    def files_in(self, tree: str) -> list[TreeFile]:
        """All files in a tree and below it."""
        listed = self.git.run("ls-tree", "-r", "-z", "--full-tree", tree)
        files: list[TreeFile] = []
        for line in listed.split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, _, oid = head.split(b" ")
            files.append(TreeFile(path, int(mode, 8), oid.decode()))
        return files

    def objects_in(self, tree: str) -> list[bytes]:
        """All objects in a tree and below it, but the commits of submodules."""
        listed = self.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", tree).split(b"\0")[:-1]
        entries = (line.split(b"\t")[0].split(b" ") for line in listed)
        return [bytes.fromhex(oid.decode()) for _, kind, oid in entries if kind != b"commit"]

    def entry(self, tree: str, name: str) -> str | None:
        """The object of a name in a tree; None if there is none."""
        listed = self.git.run("ls-tree", "-z", "--full-tree", tree, "--", name)
        return listed.split(b"\t")[0].split(b" ")[2].decode() if listed else None

    def read(self, oid: str) -> bytes:
        return next(self.read_all([oid]))[1]

    def read_all(self, oids: Iterable[str], kind: Kind = "blob") -> Iterator[tuple[str, bytes]]:
        """The contents of objects, in this order, checked against their names. Raises ``SnapshotError`` for one that is missing or
        damaged.
        """
        with tempfile.TemporaryFile() as asked:
            wanted = list(oids)
            asked.write("".join(f"{oid}\n" for oid in wanted).encode())
            asked.seek(0)
            process = self.git.start("cat-file", "--batch", "--buffer", stdin=asked.fileno())
            with process:
                assert process.stdout is not None  # noqa: S101 — it is a pipe
                try:
                    for oid in wanted:
                        yield oid, self._read_answer(process.stdout, oid, kind)
                finally:
                    process.kill()

    def _read_answer(self, answers: IO[bytes], oid: str, kind: Kind) -> bytes:
        head = answers.readline().split()
        if len(head) == 3 and head[1] == kind.encode():
            data = answers.read(int(head[2]))
            answers.read(1)
            if object_name(kind, data, self.form).hex() == oid:
                return data
        raise SnapshotError(f"The object {oid} in {self.folder} is missing or damaged.")

    def ref_name(self, number: int) -> str:
        return f"refs/newel/{self.job}/{number}"

    def keep(self, number: int, commit: str) -> None:
        """Name a snapshot, so that git keeps it; and combine the packs of many snapshots."""
        self.git.run("update-ref", self.ref_name(number), commit)
        with contextlib.suppress(OSError):
            if sum(1 for _ in (self.folder / "objects" / "pack").glob("*.pack")) > _MAX_PACKS:
                self.git.run("repack", "-d", "-q", "--geometric=2")

    def snapshots(self) -> set[str]:
        """The commits of the snapshots that are here, with some of the project's."""
        words = (
            "rev-list",
            "--first-parent",
            f"--max-count={_MAX_SNAPSHOTS}",
            f"--glob=refs/newel/{self.job}/*",
        )
        return set(self.git.run(*words).decode().split())

    def cut_history(self, commit: str) -> None:
        """Have the history end where it does for a snapshot of a shallow clone: git would miss what is behind. Raises ``GitFailed``
        without that snapshot.
        """
        if ends := self.entry(commit, "git/files/shallow"):
            replace_file(self.folder / "shallow", self.read(ends))

    def check(self, commit: str) -> None:
        """Raises ``GitFailed`` unless a commit is here with everything that it needs."""
        self.git.run("rev-list", "--objects", "--quiet", commit, "--not", "--all")


def kinds(git: Git, oids: Iterable[str]) -> dict[str, str | None]:
    """The kind of each object, None for one that is not there."""
    asked = list(dict.fromkeys(oids))
    if not asked:
        return {}
    text = "".join(f"{oid}\n" for oid in asked).encode()
    lines = git.run("cat-file", "--batch-check=%(objecttype)", "--buffer", stdin=text).decode().splitlines()
    return {oid: None if line.endswith("missing") else line for oid, line in zip(asked, lines, strict=True)}


def begins_history(number: int) -> bool:
    """Whether a snapshot has no earlier one behind it: then those can be removed, and their space is free."""
    return number % HISTORY == 0


def number_in(key: str) -> int:
    """The number in a snapshot's place in a store, such as ``refs/newel/<job>/7`` or ``<job>/7-<commit>.bundle``; of what is none, one that
    is above all others.
    """
    found = _NUMBER.search(key)
    return int(found[1]) if found else sys.maxsize


def check_job(job: str) -> None:
    """Raises ``SnapshotError`` if a job's id cannot be the name of a folder and of a ref."""
    if not is_job_id(job):
        raise SnapshotError(not_a_job_id(job))


def check_ref(ref: SnapshotRef) -> None:
    """Raises ``SnapshotError`` unless a store may have given this reference: it is in the journal, or in a job, whose submitter can send
    anything. Another place may be outside of the store, or an option for git.
    """
    name = f"refs/newel/{ref.job}/{ref.number}"
    places = {name, f"{name}-{ref.commit}", f"{ref.job}/{ref.number}-{ref.commit}.bundle"}
    if (
        not is_job_id(ref.job)
        or not 0 <= ref.number < 10**18
        or not is_oid(ref.commit)
        or len(ref.commit) != _LENGTHS.get(ref.form)
        or ref.key not in places
        or not all(_BASE.fullmatch(base) for base in ref.bases)
    ):
        raise SnapshotError(
            f"The reference {str(ref)[:300]!r} names no snapshot of a job. Newel did not make it; nothing is restored."
        )


def read_ref(text: str) -> SnapshotRef:
    """The reference in an event or a job. Raises ``SnapshotError``."""
    try:
        ref = decode_json(text, SnapshotRef)
    except msgspec.MsgspecError as error:
        raise SnapshotError(f"The journal names a snapshot that this Newel cannot read ({error}).") from error
    check_ref(ref)
    return ref
