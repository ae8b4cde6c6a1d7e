"""If these fail, commands leave the sandbox by swapping a folder for a link while another sandbox, or one for git, starts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from newel.agent.errors import WorkspaceError
from newel.workspace.sandbox.git_confined_main import REPLACED
from newel.workspace.sandbox.git_confinement import confined_git
from tests.requirements import require_program
from tests.unit.workspace.sandbox.test_sandbox import Place, place

__all__ = ["place"]

require_program("bwrap", "bubblewrap")

STARTS = 25
EXCHANGE = 2


@pytest.mark.anyio
@pytest.mark.slow  # many starts: each may fall between two swaps
@pytest.mark.timeout(120)
async def test_a_folder_that_is_swapped_while_a_sandbox_starts_opens_nothing(place: Place) -> None:
    """A process in another sandbox of the project swaps a folder around settings, which it has made, for a link to the home folder."""
    (place.project / ".github/workflows").mkdir(parents=True)
    (place.project / "link").symlink_to(place.home)
    (place.home / "workflows").mkdir()
    ended = threading.Event()
    libc = ctypes.CDLL(None)
    here, there = (os.fsencode(place.project / name) for name in (".github", "link"))

    def swap() -> None:
        while not ended.is_set():
            libc.renameat2(-100, here, -100, there, EXCHANGE)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(STARTS):
            with contextlib.suppress(WorkspaceError):  # it was noticed
                await place.run("echo evil > .github/.bashrc; echo evil > link/.bashrc")
            for sandbox in place.opened:
                sandbox.close()
            place.opened.clear()
    finally:
        ended.set()
        swapping.join()
    assert (place.home / ".bashrc").read_text() == ""


@pytest.mark.parametrize("now", ["the same", "another", "a link", "nothing"])
def test_git_runs_only_where_what_is_mounted_is_what_was_judged(tmp_path: Path, now: str) -> None:
    judged = tmp_path / "a folder\n"
    judged.mkdir()
    state = judged.stat()
    if now != "the same":
        judged.rename(tmp_path / "moved")
    if now == "another":
        judged.mkdir()
    elif now == "a link":
        judged.symlink_to(tmp_path / "moved")
    mounted = {str(judged): (state.st_dev, state.st_ino)}
    command = confined_git(sys.executable, "/usr/bin/git", ["version"], mounted=mounted)
    done = subprocess.run(command, capture_output=True, check=False)
    if now == "the same":
        assert (done.returncode, done.stdout[:4]) == (0, b"git ")
    else:
        assert (done.returncode, done.stdout) == (REPLACED, b"")
