"""If these fail, an agent's job that moves to another machine loses work, runs what a stranger wrote, or stops without a reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.fleet.errors import SnapshotError
from newel.fleet.git_store import GitStore
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
from newel.fleet.snapshot_repository import SnapshotRef
from newel.fleet.snapshot_store import SnapshotStore
from tests.job_folders import GIT, git, git_state, make_source, seen

Open = Callable[[Path], SnapshotStore]


@pytest.fixture(params=[pytest.param("bundles", marks=pytest.mark.slow), "mirror"])  # half of the time
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    opened: Open = folder_store if request.param == "bundles" else lambda place: GitStore(str(place))
    return opened(tmp_path / "store")


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path / "here", "job-1")
    folder.clone(str(make_source(tmp_path / "source")))
    return folder


def stored(job: JobFolder, number: int, store: SnapshotStore) -> SnapshotRef:
    return store.put(number, job.snapshot(number).commit, job.repository)


def moved(tmp_path: Path, ref: SnapshotRef, store: SnapshotStore) -> JobFolder:
    other = JobFolder(tmp_path / "on another machine", ref.job)
    other.restore(ref, store)
    return other


def busy(work: Path) -> None:
    """A merge with a conflict, a stash, local commits on two branches, staged and unstaged changes."""
    git(work, "switch", "-qc", "left")
    (work / "shop.py").write_bytes(b"price = 2\n")
    git(work, "commit", "-qam", "Two")
    git(work, "switch", "-qc", "right", "main")
    (work / "shop.py").write_bytes(b"price = 3\n")
    git(work, "commit", "-qam", "Three")
    git(work, "tag", "-a", "mine", "-m", "Of the agent")
    for number in range(2):
        (work / "shop.py").write_bytes(b"price = 4%d\n" % number)
        git(work, "stash")
    subprocess.run([*GIT, "merge", "-q", "left"], cwd=work, check=False, capture_output=True)
    (work / "staged.py").write_bytes(b"staged = 1\n")
    git(work, "add", "staged.py")
    (work / "staged.py").write_bytes(b"later = 1\n")
    (work / "maybe.py").write_bytes(b"maybe = 1\n")
    git(work, "add", "--intent-to-add", "maybe.py")


def test_branches_stashes_a_merge_and_what_is_staged_move_with_the_job(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    stored(job, 1, store)
    busy(job.work)
    ref = stored(job, 2, store)
    other = moved(tmp_path, ref, store)
    assert git_state(other.work) == git_state(job.work)
    assert seen(other.work) == seen(job.work)
    assert git(other.work, "rev-parse", "MERGE_HEAD") == git(job.work, "rev-parse", "MERGE_HEAD")
    git(other.work, "checkout", "--ours", "shop.py")
    git(other.work, "add", "-A")
    git(other.work, "commit", "-qm", "Merged")
    git(other.work, "stash", "drop", "-q", "stash@{1}")
    git(other.work, "fsck", "--full")
    # The next machine continues, and what the first one had is in its snapshot, too.
    later = JobFolder(tmp_path / "third", "job-1")
    later.restore(stored(other, 3, store), store)
    assert git_state(later.work) == git_state(other.work)


def test_no_folder_with_other_files_becomes_a_store(job: JobFolder, tmp_path: Path) -> None:
    """A home folder, say, would get ``objects``, ``refs`` and ``config`` of a repository among its files."""
    place = tmp_path / "home"
    place.mkdir()
    (place / "notes.txt").write_text("mine\n")
    with pytest.raises(SnapshotError, match=r"The store .*/home has other files in it, such as notes\.txt\."):
        stored(job, 1, GitStore(str(place)))
    assert [path.name for path in place.iterdir()] == ["notes.txt"]
    (place / "notes.txt").unlink()
    assert stored(job, 1, GitStore(str(place)))


def test_settings_and_hooks_of_the_agent_stay_behind(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    proof = tmp_path / "ran"
    evil = f"touch {proof}"
    for name in (
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "uploadpack.packObjectsHook",
        "alias.status",
    ):
        git(job.work, "config", name, evil)
    git(job.work, "config", "core.hooksPath", str(tmp_path))
    git(job.work, "config", "core.worktree", "/etc")
    git(job.work, "config", "remote.origin.url", f"ext::{evil}")
    git(job.work, "config", "remote.origin.promisor", "true")
    git(job.work, "config", "remote.origin.uploadpack", evil)
    hook = job.work / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{evil}\n")
    hook.chmod(0o755)
    other = moved(tmp_path, stored(job, 1, store), store)
    assert not proof.exists()
    config = (other.work / ".git" / "config").read_text()
    assert evil not in config
    assert str(tmp_path / "source") in config
    assert not (other.work / ".git" / "hooks").exists()
    assert (other.work / "shop.py").read_bytes() == b"price = 1\n"


def test_what_does_not_travel_is_said(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "here", "job-1", max_file=1000)
    job.clone(str(make_source(tmp_path / "source")))
    (job.work / "node_modules" / "left").mkdir(parents=True)
    (job.work / "node_modules" / "left" / "pad.js").write_bytes(b"1")
    (job.work / "a.o").write_bytes(b"1")
    (job.work / "big.bin").write_bytes(b"1" * 1001)
    (job.work / "fits.bin").write_bytes(b"1" * 1000)
    os.mkfifo(job.work / "pipe")
    inner = make_source(job.work / "vendor")
    (inner / "b.o").write_bytes(b"1")
    report = job.snapshot(1).report
    assert report.words() == [
        "files that git ignores, or the rules without git: a.o, node_modules/, vendor/b.o.",
        "files above the limit for one file: big.bin (1.0 kB).",
        "sockets, pipes and devices: pipe.",
        "the history of git repositories inside of the folder, and of those that lead out of it: vendor/.",
    ]
    assert report.files == len([".gitignore", "shop.py", "fits.bin", "vendor/.gitignore", "vendor/shop.py"])


def test_a_tracked_file_travels_although_it_is_ignored(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    (job.work / "node_modules").mkdir()
    (job.work / "node_modules" / "kept.js").write_bytes(b"kept")
    (job.work / "node_modules" / "other.js").write_bytes(b"other")
    git(job.work, "add", "-f", "node_modules/kept.js")
    other = moved(tmp_path, stored(job, 1, store), store)
    assert [path.name for path in (other.work / "node_modules").iterdir()] == ["kept.js"]


def test_a_folder_without_git_moves_without_getting_a_repository(
    store: SnapshotStore, tmp_path: Path
) -> None:
    job = JobFolder(tmp_path / "here", "job-1")
    job.create()
    (job.work / "empty" / "er").mkdir(parents=True, mode=0o700)
    (job.work / "notes.txt").write_bytes(b"a\r\n")
    (job.work / "notes.txt").chmod(0o440)
    (job.work / "out").symlink_to("/etc/passwd")
    (job.work / "__pycache__").mkdir()
    other = moved(tmp_path, stored(job, 1, store), store)
    assert not any(".git" in os.listdir(each.work) for each in (job, other))  # noqa: PTH208
    expected = seen(job.work)
    del expected[b"__pycache__"]
    assert seen(other.work) == expected


def test_a_clone_whose_objects_the_agent_deletes_is_still_saved(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    first = stored(job, 1, store)
    (job.work / "new.py").write_bytes(b"new\n")
    subprocess.run(["rm", "-rf", job.work / ".git"], check=True)
    second = stored(job, 2, store)
    other = moved(tmp_path, second, store)
    assert seen(other.work) == seen(job.work)
    earlier = JobFolder(tmp_path / "earlier", "job-1")
    earlier.restore(first, store)
    assert git(earlier.work, "log", "--format=%s") == b"Shop\n"


@pytest.mark.parametrize("by", ["commondir", "links", "alternates", "pointer"])
def test_a_repository_that_leads_to_another_jobs_brings_nothing_of_it(
    job: JobFolder, store: SnapshotStore, tmp_path: Path, by: str
) -> None:
    victim = make_source(tmp_path / "victim")
    (victim / "secret.txt").write_bytes(b"of another job\n")
    git(victim, "add", "-A")
    git(victim, "commit", "-qm", "Secret")
    own = job.work / ".git"
    if by == "commondir":
        (own / "commondir").write_text(f"{victim}/.git\n")
    elif by == "links":
        for name in ("objects", "refs", "packed-refs"):
            subprocess.run(["rm", "-rf", own / name], check=True)
            (own / name).symlink_to(victim / ".git" / name)
    elif by == "alternates":
        (own / "objects" / "info" / "alternates").write_text(f"{victim}/.git/objects\n")
        (own / "refs" / "heads" / "x").write_bytes(git(victim, "rev-parse", "HEAD"))
    else:
        subprocess.run(["rm", "-rf", own], check=True)
        own.write_text(f"gitdir: {victim}/.git\n")
    taken = job.snapshot(1)
    assert taken.report.counts["repository"] == 1
    ref = store.put(1, taken.commit, job.repository)
    other = moved(tmp_path, ref, store)
    assert seen(other.work) == {path: each for path, each in seen(job.work).items() if path != b".git"}
    secret = git(victim, "rev-parse", "HEAD:secret.txt").decode().strip()
    assert b"missing" in git(job.repository.folder, "cat-file", "--batch-check", stdin=secret.encode())


def test_a_shallow_clone_moves(tmp_path: Path, store: SnapshotStore) -> None:
    source = make_source(tmp_path / "source")
    (source / "shop.py").write_bytes(b"price = 9\n")
    git(source, "commit", "-qam", "Nine")
    job = JobFolder(tmp_path / "here", "job-1")
    job.create()
    job.work.rmdir()
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{source}", str(job.work))
    other = moved(tmp_path, stored(job, 1, store), store)
    assert git(other.work, "log", "--format=%s") == b"Nine\n"
    assert git_state(other.work) == git_state(job.work)
    # Deepened, it still ends there elsewhere: the first snapshot in the store has no more.
    git(other.work, "fetch", "-q", "--unshallow")
    (other.work / "more.py").write_bytes(b"more\n")
    git(other.work, "add", "more.py")
    git(other.work, "commit", "-qm", "Ten")
    third = JobFolder(tmp_path / "third", "job-1")
    third.restore(stored(other, 2, store), store)
    assert git(third.work, "log", "--format=%s") == b"Ten\nNine\n"
    git(third.work, "fsck", "--full")


@pytest.mark.slow  # a second of a core
def test_files_that_vanish_and_grow_meanwhile_do_no_harm(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    folder = job.work / "busy"
    folder.mkdir()
    for number in range(300):
        (folder / f"kept{number}").write_bytes(b"kept")
    script = "while :; do rm -rf b; mkdir -p b/c; echo 1 > b/c/d; ln -sfn b l; echo 22 >> g; done"
    with subprocess.Popen(["sh", "-c", script], cwd=folder) as writer:
        try:
            refs = [stored(job, number, store) for number in range(1, 9)]
        finally:
            writer.kill()
    other = moved(tmp_path, refs[-1], store)
    assert sum(path.read_bytes() == b"kept" for path in (other.work / "busy").glob("kept*")) == 300


def test_a_large_file_of_the_record_costs_only_what_is_new(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    log = job.home / "logs" / "run.log"
    log.parent.mkdir()
    log.write_bytes(os.urandom(3_000_000))
    stored(job, 1, store)
    before = _size(tmp_path / "store")
    with log.open("ab") as file:
        file.write(b"one more line\n")
    ref = stored(job, 2, store)
    assert _size(tmp_path / "store") - before < 1_000_000
    assert (moved(tmp_path, ref, store).home / "logs" / "run.log").read_bytes() == log.read_bytes()


def test_keys_and_settings_of_the_machine_stay(job: JobFolder, store: SnapshotStore, tmp_path: Path) -> None:
    for name in ("keys.json", "config.toml", "permissions.json"):
        (job.home / name).write_text("secret")
    assert os.listdir(moved(tmp_path, stored(job, 1, store), store).home) == []  # noqa: PTH208


_KILLED = """
import os, signal, sys
from pathlib import Path
from newel.fleet.git_store import GitStore
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
root, kind = Path(sys.argv[1]), sys.argv[2]
store = folder_store(root / "store") if kind == "bundles" else GitStore(str(root / "store"))
job = JobFolder(root / "here", "job-1")
store.put(2, job.snapshot(2).commit, job.repository)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["bundles", "mirror"])
def test_a_worker_that_is_killed_after_the_push_loses_nothing(tmp_path: Path, kind: str) -> None:
    job = JobFolder(tmp_path / "here", "job-1")
    job.clone(str(make_source(tmp_path / "source")))
    store = folder_store(tmp_path / "store") if kind == "bundles" else GitStore(str(tmp_path / "store"))
    first = stored(job, 1, store)
    (job.work / "shop.py").write_bytes(b"of the dead worker\n")
    dead = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), kind], check=False)
    assert dead.returncode == -signal.SIGKILL
    # No event names that snapshot: another worker begins at the one before, and comes to its own second one.
    other = moved(tmp_path, first, store)
    (other.work / "shop.py").write_bytes(b"of the next worker\n")
    taken = other.snapshot(2)
    ref = store.put(2, taken.commit, other.repository)
    assert store.put(2, taken.commit, other.repository) == ref  # it was killed after that, too
    third = JobFolder(tmp_path / "third", "job-1")
    third.restore(ref, store)
    assert (third.work / "shop.py").read_bytes() == b"of the next worker\n"


def test_the_same_machine_takes_a_job_again_and_keeps_what_was_there(
    job: JobFolder, store: SnapshotStore, tmp_path: Path
) -> None:
    other = moved(tmp_path, stored(job, 1, store), store)
    (other.work / "shop.py").write_bytes(b"elsewhere\n")
    ref = stored(other, 2, store)
    (job.work / "shop.py").write_bytes(b"not saved\n")
    with pytest.raises(SnapshotError, match="has a folder here already"):
        job.restore(ref, store)
    job.restore(ref, store, replace=True)
    assert (job.work / "shop.py").read_bytes() == b"elsewhere\n"
    (kept,) = job.folder.glob("replaced-*")
    assert (kept / "work" / "shop.py").read_bytes() == b"not saved\n"


def test_a_lost_bundle_is_named(job: JobFolder, tmp_path: Path) -> None:
    store = folder_store(tmp_path / "store")
    first = stored(job, 1, store)
    ref = stored(job, 2, store)
    (tmp_path / "store" / first.key).unlink()
    with pytest.raises(
        SnapshotError, match=rf"Snapshot 2 of job job-1 .* lacks a part: {first.key} in .*/store"
    ):
        moved(tmp_path, ref, store)
    assert not (tmp_path / "on another machine" / "job-1" / "work").exists()


def test_a_damaged_bundle_is_named(job: JobFolder, tmp_path: Path) -> None:
    store = folder_store(tmp_path / "store")
    ref = stored(job, 1, store)
    bundle = tmp_path / "store" / ref.key
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(SnapshotError, match=rf"lacks a part: {ref.key} in .* is damaged"):
        moved(tmp_path, ref, store)
    bundle.write_bytes(data[:100])
    with pytest.raises(SnapshotError, match=rf"lacks a part: {ref.key} in .* is damaged"):
        moved(tmp_path, ref, store)


def test_a_mirror_that_lost_the_ref_or_an_object_is_named(job: JobFolder, tmp_path: Path) -> None:
    place = tmp_path / "store"
    store = GitStore(str(place))
    ref = stored(job, 1, store)
    for pack in (place / "objects").rglob("*.pack"):
        git(tmp_path, "init", "-q", "--bare", "unpacked")
        git(tmp_path / "unpacked", "unpack-objects", "-q", stdin=pack.read_bytes())
    blob = git(job.work, "rev-parse", "HEAD:shop.py").decode().strip()
    for lost in (*(place / "objects").rglob(f"{blob[2:]}*"), *(place / "objects").rglob("*.pack")):
        lost.unlink()
    with pytest.raises(
        SnapshotError,
        match=r"Snapshot 1 of job job-1 .* cannot be fetched from .*/store: refs/newel/job-1/1 is",
    ):
        moved(tmp_path, ref, store)
    git(place, "update-ref", "-d", ref.key)
    with pytest.raises(SnapshotError, match="refs/newel/job-1/1 is missing"):
        moved(tmp_path, ref, store)


def test_what_the_machine_lacks_is_said(job: JobFolder, tmp_path: Path) -> None:
    ref = stored(job, 1, store := folder_store(tmp_path / "store"))
    (tmp_path / "file").write_text("no folder")
    for other in (JobFolder(tmp_path / "file", "job-1"), JobFolder(tmp_path / "file", "job-2")):
        with pytest.raises(SnapshotError, match=r"cannot be used: Not a directory|is not of job"):
            other.restore(ref, store)
        with pytest.raises(SnapshotError, match=r"cannot be used: Not a directory"):
            other.create()
    with pytest.raises(SnapshotError, match="has a folder here already"):
        job.clone(str(tmp_path / "source"))
    assert (job.work / "shop.py").exists()


def test_a_failed_restore_leaves_what_is_here(job: JobFolder, tmp_path: Path) -> None:
    store = folder_store(tmp_path / "store")
    ref = stored(job, 1, store)
    before = seen(job.work)
    missing = SnapshotRef(
        job="job-1", number=9, commit="0" * 40, store=ref.store, key=f"job-1/9-{'0' * 40}.bundle"
    )
    with pytest.raises(SnapshotError, match="does not exist"):
        job.restore(missing, store, replace=True)
    assert seen(job.work) == before


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "{tmp}/nothing",
            "cannot be cloned for job job-1 .*does not appear to be a git repository.* Check the address",
        ),
        ("{tmp}/empty.txt", "cannot be cloned"),
        ("ext::touch {tmp}/ran", "is not the address of a repository"),
        ("-u./evil", "is not the address of a repository"),
        ("foo://x/y", "is not a protocol"),
    ],
)
def test_a_repository_that_cannot_be_cloned_is_named(tmp_path: Path, url: str, words: str) -> None:
    (tmp_path / "empty.txt").write_text("no repository")
    job = JobFolder(tmp_path / "here", "job-1")
    with pytest.raises(SnapshotError, match=words):
        job.clone(url.format(tmp=tmp_path))
    assert not job.folder.exists()
    assert not (tmp_path / "ran").exists()


def test_a_store_that_cannot_be_written_is_named_and_the_snapshot_is_kept(
    job: JobFolder, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    taken = job.snapshot(1)
    with pytest.raises(SnapshotError, match=r"store .* cannot be created"):
        GitStore(str(tmp_path / "file" / "store")).put(1, taken.commit, job.repository)
    with pytest.raises(SnapshotError, match=r"store .* cannot be created"):
        folder_store(tmp_path / "file" / "store")
    GitStore(str(tmp_path / "store")).put(1, taken.commit, job.repository)


@pytest.mark.parametrize("path", ["../out", ".git/config", "a/.GIT/x"])
def test_a_snapshot_that_leads_out_of_the_folder_is_refused(
    job: JobFolder, tmp_path: Path, path: str
) -> None:
    store = folder_store(tmp_path / "store")
    ref = stored(job, 1, store)
    evil = _with_path(job, ref.commit, path)
    evil_ref = store.put(2, evil, job.repository)
    with pytest.raises(SnapshotError, match="not a path inside a job's folder"):
        moved(tmp_path, evil_ref, store)
    assert not (tmp_path / "on another machine" / "job-1" / "out").exists()


def _with_path(job: JobFolder, commit: str, path: str) -> str:
    """A snapshot with one more file, at a path that git itself would not write."""
    repository = job.repository.folder
    entry = git(repository, "hash-object", "-w", "--stdin", stdin=b"evil").strip()
    mode = b"100644"
    parts = path.split("/")
    while parts:
        raw = mode + b" " + parts.pop().encode() + b"\0" + bytes.fromhex(entry.decode())
        if not parts:
            raw += git(repository, "cat-file", "tree", f"{commit}:work")
        entry = git(
            repository, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw
        ).strip()
        mode = b"40000"
    top = git(repository, "ls-tree", commit).replace(
        git(repository, "rev-parse", f"{commit}:work").strip(), entry
    )
    tree = git(repository, "mktree", "--missing", stdin=top).decode().strip()
    made = git(repository, "commit-tree", "-m", "evil", "-p", commit, tree).decode().strip()
    git(repository, "update-ref", job.repository.ref_name(2), made)
    return made


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
