"""The repository of a job's clone as files of a snapshot, and back: branches, commits, what is staged, a merge in progress, stashes.

Settings and hooks do not travel, as they would run programs on the next machine: only the settings of ``_SETTINGS``, which
determine how git compares and commits files.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from newel.fleet.errors import SnapshotError
from newel.fleet.git_names import is_oid, is_ref_name, is_remote_name
from newel.fleet.git_process import Git, GitFailed, allowed_protocol
from newel.fleet.pack import FILE, TREE, GitTreeEntry, PackWriter
from newel.fleet.snapshot_repository import SnapshotRepository, kinds
from newel.storage.files import replace_file
from newel.text.json import decode_json
from newel.workspace.git import LocalGit

_FILES: Final = (
    *(
        "index",
        "shallow",
        "MERGE_HEAD",
        "MERGE_MSG",
        "MERGE_MODE",
        "MERGE_RR",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
    ),
    *("REBASE_HEAD", "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "SQUASH_MSG", "COMMIT_EDITMSG", "BISECT_LOG"),
    *("BISECT_START", "BISECT_TERMS", "BISECT_NAMES", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK"),
    *("info/exclude", "info/sparse-checkout", "logs/refs/stash"),
)
_FOLDERS: Final = ("rebase-merge", "rebase-apply", "sequencer")
_MAX_STATE: Final = 256 << 20
_MAX_FILES: Final = 1000
"""In each of ``_FOLDERS``."""

_SETTINGS: Final = r"^(user\.(name|email)|core\.(autocrlf|eol|filemode|ignorecase|symlinks|safecrlf|quotepath)|branch\..*\.(remote|merge))$"
_SETTING: Final = re.compile(_SETTINGS.replace("(remote|merge)", "(remote|merge|rebase)"), re.DOTALL)
_OID: Final = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_SHARED_INDEX: Final = re.compile(r"sharedindex\.[0-9a-f]{40,64}")
_UNREAD: Final = frozenset({"hooks", "modules", "worktrees"})
"""Folders of a repository that nothing here looks at."""

ALTERNATES: Final = b"../../../snapshots.git/objects\n"
"""From the folder of a clone's objects to that of the job's snapshots, which it borrows from."""


class GitRef(msgspec.Struct, frozen=True):
    """A branch, tag or the like: an object, or with ``target`` the name of another one. Names are decoded as Latin-1."""

    name: str
    oid: str
    target: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether both names are those of refs."""
        return is_ref_name(self.name) and (not self.target or is_ref_name(self.target))


class CloneRecord(msgspec.Struct, frozen=True):
    """What of a repository is no file: ``settings`` are names and values of its configuration."""

    head: str
    refs: list[GitRef]
    settings: list[tuple[str, str]]
    origin: str = ""


class CapturedClone(NamedTuple):
    """``entries`` are files for the tree of a snapshot; ``parents`` commits that its commit must name, so that they travel, too;
    ``broken`` names of refs whose objects are missing.
    """

    entries: list[GitTreeEntry]
    parents: list[str]
    broken: list[bytes]


def is_clone(work: Path) -> bool:
    """Whether a folder has a repository of its own, all of it in ``.git``. Of one that is elsewhere (a worktree, a submodule), or leads
    elsewhere, nothing is read: its agent may have had it lead to another job's.
    """
    folder = work / ".git"
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode) or not (folder / "HEAD").exists():
            return False
        return not _leads_out(folder)
    except OSError:
        return False


def _leads_out(folder: Path) -> bool:
    """Whether git would follow a repository in ``folder`` to another place. Raises ``OSError``."""
    if os.path.lexists(folder / "commondir"):
        return True
    borrowed = LocalGit().read_file(str(folder / "objects/info/alternates"))
    if borrowed not in {None, b"", ALTERNATES}:
        return True
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name in _UNREAD and entry.path == f"{folder}/{entry.name}":
                    continue
                if entry.is_symlink():
                    return True
                if entry.is_dir():
                    waiting.append(entry.path)
    return False


def clone_git(work: Path) -> Git:
    return Git(work / ".git", work)


class CloneCapture:
    """Reads the repository of ``work``, and adds all its objects to the job's. ``origin`` is the address that the job knows."""

    def __init__(self, repository: SnapshotRepository, work: Path, origin: str) -> None:
        self._repository = repository
        self._work = work
        self._git = clone_git(work)
        self._origin = origin

    def capture(self, writer: PackWriter, before: str) -> CapturedClone:
        """``before`` is the snapshot that the next one builds on; empty if it builds on none."""
        head = LocalGit().read_file(str(self._work / ".git" / "HEAD"))
        if head is None or not _is_head(head.decode("latin-1")):
            raise SnapshotError(
                f"The repository {self._work / '.git'} is damaged: its HEAD is unreadable. Repair it, or remove .git to save the folder alone."
            )
        refs = self._refs()
        files = dict(self._state_files())
        wanted = {ref.oid for ref in refs if ref.oid} | {text.decode() for text in _OID.findall(head)}
        wanted |= {
            oid.decode()
            for name, data in files.items()
            if name not in {"index", "shallow"} and not name.startswith("sharedindex.")
            for oid in _OID.findall(data)
        }
        found = kinds(self._git, wanted)
        tags = dict(self._tags({oid for oid, kind in found.items() if kind == "tag"}))
        found |= kinds(self._git, {oid for data in tags.values() for oid in tag_target(data)})
        commits = {oid for oid, kind in found.items() if kind == "commit"}
        held = {oid: found[oid] for oid in found if found[oid] in {"blob", "tree"}}
        held |= dict.fromkeys(self._staged(), "blob")
        self._cut_history(files)
        self._import({*commits, *held})
        parents = self._new_commits(commits, before)
        record = CloneRecord(
            head=head.decode("latin-1"),
            refs=[ref for ref in refs if ref.is_possible and (ref.target or found.get(ref.oid))],
            settings=self._settings(),
            origin=self._origin,
        )
        kept = {ref.name for ref in record.refs}
        broken = [ref.name.encode("latin-1") for ref in refs if ref.name not in kept]
        return CapturedClone(_entries(writer, record, files, tags, held), parents, broken)

    def _cut_history(self, files: dict[str, bytes]) -> None:
        """Have the history end where that of a shallow clone ends, or once ended: earlier snapshots in a store have no more than that."""
        place = self._repository.folder / "shallow"
        known = place.read_bytes().splitlines() if place.exists() else []
        ends = sorted({*known, *files.get("shallow", b"").splitlines()})
        if ends:
            files["shallow"] = b"".join(end + b"\n" for end in ends)
            replace_file(place, files["shallow"])

    def _refs(self) -> list[GitRef]:
        form = "--format=%(objectname) %(refname) %(symref)"
        lines = self._git.run("for-each-ref", form).decode("latin-1").split("\n")
        refs: list[GitRef] = []
        for line in filter(None, lines):
            oid, name, target = line.split(" ")
            if not name.startswith("refs/newel/"):
                refs.append(GitRef(name, "" if target else oid, target))
        return refs

    def _state_files(self) -> Iterator[tuple[str, bytes]]:
        folder = self._work / ".git"
        names = [*_FILES]
        with os.scandir(folder) as listed:
            names += [entry.name for entry in listed if _SHARED_INDEX.fullmatch(entry.name)]
        for name in _FOLDERS:
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                names += [f"{name}/{each}" for each in sorted(os.listdir(folder / name))[:_MAX_FILES]]  # noqa: PTH208
        for name in names:
            place = folder / name
            try:
                if place.lstat().st_size > _MAX_STATE:
                    raise SnapshotError(f"{place} has more than {_MAX_STATE:,} bytes. Remove it.")
            except OSError:
                continue
            if (data := LocalGit().read_file(str(place))) is not None:
                yield name, data

    def _tags(self, waiting: set[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of tags, and of tags that these name."""
        known: set[str] = set()
        while waiting:
            known |= waiting
            below: set[str] = set()
            for oid in sorted(waiting):
                data = self._git.run("cat-file", "tag", oid)
                yield oid, data
                below |= tag_target(data)
            waiting = {oid for oid, kind in kinds(self._git, below).items() if kind == "tag"} - known

    def _staged(self) -> set[str]:
        """The contents in the index that the current commit has not."""
        commit = "HEAD"
        try:
            self._git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except GitFailed:
            commit = self._git.run("hash-object", "-t", "tree", "--stdin").decode().strip()
        raw = self._git.run(
            "diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", "-z", commit, "--"
        )
        changes = raw.split(b"\0")[:-1:2]  # each is followed by its path
        oids = {each.split(b" ")[3].decode() for each in changes if not each.split(b" ")[1].startswith(b"16")}
        unmerged = self._git.run("ls-files", "--unmerged", "-z").split(b"\0")[:-1]
        oids |= {line.split(b" ")[1].decode() for line in unmerged if not line.startswith(b"16")}
        there = kinds(self._git, {oid for oid in oids if oid.strip("0")})
        return {oid for oid, kind in there.items() if kind == "blob"}

    def _import(self, oids: set[str]) -> None:
        """Copy objects, and all that they need, from the clone to the job's repository."""
        missing = self._repository.missing(oids)
        if not missing:
            return
        # Where the history is cut, what is here does not lead to everything that the clone has behind it.
        here = set[str]() if (self._repository.folder / "shallow").exists() else oids - missing
        revisions = "\n".join([*sorted(missing), "--not", *sorted(here)]) + "\n"
        with tempfile.TemporaryFile(dir=self._repository.folder) as pack:
            words = ("pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset")
            self._git.run(*words, stdin=revisions.encode(), stdout=pack)
            pack.seek(0)
            self._repository.take(pack)

    def _new_commits(self, commits: set[str], before: str) -> list[str]:
        """The commits that the previous snapshot does not lead to."""
        if not before or not commits:
            return sorted(commits)
        asked = "\n".join([*sorted(commits), f"^{before}"]) + "\n"
        listed = self._repository.git.run("rev-list", "--stdin", stdin=asked.encode())
        return sorted(commits & set(listed.decode().split()))

    def _settings(self) -> list[tuple[str, str]]:
        try:
            listed = self._git.run("config", "--local", "-z", "--get-regexp", _SETTINGS)
        except GitFailed:  # there are none
            return []
        pairs = (line.partition("\n") for line in listed.decode("latin-1").split("\0")[:-1])
        return [(name, value) for name, _, value in pairs]


def tag_target(data: bytes) -> set[str]:
    """The object that a tag names."""
    found = re.match(rb"object ([0-9a-f]{40,64})\n", data)
    return {found[1].decode()} if found else set()


def _entries(
    writer: PackWriter,
    record: CloneRecord,
    files: dict[str, bytes],
    tags: dict[str, bytes],
    held: dict[str, str | None],
) -> list[GitTreeEntry]:
    def tree_of(blobs: Iterable[tuple[str, bytes]]) -> bytes:
        return writer.tree(
            GitTreeEntry(name.encode(), FILE, writer.add("blob", data)) for name, data in blobs
        )

    state = tree_of((name.replace("/", ":"), data) for name, data in files.items())
    objects = writer.tree(
        GitTreeEntry(oid.encode(), TREE if kind == "tree" else FILE, bytes.fromhex(oid))
        for oid, kind in held.items()
    )
    return [
        GitTreeEntry(b"record", FILE, writer.add("blob", msgspec.json.format(msgspec.json.encode(record)))),
        GitTreeEntry(b"files", TREE, state),
        GitTreeEntry(b"objects", TREE, objects),
        GitTreeEntry(b"tags", TREE, tree_of(tags.items())),
    ]


def restore_clone(repository: SnapshotRepository, tree: str, work: Path) -> None:
    """Create ``work/.git`` from the tree of a snapshot."""
    record_oid = repository.entry(tree, "record")
    if record_oid is None:
        raise SnapshotError("The snapshot lacks the record of its repository.")
    try:
        record = decode_json(repository.read(record_oid), CloneRecord)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"The record of its repository in the snapshot is damaged: {error}.") from error
    files = {file.path.decode(): file.oid for file in repository.files_in(f"{tree}:files")}
    for file in repository.files_in(f"{tree}:tags"):
        data = repository.read(file.oid)
        repository.git.run("hash-object", "-t", "tag", "-w", "--literally", "--stdin", stdin=data)
    create_clone(repository, work, record)
    for name, (_, data) in zip(files, repository.read_all(files.values()), strict=True):
        inside = name.replace(":", "/")
        if not is_state_file(inside):
            raise SnapshotError(
                f"The snapshot has a file that is not part of a repository's state: {inside!r}."
            )
        LocalGit().write_file(str(work / ".git" / inside), data)


def is_state_file(name: str) -> bool:
    folder, found, inside = name.partition("/")
    return (
        name in _FILES
        or _SHARED_INDEX.fullmatch(name) is not None
        or bool(found and folder in _FOLDERS and inside not in {"", ".", ".."} and "/" not in inside)
    )


def create_clone(repository: SnapshotRepository, work: Path, record: CloneRecord) -> None:
    """Create ``work/.git`` with the refs and settings of ``record``, none of the machine's, and no index yet. Anybody who can write to the
    store may have made the record. Raises ``SnapshotError``, before anything is written, if it leads out of the repository.
    """
    git = clone_git(work)
    _check_record(record)
    git.run("init", "--quiet", "--template=", f"--object-format={repository.form}")
    folder = work / ".git"
    LocalGit().write_file(str(folder / "objects/info/alternates"), ALTERNATES)
    plain = [ref for ref in record.refs if not ref.target]
    script = "".join(f"update {ref.name} {ref.oid}\n" for ref in plain).encode("latin-1")
    git.run("-c", "core.logAllRefUpdates=false", "update-ref", "--stdin", stdin=script)
    for ref in record.refs:
        if ref.target:
            name, target = (
                part.encode("latin-1").decode("utf-8", "surrogateescape") for part in (ref.name, ref.target)
            )
            git.run("symbolic-ref", "--", name, target)
    (folder / "HEAD").write_bytes(record.head.encode("latin-1"))
    settings = [(name, value) for name, value in record.settings if _is_kept(name, value)]
    if record.origin:
        settings += [
            ("remote.origin.url", record.origin),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ]
    with (folder / "config").open("ab") as config:
        config.write("".join(_setting(name, value) for name, value in settings).encode("latin-1"))


def _check_record(record: CloneRecord) -> None:
    if not _is_head(record.head):
        raise SnapshotError("The snapshot's HEAD is damaged. Choose an earlier snapshot.")
    for ref in record.refs:
        if not ref.is_possible:
            name = ref.target if is_ref_name(ref.name) else ref.name
            raise SnapshotError(
                f"The snapshot has a ref of an impossible name: {name[:200]!r}. It was changed by hand; nothing is restored."
            )
        if not ref.target and not is_oid(ref.oid):
            raise SnapshotError(
                f"The snapshot's ref {ref.name!r} names no object: {ref.oid[:200]!r}. It was changed by hand; nothing is restored."
            )
    if record.origin:
        allowed_protocol(record.origin)


def _is_head(text: str) -> bool:
    """Whether it may be the content of ``HEAD``, decoded as Latin-1: a branch, or a commit."""
    line = text.removesuffix("\n")
    return is_oid(line) or (line.startswith("ref: ") and is_ref_name(line.removeprefix("ref: ")))


def _is_kept(name: str, value: str) -> bool:
    """Whether a setting determines how git compares and commits files, and leads nowhere else."""
    if not _SETTING.fullmatch(name):
        return False
    if name.startswith("branch."):
        if name.endswith(".remote"):
            return is_remote_name(value)
        if name.endswith(".merge"):
            return is_ref_name(value)
    return True


def _setting(name: str, value: str) -> str:
    section, _, rest = name.partition(".")
    subsection, _, key = rest.rpartition(".")
    quoted = subsection.replace("\\", "\\\\").replace('"', '\\"')
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    header = f'[{section} "{quoted}"]' if subsection else f"[{section}]"
    if "\n" in subsection or "\0" in name + value:
        return ""
    return f'{header}\n\t{key} = "{text}"\n'
