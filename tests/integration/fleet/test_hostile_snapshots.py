"""If these fail, who can write to the store of a fleet, or submit a job, writes files of a worker or runs commands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newel.fleet.errors import SnapshotError
from newel.fleet.git_store import GitStore
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
from newel.fleet.snapshot_repository import SnapshotRef
from tests.job_folders import git, make_source

pytestmark = pytest.mark.slow  # two repositories for each attack; test_job_snapshots.py has the quick tests

Record = dict[str, Any]

OID = "a" * 40


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path / "here", "job-1")
    folder.clone(str(make_source(tmp_path / "source")))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> GitStore:
    return GitStore(str(tmp_path / "store"))


def forged(job: JobFolder, path: str, data: bytes) -> str:
    """A snapshot of the job with another file, at any path below the commit."""
    repository, commit = job.repository.folder, job.snapshot(1).commit
    tree = _with_file(repository, commit, path.split("/"), data)
    made = git(repository, "commit-tree", "-m", "forged", "-p", commit, tree).decode().strip()
    git(repository, "update-ref", job.repository.ref_name(2), made)
    return made


def _with_file(repository: Path, tree: str, parts: Sequence[str], data: bytes) -> str:
    """``tree`` is empty for a new one."""
    listed = git(repository, "ls-tree", tree).decode().splitlines() if tree else []
    entries = {line.partition("\t")[2]: line.partition("\t")[0] for line in listed}
    name, below = parts[0], parts[1:]
    if below:
        inside = entries[name].split(" ")[2] if name in entries else ""
        entries[name] = f"040000 tree {_with_file(repository, inside, below, data)}"
    else:
        entries[name] = (
            f"100644 blob {git(repository, 'hash-object', '-w', '--stdin', stdin=data).decode().strip()}"
        )
    text = "".join(f"{entry}\t{each}\n" for each, entry in entries.items())
    return git(repository, "mktree", stdin=text.encode()).decode().strip()


def with_record(job: JobFolder, change: Callable[[Record], object]) -> str:
    commit = job.snapshot(1).commit
    record = msgspec.json.decode(git(job.repository.folder, "cat-file", "blob", f"{commit}:git/record"))
    change(record)
    return forged(job, "git/record", msgspec.json.encode(record))


def restored(tmp_path: Path, job: JobFolder, store: GitStore, commit: str) -> JobFolder:
    other = JobFolder(tmp_path / "on another machine", "job-1")
    other.restore(store.put(2, commit, job.repository), store)
    return other


def refusal(tmp_path: Path, job: JobFolder, store: GitStore, commit: str) -> str:
    with pytest.raises(SnapshotError) as caught:
        restored(tmp_path, job, store, commit)
    assert not (tmp_path / "on another machine" / "job-1" / "work").exists()
    return str(caught.value)


@pytest.mark.parametrize("victim", ["exists", "is new"])
def test_a_ref_that_leads_out_of_the_repository_writes_no_file(
    job: JobFolder, store: GitStore, tmp_path: Path, victim: str
) -> None:
    bashrc = tmp_path / ".bashrc"
    if victim == "exists":
        bashrc.write_text("mine\n")
    name = f"refs/heads/{'../' * 30}{str(bashrc).lstrip('/')}"
    ref = {"name": name, "oid": "", "target": f"refs/x;touch${{IFS}}{tmp_path}/ran;true"}
    said = refusal(tmp_path, job, store, with_record(job, lambda record: record["refs"].append(ref)))
    assert "impossible name" in said
    assert (bashrc.read_text() if bashrc.exists() else "") == ("mine\n" if victim == "exists" else "")


@pytest.mark.parametrize("name", ["refs/heads/../../config", "HEAD", "refs/heads/a\nb", "--delete"])
@pytest.mark.parametrize("place", ["name", "target", "HEAD"])
def test_an_impossible_name_of_a_ref_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, place: str, name: str
) -> None:
    def change(record: Record) -> None:
        if place == "HEAD":
            record["head"] = f"ref: {name}\n"
        elif place == "name":
            record["refs"].append({"name": name, "oid": record["refs"][0]["oid"], "target": ""})
        else:
            record["refs"].append({"name": "refs/heads/evil", "oid": "", "target": name})

    said = refusal(tmp_path, job, store, with_record(job, change))
    assert ("HEAD is damaged" if place == "HEAD" else "ref of an impossible name") in said


@pytest.mark.parametrize(
    "oid", ["", "a" * 39, "a" * 50, "A" * 40, f"{OID}\ncreate refs/heads/evil {OID}", f"{OID}\n", "HEAD"]
)
def test_what_is_no_object_of_a_ref_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, oid: str
) -> None:
    ref = {"name": "refs/heads/a", "oid": oid, "target": ""}
    said = refusal(tmp_path, job, store, with_record(job, lambda record: record["refs"].append(ref)))
    assert "refs/heads/a" in said
    assert "names no object" in said


@pytest.mark.parametrize("head", ["a" * 50, OID + "\n\n", "ref: refs/heads/a\nx", ""])
def test_a_head_that_is_neither_a_branch_nor_a_commit_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, head: str
) -> None:
    commit = with_record(job, lambda record: record.__setitem__("head", head))
    assert "HEAD is damaged" in refusal(tmp_path, job, store, commit)


def test_no_setting_names_a_program_or_another_place(job: JobFolder, store: GitStore, tmp_path: Path) -> None:
    def change(record: Record) -> None:
        record["settings"] = [
            ["core.fsmonitor", "touch ran"],
            ["branch.main.remote", "ext::sh -c touch% ran"],
            ["branch.main.merge", "--upload-pack=touch ran"],
            ["branch.other.remote", "/somewhere/else"],
            ["branch.evil\n[core]\nfsmonitor.remote", "origin"],
            ['branch.x"]\n[core]\n\tpager=touch ran\n[".remote', "origin"],
            ["branch.good.remote", "origin"],
            ["branch.good.merge", "refs/heads/good"],
            ["branch.own.remote", "."],
            ["user.name", 'A\n[core]\n\tfsmonitor = "touch ran"'],
        ]

    other = restored(tmp_path, job, store, with_record(job, change))
    listed = git(other.work, "config", "--local", "--list", "-z").decode().split("\0")
    expected = {
        'user.name\nA\n[core]\n\tfsmonitor = "touch ran"',
        "branch.good.remote\norigin",
        "branch.good.merge\nrefs/heads/good",
        "branch.own.remote\n.",
    }
    assert {each for each in listed if each.startswith(("user.", "branch."))} == expected
    assert not any("fsmonitor" in each.partition("\n")[0] for each in listed)


@pytest.mark.parametrize("origin", ["ext::sh -c touch% ran", "-u./evil", "foo://x"])
def test_an_origin_that_would_run_a_program_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, origin: str
) -> None:
    commit = with_record(job, lambda record: record.__setitem__("origin", origin))
    assert "a repository" in refusal(tmp_path, job, store, commit)


@pytest.mark.parametrize(
    "path",
    [
        "git/files/hooks:pre-commit",
        "git/files/config",
        "git/files/rebase-merge:..",
        "git/files/objects:info:alternates",
    ],
)
def test_a_file_that_is_no_state_of_a_repository_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, path: str
) -> None:
    said = refusal(tmp_path, job, store, forged(job, path, b"evil"))
    assert "not part of a repository's state" in said


@pytest.mark.parametrize(
    "path",
    [
        "home/sessions/..:/00000000",
        "home/sessions/x/..:/00000001",
        "home/keys.json",
        "home/review/:/00000000",
    ],
)
def test_a_record_that_leads_out_of_the_home_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, path: str
) -> None:
    said = refusal(tmp_path, job, store, forged(job, path, b"evil"))
    assert "does not belong to a job's record" in said


def test_a_ref_that_no_machine_can_restore_stays_behind_and_is_named(
    job: JobFolder, store: GitStore, tmp_path: Path
) -> None:
    long = f"refs/heads/odd{'a' * 250}"  # git reads such a name in a file, and can write none of it
    commit = git(job.work, "rev-parse", "HEAD").decode()
    (job.work / ".git/packed-refs").write_text(f"{commit.strip()} {long}\n")
    taken = job.snapshot(1)
    assert any("refs/heads/odd" in word for word in taken.report.words()), taken.report.words()
    other = JobFolder(tmp_path / "on another machine", "job-1")
    other.restore(store.put(1, taken.commit, job.repository), store)
    assert b"odd" not in git(other.work, "for-each-ref")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "refs/heads/main"),
        ("key", "refs/newel/job-1/../../heads/x"),
        ("key", "--upload-pack=touch ran"),
        ("commit", "--all"),
        ("commit", "a" * 50),
        ("form", "sha1 --template=/tmp"),
        ("number", -1),
        ("job", "../../x"),
    ],
)
def test_a_reference_to_a_snapshot_that_no_worker_makes_is_refused(
    job: JobFolder, store: GitStore, tmp_path: Path, field: str, value: object
) -> None:
    ref = msgspec.structs.replace(store.put(1, job.snapshot(1).commit, job.repository), **{field: value})
    with pytest.raises(SnapshotError, match="names no snapshot"):
        JobFolder(tmp_path / "on another machine", "job-2").begin(ref, store)


@pytest.mark.parametrize(
    "key", ["../outside/1-{oid}.bundle", "job-1/../../outside/1-{oid}.bundle", "/etc/1-{oid}.bundle"]
)
@pytest.mark.parametrize("field", ["key", "bases"])
def test_a_bundle_that_is_outside_of_its_store_is_refused(
    job: JobFolder, tmp_path: Path, key: str, field: str
) -> None:
    store = folder_store(tmp_path / "store")
    ref: SnapshotRef = store.put(1, job.snapshot(1).commit, job.repository)
    place = key.format(oid=ref.commit)
    ref = msgspec.structs.replace(ref, **{field: place if field == "key" else (place,)})
    with pytest.raises(SnapshotError, match="names no snapshot"):
        JobFolder(tmp_path / "on another machine", "job-1").restore(ref, store)
