"""If these fail, other users can read the journal, a crash damages it, or its errors are not explained."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from newel.jobs.directory_lock import LOCK
from newel.jobs.engine import EngineError, JobOutcome, Lease
from newel.jobs.group_commit import Writer
from newel.jobs.queries import APPLICATION_ID, FILE, MIGRATIONS
from newel.jobs.sqlite import SqliteEngine, open_engine, open_reader
from newel.storage.sqlite import Format

pytestmark = pytest.mark.anyio

VERSION_1 = Path(__file__).with_name("journal_v1.sql")


@contextlib.contextmanager
def database(path: Path) -> Generator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


async def begin(engine: SqliteEngine, *events: bytes, queue: str = "q") -> Lease:
    await engine.submit("turn", b"{}", queue=queue)
    (lease,) = await engine.claim(1, "w", queues=[queue])
    if events:
        await engine.append(lease, events, expect_seq=0)
    return lease


async def refused(directory: Path) -> str:
    with pytest.raises(EngineError) as error:
        async with open_engine(directory):
            pass
    return str(error.value)


async def test_a_journal_that_cannot_be_written_any_more_is_closed_without_a_traceback(
    tmp_path: Path,
) -> None:
    path = tmp_path / FILE
    with (
        database(path) as other,
        contextlib.closing(
            sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        ) as own,
    ):
        other.execute("BEGIN IMMEDIATE")
        writer = Writer(own, str(path), threading.Lock())
        await writer.aclose()


# -- what the next process finds ----------------------------------------------------------------------


async def test_running_jobs_are_claimed_again_after_a_restart_with_their_progress(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        lease = await begin(engine, b"1", b"2")
        younger = await engine.submit("turn", b"{}", queue="q")
    async with open_engine(tmp_path) as engine:
        (again,) = await engine.claim(9, "w")
        assert (again.job, again.seq) == (lease.job, 2)
        assert [event.data for event in await engine.read(again.job)] == [b"1", b"2"]
        await engine.append(again, [b"3"], expect_seq=2)
        await engine.finish(again, JobOutcome(state="done"))
        assert [each.job for each in await engine.claim(9, "w")] == [younger]


async def test_an_attempt_counts_after_a_crash_and_not_after_a_normal_exit(
    tmp_path: Path,
) -> None:
    """Otherwise a user who ends the server every evening loses a long run on the sixth day."""
    for _ in range(7):
        async with open_engine(tmp_path / "ended") as engine:
            await engine.submit("turn", b"{}", queue="q", key="one")
            (lease,) = await engine.claim(1, "w")
            assert lease.attempt == 1

    for attempt in range(1, 4):
        async with open_engine(tmp_path / "died") as engine:
            await engine.submit("turn", b"{}", queue="q", key="one")
            (lease,) = await engine.claim(1, "w")
            assert lease.attempt == attempt
            # What a killed server leaves behind.
            shutil.copytree(tmp_path / "died", tmp_path / "copy")
        shutil.rmtree(tmp_path / "died")
        (tmp_path / "copy").rename(tmp_path / "died")


async def test_a_run_cancelled_as_its_server_ended_does_not_return(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        lease = await begin(engine)
        await engine.cancel(lease.job, "The tab was closed.")
    async with open_engine(tmp_path) as engine:
        assert await engine.claim(1, "w") == []
        job = await engine.get(lease.job)
        assert job is not None
        assert (job.state, job.reason) == ("cancelled", "The tab was closed.")


def test_an_ephemeral_engine_writes_nothing_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with open_engine(None) as engine:
            await begin(engine, b"1")
            engine.set_holder_info("http://127.0.0.1:1")

    monkeypatch.chdir(tmp_path)
    anyio.run(main)
    assert list(tmp_path.iterdir()) == []


# -- whose it is --------------------------------------------------------------------------------------


async def test_other_users_cannot_read_the_journal(tmp_path: Path) -> None:
    directory = tmp_path / "jobs" / "project"
    directory.mkdir(parents=True, mode=0o755)
    async with open_engine(directory) as engine:
        await begin(engine, b"1")
        names = {path.name for path in directory.iterdir()}
        assert names == {FILE, FILE + "-wal", FILE + "-shm", LOCK}
        assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


async def test_a_folder_has_one_owner_with_a_known_address(tmp_path: Path) -> None:
    """Two servers would answer the same message twice."""
    async with open_engine(tmp_path) as engine:
        assert "in use by this process (since 2" in await refused(tmp_path)
        engine.set_holder_info("http://127.0.0.1:8101")
        program = "import anyio, sys; from pathlib import Path; from newel.jobs.sqlite import open_engine\n"
        program += "async def main():\n    async with open_engine(Path(sys.argv[1])): pass\nanyio.run(main)"
        other = await anyio.run_process([sys.executable, "-c", program, str(tmp_path)], check=False)
        assert f"another Newel at http://127.0.0.1:8101 (pid {os.getpid()}, since 2" in other.stderr.decode()
        assert "--ephemeral" in other.stderr.decode()
    async with open_engine(tmp_path):
        pass


async def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (LOCK, FILE):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).symlink_to(victim)
        assert str(tmp_path / name) in await refused(tmp_path / name)
    assert victim.read_text() == "precious"


async def test_a_journal_can_be_read_while_a_server_writes_it(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="There is no journal"):
        async with open_reader(tmp_path):
            pass
    async with open_engine(tmp_path) as engine, open_reader(tmp_path) as reader:
        lease = await begin(engine, b"1")
        events, ended = await reader.read(lease.job, 0, 10)
        assert ([event.data for event in events], ended) == ([b"1"], False)
        await engine.finish(lease, JobOutcome(state="done"))
        assert [job.state for job in await reader.find()] == ["done"]


# -- formats ------------------------------------------------------------------------------------------


async def test_a_journal_of_an_earlier_version_is_migrated_completely(
    tmp_path: Path,
) -> None:
    with database(tmp_path / FILE) as connection:
        connection.executescript(VERSION_1.read_text())
    async with open_engine(tmp_path) as engine:
        assert [(job.kind, job.state, job.seq) for job in await engine.find()] == [
            ("contract", "queued", 0),
            ("turn", "queued", 2),
            ("turn", "done", 3),
        ]
        assert await engine.submit("turn", b"{}", queue="x", key="tab/m1") == "a" * 32
        leases = await engine.claim(9, "w")
        assert [(lease.job, lease.attempt, lease.seq) for lease in leases] == [
            ("b" * 32, 3, 2),
            ("c" * 32, 1, 0),
        ]
        assert [event.data for event in await engine.read("b" * 32, 1)] == [b'{"type":"turn_start"}']


async def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    async with open_engine(tmp_path) as engine:
        await begin(engine, b"1")


async def test_the_journal_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    async with open_engine(tmp_path):
        pass
    with database(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = (tmp_path / FILE).read_bytes()
    assert f"(format 99; this one supports up to {len(MIGRATIONS)})" in await refused(tmp_path)
    with pytest.raises(EngineError, match="newer Newel"):
        async with open_reader(tmp_path):
            pass
    assert (tmp_path / FILE).read_bytes() == before


async def test_the_database_of_another_program_is_refused_and_not_changed(tmp_path: Path) -> None:
    with database(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    before = (tmp_path / FILE).read_bytes()
    assert "database of another program" in await refused(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_migration_is_atomic() -> None:
    """No Newel could read a journal between two formats."""
    steps = [["CREATE TABLE a (x)"], ["ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (1, 2)"]]
    with database(Path(":memory:")) as connection:
        _format(steps[:1]).migrate(connection, "journal")
        with pytest.raises(sqlite3.OperationalError):
            _format([*steps, ["CREATE TABLE b (x)", "nonsense"]]).migrate(connection, "journal")
        assert connection.execute("SELECT * FROM a").fetchall() == [(1, 2)]
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        _format([*steps, ["CREATE TABLE b (x)"]]).migrate(connection, "journal")
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("SELECT count(*) FROM b").fetchone() == (0,)


def _format(migrations: list[list[str]]) -> Format:
    return Format("journal", APPLICATION_ID, migrations, error=EngineError, kept="")


# -- damage -------------------------------------------------------------------------------------------


async def test_a_torn_tail_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """The power failed during a flush: the log ends in the middle of a change."""
    live, torn = tmp_path / "live", tmp_path / "torn"
    async with open_engine(live) as engine:
        lease = await begin(engine, *(b"%d" % n for n in range(50)))
        whole = (live / (FILE + "-wal")).stat().st_size
        await engine.append(lease, [b"x" * 20_000], expect_seq=50)
        end = (live / (FILE + "-wal")).stat().st_size
        for size in (whole, whole + 1, whole + 4000, (whole + end) // 2, end - 1):
            shutil.rmtree(torn, ignore_errors=True)
            shutil.copytree(live, torn)
            os.truncate(torn / (FILE + "-wal"), size)
            with (torn / (FILE + "-wal")).open("ab") as log:
                log.write(os.urandom(3000))
            async with open_engine(torn) as again:
                kept = [event.data for event in await again.read(lease.job)]
                assert kept == [b"%d" % n for n in range(50)]


async def test_a_damaged_journal_is_reported_with_a_remedy(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await begin(engine, *[b"x" * 1000] * 100)
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    words = await refused(tmp_path)
    assert f"The journal {tmp_path / FILE} cannot be used: it is damaged. Move the folder away" in words


async def test_damage_inside_is_reported_to_its_reader(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        lease = await begin(engine, *[b"x" * 1000] * 100)
    with (tmp_path / FILE).open("r+b") as file:
        for page in range(8, file.seek(0, os.SEEK_END) // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    async with open_engine(tmp_path) as engine:
        with pytest.raises(EngineError, match="it is damaged"):
            await engine.read(lease.job)
        assert await engine.submit("turn", b"{}", queue="another")


async def test_a_folder_that_cannot_be_created_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = await refused(tmp_path / "file" / "jobs")
    assert "Not a directory" in words
    assert "NEWEL_HOME" in words


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
async def test_an_unwritable_file_is_reported_with_a_remedy(tmp_path: Path) -> None:
    async with open_engine(tmp_path):
        os.chmod(tmp_path / LOCK, 0o400)  # noqa: PTH101
    assert "NEWEL_HOME" in await refused(tmp_path)
