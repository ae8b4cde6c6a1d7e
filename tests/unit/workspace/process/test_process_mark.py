"""If these fail, a process of a command keeps running, or an unrelated one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.workspace.process import process_mark
from newel.workspace.process.process_mark import LINE_BYTES, ProcessMark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells")

OURS = ProcessMark("0" * 31 + "1")
THEIRS = ProcessMark("0" * 31 + "2")


@contextmanager
def running(*marks: str, other: str = "") -> Generator[subprocess.Popen[bytes]]:
    """A process in its own session, with marks in its environment and this in another variable."""
    environ = {"SOME_RUN": other, "NEWEL_RUN": " ".join(marks)}
    with subprocess.Popen(["/bin/sleep", "60"], env=environ, start_new_session=True) as process:
        try:
            while not Path(f"/proc/{process.pid}/environ").read_bytes():
                time.sleep(
                    0.001
                )  # it is reported as started a moment before the system knows its environment
            yield process
        finally:
            process.kill()


def test_a_process_is_recognized_by_any_of_its_marks() -> None:
    with running(THEIRS.mark, OURS.mark):
        assert process_mark.is_running([OURS])
        assert process_mark.is_running([THEIRS])
    assert not process_mark.is_running([OURS, THEIRS])


def test_a_mark_in_another_variable_does_not_count() -> None:
    """A process that prints its environment into a variable does not become related."""
    with running(other=OURS.mark):
        assert not process_mark.is_running([OURS])


def test_a_process_is_recognized_by_its_session() -> None:
    with running() as process:
        assert process_mark.is_running(
            [ProcessMark(OURS.mark, process.pid, process_mark.start_time(process.pid))]
        )


def test_a_reused_pid_is_spared() -> None:
    with running() as process:
        recycled = ProcessMark(OURS.mark, process.pid, process_mark.start_time(process.pid) - 1)
        process_mark.signal([recycled], signal.SIGKILL)
        assert not process_mark.signal_first(recycled, signal.SIGKILL)
        assert not process_mark.is_running([recycled])
        assert process.poll() is None


def test_a_command_that_has_not_started_has_no_processes() -> None:
    """Kernel threads have the session 0."""
    assert not process_mark.is_running([OURS])
    assert process_mark.find_remaining(OURS, all_of_them=True) == []


def test_only_the_named_commands_are_ended() -> None:
    with running(OURS.mark) as ours, running(THEIRS.mark) as theirs:
        process_mark.signal([OURS], signal.SIGTERM)
        assert ours.wait(5) == -signal.SIGTERM
        assert theirs.poll() is None


@given(st.integers(0, 2**31 - 1), st.integers(0, 10**15))
def test_a_line_of_the_process_table_is_parsed(session: int, began: int) -> None:
    origin = ProcessMark(os.urandom(16).hex(), session, began)
    assert len(origin.line()) == LINE_BYTES
    assert ProcessMark.read(origin.line()) == origin
