"""If these fail, a killed process loses acknowledged messages, or leaves a session locked."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from newel.agent.errors import SessionError
from newel.agent.messages import UserMessage
from newel.session.manager import SessionManager
from newel.session.reader import read_session

WRITER = Path(__file__).with_name("writer.py")


def start_writer(folder: Path, session_id: str, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(folder), session_id, str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """One session, killed at random moments and continued by the next process at once, many times."""
    session_id, promised = "", list[str]()
    for _ in range(6):
        with start_writer(tmp_path, session_id, len(promised)) as writer:
            assert writer.stdout is not None
            for _ in range(random.randint(1, 300)):  # noqa: S311 - any moment will do
                line = writer.stdout.readline()
                session_id, message_id = line.split()
                promised.append(message_id)
            writer.kill()
            promised += [line.split()[1] for line in writer.stdout if line.endswith("\n")]

        with SessionManager(directory=tmp_path, cwd="/src/shop", session=session_id) as session:
            kept = [message.id for message in session.get_messages()]
            path = session.get_file_path()
        assert path is not None
        assert [message_id for message_id in kept if message_id in set(promised)] == promised
        # A message that was written without its acknowledgement may be there too.
        promised = [message_id for message_id in kept if message_id.startswith("m")]
        assert all("cut off" in report for report in read_session(path).damage)


def test_a_session_has_one_writer_until_that_one_is_dead(tmp_path: Path) -> None:
    """Two writers would interleave two conversations; a lock that survives its owner would end one."""
    with start_writer(tmp_path, "", 0) as writer:
        assert writer.stdout is not None
        session_id, _ = writer.stdout.readline().split()
        with pytest.raises(SessionError) as refused:
            SessionManager(directory=tmp_path, cwd="/src/shop", continue_=True)
        assert f"is open in another Newel (pid {writer.pid}, since 2" in str(refused.value)
        assert "--session" in str(refused.value)
        writer.kill()
    with SessionManager(directory=tmp_path, cwd="/src/shop", continue_=True) as session:
        assert session.get_id() == session_id
        session.append_message(UserMessage("mine now"))


def test_an_open_session_cannot_be_opened_twice(tmp_path: Path) -> None:
    with SessionManager(directory=tmp_path, cwd="/src/shop") as session:
        session.append_message(UserMessage("hello"))
        with pytest.raises(SessionError, match=r"is open in this process \(since 2"):
            SessionManager(directory=tmp_path, cwd="/src/shop", continue_=True)
        path = session.get_file_path()
    assert path is not None
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_session_can_be_read_while_another_process_writes_it(tmp_path: Path) -> None:
    with start_writer(tmp_path, "", 0) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        (path,) = tmp_path.glob("*/*.jsonl")
        assert len(read_session(path).history) >= 20
        writer.kill()
