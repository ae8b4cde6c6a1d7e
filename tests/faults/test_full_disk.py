"""If these fail, a full disk leaves files half written or stops an agent's work."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.system_call_faults import ROOT
from tests.processes import COMMAND_SECONDS
from tests.requirements import require_program
from tests.support import Newel, scenario

MOUNTS = ("unshare", "--map-root-user", "--mount")


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = [*MOUNTS, "mount", "-t", "tmpfs", "none", tempfile.gettempdir()]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="needs the right to mount a small disk")
pytestmark = needs_mounts


def alone(*command: str | Path, environ: dict[str, str] | None = None, cwd: Path = ROOT) -> Sequence[str]:
    """The output of a command in a mount namespace of its own."""
    ended = subprocess.run(
        [*MOUNTS, *map(str, command)],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    ("full", "refused"),
    [
        ("project", "Cannot write "),
        ("review", "The review ledger "),
        ("jobs", "The journal "),
    ],
)
def test_a_full_disk_changes_nothing_and_with_room_everything_is_written(
    tmp_path: Path, full: str, refused: str
) -> None:
    lines = alone(sys.executable, "-m", "tests.faults.full_disk_child", tmp_path, full)
    told = [tuple(line.split(": ", 2)) for line in lines]
    assert [(request, state) for request, state, _ in told[:4]] == [
        ("apply without room", "old"),
        ("apply with room", "new"),
        # On the project's own disk, the deletions make room for the rest.
        ("roll_back without room", "old" if full == "project" else "new"),
        ("roll_back with room", "old"),
    ]
    assert [words.startswith(refused) for _, _, words in told[:4:2]] == [True, full != "project"]
    assert [words for _, _, words in told[1:4:2]] == ["done", "done"]
    if full == "jobs":
        assert told[4] == ("redo without room", "new", "done")  # a redo has no job
    else:
        assert [(request, state) for request, state, _ in told[4:]] == [
            ("redo without room", "old"),
            ("redo with room", "new"),
        ]
        assert told[4][2].startswith(refused)
        assert told[5][2] == "done"


RUNS = """
set -e
mkdir -p "$HOME/.newel/review"
mount -t tmpfs -o size=1m none "$HOME/.newel/review"
cat /dev/zero > "$HOME/.newel/review/filler" 2>/dev/null || true
newel "write the first" 2>&1 | grep -c "not recorded" || true
rm "$HOME/.newel/review/filler"
newel "write the second" >/dev/null 2>&1
newel undo --yes >/dev/null
ls
"""


def test_an_agent_continues_while_the_ledgers_disk_is_full_and_is_recorded_with_room(
    newel_with: Callable[..., Newel],
) -> None:
    def writes(name: str) -> dict[str, Any]:
        call = {"function": {"name": "write", "arguments": {"file_path": name, "content": "x\n"}}}
        return scenario(f"write the {name}", {"tool_calls": [call]}, {"content": "Done."})

    newel = newel_with(writes("first"), writes("second"))
    lines = alone("sh", "-c", RUNS, environ=newel.environ, cwd=newel.project)
    assert lines[0] == "1"
    assert lines[1:] == ["first"]


ROOM_FOR_TWO = """
set -e
mkdir "$HOME/small"
mount -t tmpfs -o size=1m none "$HOME/small"
cd "$HOME/small"
for n in $(seq 40); do printf '%4000s' a > "$n.txt"; done
newel "change them" >/dev/null 2>&1
cat *.txt | tr -cd b | wc -c
cat /dev/zero > filler 2>/dev/null || true
truncate -s -8192 filler
newel undo --yes >/dev/null
cat *.txt | tr -cd b | wc -c
"""


def test_an_undo_needs_room_for_one_file_at_a_time(newel_with: Callable[..., Newel]) -> None:
    command = "for file in *.txt; do echo b >> $file; done"
    call = {"function": {"name": "bash", "arguments": {"command": command}}}
    newel = newel_with(scenario("change them", {"tool_calls": [call]}, {"content": "Done."}))
    assert alone("sh", "-c", ROOM_FOR_TWO, environ=newel.environ, cwd=newel.project) == ["40", "0"]


@pytest.mark.parametrize("disk", ["local", "dash", "busybox"])
def test_a_copy_without_room_frees_what_it_took_and_says_what_to_do(tmp_path: Path, disk: str) -> None:
    if disk != "local":
        require_program(disk)
    words, *later = alone(sys.executable, "-m", "tests.faults.full_copy_child", tmp_path, disk)
    assert words.startswith(
        f"Not enough space for a copy of {tmp_path}/project in {tmp_path}/home/.newel/copies"
    )
    assert later == ["there is room", "it is whole"]
