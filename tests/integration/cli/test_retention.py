"""If these fail, what should be deleted stays for ever, or what should stay is deleted."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.integration.agents.support import after
from tests.served import wait_until
from tests.support import Newel, bash, scenario

WithModel = Callable[..., Newel]

DAYS = 24 * 3600
DONE = {"content": "Done."}


def configure(newel: Newel, text: str) -> None:
    home = newel.home / ".newel"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


def grow_old(path: Path, days: float) -> None:
    then = time.time() - days * DAYS
    os.utime(path, (then, then))


def test_sessions_are_deleted_so_many_days_after_their_last_message(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", DONE, DONE))
    newel("hello")
    newel("hello")
    old, young = newel.sessions
    grow_old(old, 31)
    grow_old(young, 29)
    configure(newel, "[retention]\nsession_days = 30\n")
    newel("hello")
    assert old not in newel.sessions
    assert young in newel.sessions


def test_sessions_stay_for_ever_by_default(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", DONE))
    newel("hello")
    (old,) = newel.sessions
    grow_old(old, 3_000)
    newel("hello")
    assert old in newel.sessions


def test_an_old_session_that_is_resumed_is_not_deleted(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", DONE))
    newel("hello")
    (old,) = newel.sessions
    grow_old(old, 31)
    configure(newel, "[retention]\nsession_days = 30\n")
    assert newel("-c", "hello").returncode == 0
    assert newel.sessions == [old]


def test_runs_and_their_logs_are_deleted_so_many_days_after_their_end(with_model: WithModel) -> None:
    newel = with_model(
        {
            "scenarios": [
                *after(1, True)["scenarios"],
                *scenario("Show", bash("echo shown"), DONE)["scenarios"],
            ]
        }
    )
    for _ in range(2):
        assert newel("agent", "Show it").returncode == 0
    configure(newel, "[retention]\nsession_days = 30\n")
    (journal,) = (newel.home / ".newel").glob("jobs/*/journal.db")
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("UPDATE jobs SET updated = '2026-01-31T09:30:00.125Z' WHERE n = 1")
    assert len(list((newel.home / ".newel/logs").iterdir())) == 2
    newel("hello")
    assert len(list((newel.home / ".newel/logs").iterdir())) == 1
    with closing(sqlite3.connect(journal)) as connection:
        assert connection.execute("SELECT DISTINCT job FROM events").fetchall() == [(2,)]


def test_changes_are_kept_as_long_as_the_user_wants(with_model: WithModel) -> None:
    """Also where another command opens the records, which knows no settings."""
    newel = with_model(
        scenario("change", bash("date +%N >> a.txt; until [ -e go ]; do sleep 0.02; done"), DONE)
    )
    (newel.project / "go").touch()
    newel("change")
    newel("change")
    (lock,) = (newel.home / ".newel").glob("review/*/ledger.lock")
    grow_old(lock, 2)
    configure(newel, "[retention]\ndays = 0\nruns = 1\n")
    assert len(newel("checkpoints").stdout.splitlines()) == 2
    (newel.project / "go").unlink()
    with newel.start("change") as third:
        wait_until(lambda: len(newel("checkpoints").stdout.splitlines()) == 1, "the first one to be deleted")
        (newel.project / "go").touch()
        third.communicate(timeout=10)
    assert len(newel("checkpoints").stdout.splitlines()) == 2


def test_a_wrong_value_is_named(with_model: WithModel) -> None:
    newel = with_model()
    configure(newel, "[retention]\nruns = -1\n")
    result = newel("hello")
    assert result.returncode == 1
    assert "retention.runs" in result.stderr
