"""If these fail, stores and disks fill up, or a clean-up takes the files of a job that still needs them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest

from newel.app.fleet_maintenance import FleetMaintenance
from newel.fleet.changes import read_changes
from newel.fleet.errors import SnapshotError
from newel.fleet.folder_cleaner import FolderCleaner, remove_leftovers
from newel.fleet.folders import JobFolders, open_store
from newel.fleet.git_store import GitStore
from newel.fleet.job import FleetJob
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
from newel.fleet.retention import empty_store
from newel.fleet.snapshot_repository import SnapshotRef
from newel.fleet.snapshot_store import SnapshotStore
from newel.jobs.engine import JobOutcome
from newel.jobs.placement import WorkerIdentity
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from newel.runs.models import Contract
from newel.runs.run_events import FolderSnapshot
from newel.text.json import to_json
from tests.fleet import FleetOfProcesses, wait_for
from tests.integration.agents.support import after
from tests.job_folders import git, make_source
from tests.postgres import PostgresServer
from tests.support import bash, scenario

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[pytest.param("bundles", marks=pytest.mark.slow), "mirror"])  # half of the time
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    place = tmp_path / "store"
    return folder_store(place) if request.param == "bundles" else GitStore(str(place))


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
async def engine(
    anyio_backend: str, postgres: PostgresServer, database: str
) -> AsyncGenerator[PostgresEngine]:
    identity = WorkerIdentity(name="w", machine="here")
    async with open_postgres_engine(postgres.url(database), worker=identity) as opened:
        yield opened


def names_in(tmp_path: Path) -> list[str]:
    """Of the snapshots in the store: JOB/NUMBER."""
    place = tmp_path / "store"
    if (place / "HEAD").exists():
        listed = git(place, "for-each-ref", "--format=%(refname)").decode().split()
        return sorted(each.removeprefix("refs/newel/").partition("-bad")[0] for each in listed)
    files = [path.relative_to(place) for path in place.rglob("*.bundle")]
    return sorted(f"{path.parent}/{path.name.partition('-')[0]}" for path in files)


class LongJob:
    """A job whose every snapshot has a new file of random bytes, which the next one has not."""

    def __init__(self, root: Path, store: SnapshotStore, job: str = "job-1") -> None:
        self.folder = JobFolder(root, job)
        self.store = store
        self.refs: list[SnapshotRef] = []

    def go_on(self, number: int) -> SnapshotRef:
        with (self.folder.work / "log").open("a") as log:
            log.write(f"{number}\n")
        (self.folder.work / "scratch").write_bytes(os.urandom(50_000))
        self.refs.append(self.store.put(number, self.folder.snapshot(number).commit, self.folder.repository))
        return self.refs[-1]

    def forget(self, last: SnapshotRef) -> None:
        self.store.remove_superseded(self.refs[0], last, self.folder.repository)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def age(folder: Path, days: float) -> None:
    when = time.time() - days * 86_400
    os.utime(folder, (when, when))


def log_of(folder: JobFolder) -> list[int]:
    return [int(line) for line in (folder.work / "log").read_text().split()]


async def submit(engine: PostgresEngine, key: str) -> str:
    return await engine.submit("k", b"{}", queue=key, key=key)


async def end(engine: PostgresEngine, count: int = 1) -> None:
    for lease in await engine.claim(count, "w"):
        await engine.finish(lease, JobOutcome(state="done"))


# -- the store ---------------------------------------------------------------------------------------


def test_superseded_snapshots_are_removed_and_the_others_can_be_restored(
    store: SnapshotStore, tmp_path: Path
) -> None:
    long = LongJob(tmp_path / "here", store)
    long.folder.clone(str(make_source(tmp_path / "source")))
    for number in range(17, 23):
        long.go_on(number)
    long.forget(long.refs[3])  # the twentieth, with which a new history begins
    assert names_in(tmp_path) == [f"job-1/{number}" for number in (17, 20, 21, 22)]
    other = JobFolder(tmp_path / "there", "job-1")
    other.restore(long.refs[-1], store)
    assert log_of(other) == [*range(17, 23)]
    assert git(other.work, "log", "--format=%s") == git(long.folder.work, "log", "--format=%s")
    snapshots = [
        FolderSnapshot(number=ref.number, ref=to_json(ref).decode()) for ref in (long.refs[0], long.refs[-1])
    ]
    edits = {edit.path: edit for edit in read_changes(tmp_path / "x", store, snapshots)}
    assert edits["log"].after is not None
    assert edits["log"].after.data == b"17\n18\n19\n20\n21\n22\n"


def test_the_space_of_superseded_snapshots_is_freed_in_a_mirror(tmp_path: Path) -> None:
    store = GitStore(str(tmp_path / "store"))
    long = LongJob(tmp_path / "here", store)
    long.folder.create()
    for number in range(13, 22):
        long.go_on(number)
    long.forget(long.refs[-1])
    git(tmp_path / "store", "gc", "--quiet", "--prune=now")
    size = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*.pack"))
    assert 2 * 50_000 <= size < 4 * 50_000
    other = JobFolder(tmp_path / "there", "job-1")
    other.restore(long.refs[-1], store)
    assert log_of(other) == [*range(13, 22)]


@pytest.mark.slow  # seconds of waiting
def test_a_late_attempt_removes_nothing_that_the_next_one_needs(store: SnapshotStore, tmp_path: Path) -> None:
    late = LongJob(tmp_path / "late", store)
    late.folder.clone(str(make_source(tmp_path / "source")))
    for number in range(17, 20):
        late.go_on(number)
    # The journal has the twentieth, but its worker hangs before it removes the earlier ones; another one takes over.
    acknowledged = late.go_on(20)
    following = LongJob(tmp_path / "next", store)
    following.folder.restore(acknowledged, store)
    for number in range(21, 24):
        following.go_on(number)
    late.go_on(21)  # its event is refused
    late.forget(acknowledged)
    third = JobFolder(tmp_path / "third", "job-1")
    third.restore(following.refs[-1], store)
    assert log_of(third) == [*range(17, 24)]


def test_jobs_that_share_a_start_keep_it(store: SnapshotStore, tmp_path: Path) -> None:
    start = LongJob(tmp_path / "laptop", store, "start-f")
    start.folder.create()
    begin = start.go_on(0)
    jobs = [LongJob(tmp_path / f"m{number}", store, f"job-{number}") for number in range(2)]
    for job in jobs:
        job.folder.begin(begin, store)
        for number in range(1, 4):
            job.go_on(number)
        job.forget(job.refs[-1])
    store.remove(["job-0", "job-unknown"])
    store.remove(["job-0"])
    left = names_in(tmp_path)
    assert {"job-1/1", "job-1/3", "start-f/0"} <= {*left}  # a bundle needs the second, too; a mirror does not
    assert not any(name.startswith("job-0/") for name in left)
    other = JobFolder(tmp_path / "there", "job-1")
    other.restore(jobs[1].refs[-1], store)
    assert log_of(other) == [0, 1, 2, 3]
    store.remove(["job-1", "start-f"])
    assert names_in(tmp_path) == []


def test_a_job_whose_name_begins_as_that_of_another_one_is_left_alone(
    store: SnapshotStore, tmp_path: Path
) -> None:
    for name in ("job-1", "job-12"):
        job = LongJob(tmp_path / "here", store, name)
        job.folder.create()
        job.go_on(1)
    store.remove(["job-1"])
    assert names_in(tmp_path) == ["job-12/1"]
    for name in ("", "*", "../x", "job-12/1"):
        with pytest.raises(SnapshotError, match="is not a job ID"):
            store.remove([name])


def test_a_store_that_is_away_is_named(tmp_path: Path) -> None:
    store = GitStore(str(tmp_path / "store"))
    with pytest.raises(SnapshotError, match=r"no repository in .*/store. Is the disk mounted"):
        store.remove(["job-1"])
    with pytest.raises(SnapshotError, match=r"cannot be removed from .*nothing.git \(git: "):
        GitStore(f"file://{tmp_path}/nothing.git").remove(["job-1"])


def test_a_mirror_collects_its_garbage_once_a_day(tmp_path: Path) -> None:
    store = GitStore(str(tmp_path / "store"))
    job = LongJob(tmp_path / "here", store)
    job.folder.create()
    for number in range(1, 4):
        job.go_on(number)
    (stamp,) = _collected(store, tmp_path)
    age(stamp, 1.1)
    assert _collected(store, tmp_path) == [stamp]
    packs = tmp_path / "store" / "objects" / "pack"  # other folders of objects vanish meanwhile
    wait_for(lambda: len([*packs.glob("*.pack")]) == 1)
    before = stamp.stat().st_mtime
    assert before > time.time() - 60
    store.collect_garbage()
    assert stamp.stat().st_mtime == before
    JobFolder(tmp_path / "there", "job-1").restore(job.refs[-1], store)


def _collected(store: SnapshotStore, tmp_path: Path) -> list[Path]:
    store.collect_garbage()
    return [*(tmp_path / "store").glob("newel-*")]


_KILLED = """
import os, signal, sys
import anyio
from newel.jobs.postgres.engine import open_postgres_engine
async def main():
    async with open_postgres_engine(sys.argv[1]) as engine:
        await engine.retention.delete([sys.argv[2]])
        await engine.retention.claim_removals()
        os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main)
"""


async def test_who_is_killed_between_the_database_and_the_store_leaves_it_to_the_next(
    engine: PostgresEngine, store: SnapshotStore, tmp_path: Path, postgres: PostgresServer, database: str
) -> None:
    await engine.fleets.begin("f", "k", 2)
    gone, kept = [await submit(engine, f"f/{number}") for number in (1, 2)]
    await end(engine)
    for name in ("start-f", gone, kept, "of-another-database"):
        job = LongJob(tmp_path / "here", store, name)
        job.folder.create()
        job.go_on(1)
    killed = await anyio.run_process(
        [sys.executable, "-c", _KILLED, postgres.url(database), gone], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert await engine.get(gone) is None
    assert await empty_store(engine.retention, store, print) == 0  # for ten minutes they are the other one's
    postgres.execute("update newel.removals set due = now()", database)
    assert await empty_store(engine.retention, store, print) == 1
    assert names_in(tmp_path) == sorted(f"{name}/1" for name in ("start-f", kept, "of-another-database"))


async def test_a_worker_deletes_what_is_older_than_its_settings_say(
    engine: PostgresEngine, tmp_path: Path, postgres: PostgresServer, database: str
) -> None:
    store = GitStore(str(tmp_path / "store"))
    old, new = [await submit(engine, f"f{number}/1") for number in (1, 2)]
    await end(engine, 2)
    make_older = f"update newel.jobs set updated = now() - interval '8 days' where id = '{old}'"  # noqa: S608
    postgres.execute(make_older, database)
    for name in (old, new):
        job = LongJob(tmp_path / "elsewhere", store, name)
        job.folder.create()
        job.go_on(1)
    lines: list[str] = []
    maintenance = FleetMaintenance(
        tmp_path / "home", store, engine.retention, lines.append, keep_days=7, running=list, store_every=0
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maintenance.run)
        with anyio.fail_after(20):
            while names_in(tmp_path) != [f"{new}/1"]:  # noqa: ASYNC110 — a store tells nobody
                await anyio.sleep(0.1)
        tasks.cancel_scope.cancel()
    assert lines == ["Deleted 1 job that had ended more than 7 days ago."]
    assert await engine.get(new) is not None


# -- the disk of a worker ----------------------------------------------------------------------------


def make_folder(root: Path, name: str, *, days: float = 0.0) -> Path:
    folder = root / name
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "locked").mkdir(mode=0o500)
    (folder / "home").mkdir()
    for place in (folder / "work", folder / "home", folder):
        age(place, days)
    return folder


async def test_folders_of_ended_jobs_are_kept_for_a_day_and_those_of_running_ones_always(
    engine: PostgresEngine, tmp_path: Path, postgres: PostgresServer, database: str
) -> None:
    old, new, running, queued = [await submit(engine, f"f/{number}") for number in range(4)]
    await end(engine, 2)
    await engine.claim(1, "w")
    make_older = f"update newel.jobs set updated = now() - interval '2 days' where id <> '{new}'"  # noqa: S608
    postgres.execute(make_older, database)
    for name in (old, new, running, queued):
        make_folder(tmp_path, name, days=3)
    make_folder(tmp_path, "of-another-database")
    make_folder(tmp_path, "start-forgotten", days=2)
    make_folder(tmp_path, ".removed-half")
    lines: list[str] = []
    await FolderCleaner(tmp_path, engine.retention, lines.append).clean()
    assert names(tmp_path) == {new, running, queued, "of-another-database"}
    assert lines == []


async def test_a_machine_keeps_the_newest_folders_and_none_if_its_disk_is_full(
    engine: PostgresEngine, tmp_path: Path
) -> None:
    jobs = [await submit(engine, f"f/{number}") for number in range(4)]
    for _ in range(3):
        await end(engine)
    for job in jobs:
        make_folder(tmp_path, job)
    lines: list[str] = []
    await FolderCleaner(tmp_path, engine.retention, lines.append, kept=2).clean()
    assert names(tmp_path) == {*jobs[1:]}
    full = FolderCleaner(tmp_path, engine.retention, lines.append, free_wanted=lambda total: total)
    await full.clean(running=[jobs[1]])
    assert names(tmp_path) == {jobs[1], jobs[3]}
    assert "is nearly full" in lines[0]
    await full.clean(running=[jobs[1]])
    assert len(lines) == 1


def test_commands_that_were_killed_leave_nothing_for_long(tmp_path: Path) -> None:
    make_folder(tmp_path, "changes-old", days=2)
    make_folder(tmp_path, "changes-new")
    make_folder(tmp_path / "jobs", "start-old", days=2)
    make_folder(tmp_path / "jobs", "job", days=2)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {"changes-new", "jobs"}
    assert names(tmp_path / "jobs") == {"job"}


async def test_a_job_that_comes_back_again_and_again_keeps_one_earlier_folder(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    here = LongJob(tmp_path / "here", store)
    here.folder.create()
    there = JobFolders(tmp_path / "there", store)
    job = FleetJob(fleet="f", number=1, contract=Contract(text="x"), session="s")
    for number in range(1, 4):
        ref = here.go_on(number)
        latest = FolderSnapshot(number=number, ref=to_json(ref).decode())
        async with there.open("job-1", job, latest):
            assert log_of(JobFolder(tmp_path / "there", "job-1")) == log_of(here.folder)
    earlier = [name for name in names(tmp_path / "there" / "job-1") if name.startswith("replaced-")]
    assert len(earlier) == 1


# -- the commands ------------------------------------------------------------------------------------


@pytest.mark.slow  # a second of a core
def test_a_user_deletes_a_fleet_that_has_ended(make_fleet: Callable[..., FleetOfProcesses]) -> None:
    fleet = make_fleet(
        after(1, True), scenario("Work", bash("echo begun > log; until [ -e go ]; do sleep 0.1; done"))
    )
    worker = fleet.worker("one")
    job = fleet.run("Work a little")
    store = fleet.folder / "store.git"
    wait_for(lambda: [*worker.home.glob(".newel/fleet/jobs/*/work/log")])
    (running,) = fleet.jobs(job)
    refused = fleet("fleet", "delete", job, "--yes", check=False)
    assert refused.returncode == 2
    assert f"has not ended. Cancel it first: `newel fleet cancel {job}`" in refused.stderr
    (worker.work(job) / "go").touch()
    wait_for(lambda: fleet.state(job) == "completed", worker.log)
    asked = fleet("fleet", "delete", running["fleet"], check=False)
    assert asked.returncode == 2
    assert "--yes skips the question" in asked.stderr
    assert "start-" in git(store, "for-each-ref").decode()
    assert "Deleted 0 jobs." in fleet("fleet", "prune", "--older-than", "1h", "--yes").stdout
    assert "Deleted 1 job." in fleet("fleet", "delete", running["fleet"], "--yes").stdout
    assert git(store, "for-each-ref") == b""
    assert "No jobs have been submitted" in fleet("fleet", "status").stdout
