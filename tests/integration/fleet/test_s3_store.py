"""If these fail, jobs cannot be kept in a bucket, or a fault of its server is a riddle."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import httpx2
import obstore
import pytest
from obstore.store import S3Store

from newel.fleet.errors import SnapshotError
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import s3_store
from newel.fleet.snapshot_repository import SnapshotRef
from tests.job_folders import git_state, make_source, seen

_SECONDS = 20


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    """A server that speaks the protocol of S3, with a bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + _SECONDS
            while True:
                try:
                    httpx2.put(f"{url}/jobs", trust_env=False).raise_for_status()
                    break
                except httpx2.TransportError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            yield url
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.mark.slow  # a second of a core
def test_a_job_moves_by_a_bucket(server: str, tmp_path: Path) -> None:
    store = s3_store("jobs", prefix="of/newel", endpoint=server, region="us-east-1", full_every=3)
    assert store.name == f"{server}/jobs/of/newel"
    job = JobFolder(tmp_path / "here", "job-1")
    job.clone(str(make_source(tmp_path / "source")))
    (job.work / "large.bin").write_bytes(bytes(range(256)) * 40_000)
    refs: list[SnapshotRef] = []
    for number in range(1, 6):
        (job.work / "shop.py").write_bytes(b"price = %d\n" % number)
        refs.append(store.put(number, job.snapshot(number).commit, job.repository))
    assert [len(ref.bases) for ref in refs] == [0, 1, 2, 0, 1]
    ref = refs[-1]
    other = JobFolder(tmp_path / "there", "job-1")
    other.restore(ref, store)
    assert seen(other.work) == seen(job.work)
    assert git_state(other.work) == git_state(job.work)
    # The other machine goes on from the bundle that it fetched.
    assert store.put(6, other.snapshot(6).commit, other.repository).bases == (*ref.bases, ref.key)


def test_a_missing_object_and_a_missing_bucket_are_named(server: str, tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "here", "job-2")
    job.clone(str(make_source(tmp_path / "source")))
    taken = job.snapshot(1)
    absent = s3_store("nothing", endpoint=server, region="us-east-1")
    with pytest.raises(
        SnapshotError, match=r"Snapshot 1 of job job-2 .* cannot be stored in http://.*/nothing as job-2/1-"
    ):
        absent.put(1, taken.commit, job.repository)
    store = s3_store("jobs", endpoint=server, region="us-east-1")
    ref = store.put(1, taken.commit, job.repository)
    bucket = S3Store("jobs", endpoint=server, region="us-east-1", client_options={"allow_http": True})
    obstore.delete(bucket, ref.key)
    with pytest.raises(SnapshotError, match=rf"lacks a part: {ref.key} in http://.*/jobs does not exist"):
        JobFolder(tmp_path / "there", "job-2").restore(ref, store)


def test_the_snapshots_of_a_deleted_job_leave_the_bucket(server: str, tmp_path: Path) -> None:
    store = s3_store("jobs", prefix="removing", endpoint=server, region="us-east-1", full_every=2)
    bucket = S3Store("jobs", endpoint=server, region="us-east-1", client_options={"allow_http": True})
    refs: dict[str, list[SnapshotRef]] = {}
    for name in ("job-3", "job-30"):
        job = JobFolder(tmp_path / name, name)
        job.create()
        for number in range(1, 5):
            (job.work / "file").write_text(f"{number}")
            refs.setdefault(name, []).append(store.put(number, job.snapshot(number).commit, job.repository))

    def keys() -> set[str]:
        listed = obstore.list(bucket, "removing")  # pyright: ignore[reportUnknownMemberType]
        return {meta["path"].removeprefix("removing/") for page in listed for meta in page}

    first, _, base, last = refs["job-3"]
    store.remove_superseded(first, last, JobFolder(tmp_path / "job-3", "job-3").repository)
    others = {ref.key for ref in refs["job-30"]}
    assert keys() == {first.key, base.key, last.key} | others
    store.remove(["job-3"])
    assert keys() == others
