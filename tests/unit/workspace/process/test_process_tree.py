"""If these fail, a command runs although Newel has said that it did not, and nothing records what it does."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from newel.workspace.process.launcher import DIRECT, Stream
from newel.workspace.process.process_tree import ProcessTree


class LauncherThatFillsMemory:
    """Starts a command, and has no room for files in memory from then on, as on a machine that runs out of it."""

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: tuple[Stream, Stream, Stream],
        mark: str,
    ) -> subprocess.Popen[bytes]:
        process = DIRECT.start(argv, cwd=cwd, env=env, streams=streams, mark=mark)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return process

    def reached(self) -> list[str]:
        return []


def test_a_command_that_runs_is_followed_although_its_entry_cannot_be_updated(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))
    tree = ProcessTree({})
    streams = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
    process = tree.launch(LauncherThatFillsMemory(), ["sleep", "30"], cwd=str(tmp_path), streams=streams)
    assert tree.is_running()
    process.kill()
    process.wait()
    tree.forget()
    assert not tree.is_running()
