"""If these fail, a full, read-only or missing disk costs more than the message that did not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from newel.agent.errors import SessionError
from newel.agent.messages import UserMessage
from newel.session.manager import SessionManager
from newel.session.reader import read_session

FULL_DISK = Path(__file__).with_name("full_disk.py")


def test_a_message_that_does_not_fit_is_refused_whole_and_the_next_one_fits(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(FULL_DISK), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    no_start, rest, reason, count = ran.stdout.splitlines()
    (path,) = tmp_path.glob("*/*.jsonl")
    assert no_start.startswith(f"The session could not be saved to {path}: File too large.")
    assert rest == "left behind: []"
    assert reason.startswith(f"The session could not be saved to {path}: File too large.")
    stored = read_session(path)
    kept = [message.id for message in stored.history.active()]
    assert kept == [*(f"m{number}" for number in range(int(count))), "last"]
    assert stored.damage == []
    assert not path.with_name(path.name + ".torn").exists()


def test_a_folder_that_cannot_be_created_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file stands in the way")
    session = SessionManager(directory=tmp_path / "sessions", cwd="/src/shop")
    with pytest.raises(SessionError, match=r"cannot be created: .*NEWEL_HOME"):
        session.append_message(UserMessage("hello"))
    assert not session.has_data()

    (tmp_path / "sessions").unlink()
    session.append_message(UserMessage("hello again"))
    session.close()
    with SessionManager(directory=tmp_path / "sessions", cwd="/src/shop", continue_=True) as again:
        assert len(again.get_messages()) == 1


def test_a_file_deleted_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    """Otherwise the conversation goes to a file that no longer has a name."""
    with SessionManager(directory=tmp_path, cwd="/src/shop") as session:
        session.append_message(UserMessage("hello"))
        path = session.get_file_path()
        assert path is not None
        path.unlink()
        with pytest.raises(SessionError, match="deleted or replaced"):
            session.append_message(UserMessage("into the void"))


def test_lines_appended_after_a_foreign_truncation_are_whole(tmp_path: Path) -> None:
    """Another program truncated the file; text written afterwards must still be lines."""
    with SessionManager(directory=tmp_path, cwd="/src/shop") as session:
        for text in ("one", "two"):
            session.append_message(UserMessage(text, id=text))
        path = session.get_file_path()
        assert path is not None
        with path.open("r+b") as stream:
            stream.truncate(path.stat().st_size - 10)
        session.append_message(UserMessage("three", id="three"))
    assert [message.id for message in read_session(path).history.active()] == ["one", "three"]


def test_planted_links_beside_a_session_are_not_followed(tmp_path: Path) -> None:
    """A session opened by path may be in a folder of others; they must not choose the file to overwrite."""
    with SessionManager(directory=tmp_path, cwd="/src/shop") as session:
        session.append_message(UserMessage("hello"))
        path = session.get_file_path()
    assert path is not None
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.with_name(path.name + ".lock").symlink_to(victim)
    path.with_name(path.name + ".torn").symlink_to(victim)
    with path.open("ab") as stream:
        stream.write(b"torn")
    session = SessionManager(directory=tmp_path, cwd="/src/shop", session=str(path))
    with pytest.raises(SessionError, match="could not be saved"):
        session.append_message(UserMessage("more"))
    session.close()
    assert victim.read_text() == "precious"
