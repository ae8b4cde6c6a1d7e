"""If these fail, the undo of a run that was killed removes files of the user, or changes escape it silently."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from newel.review.project import recent_runs
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effect_log import HEARTBEAT_S
from newel.review.tracking.effects import TrackedRun
from newel.review.tracking.recording_workspace import ledger_folder
from newel.workspace.local import LocalWorkspace
from tests.tracked_operation import begin, end

pytestmark = pytest.mark.anyio

BEFORE = "git init -q; printf '*.log\\nold.env\\n' > .gitignore; echo mine > old.env; truncate -s 33M large; mkdir sub; echo mine > sub/a; echo mine > .env; echo mine > key.pem"


async def opened(project: Path) -> ChangeRecorder:
    folder = ledger_folder(project.parent / "home", str(project))
    return await ChangeRecorder.open(LocalWorkspace(str(project)), folder)


def _killed(project: Path, command: str, later: str | None) -> None:
    async def main() -> None:
        begun = await begin(await opened(project), TrackedRun("s", title="fix it"), None)
        sh(project, command)
        if later is not None:
            await end(begun)
            sh(project, later)
            await anyio.sleep(1.2 * HEARTBEAT_S)
        os.kill(os.getpid(), signal.SIGKILL)

    anyio.run(main)


def sh(project: Path, text: str) -> None:
    subprocess.run(["sh", "-ec", text], cwd=project, check=True)


async def kill(project: Path, command: str, later: str | None = None) -> None:
    """Kill Newel at the end of a command; or after it, when ``later`` has happened."""
    sh(project.parent, f"mkdir project; cd project; {BEFORE}")
    child = multiprocessing.get_context("spawn").Process(target=_killed, args=(project, command, later))
    child.start()
    await anyio.to_thread.run_sync(child.join)
    assert child.exitcode == -signal.SIGKILL


async def after_kill(project: Path, command: str) -> ChangeRecorder:
    """Kill Newel at the end of a command; returns the recorder of the next process."""
    await kill(project, command)
    return await opened(project)


async def recorded(recorder: ChangeRecorder) -> set[str]:
    return {file.file_path for run in await recent_runs(recorder.project, limit=9) for file in run.files}


async def test_what_a_killed_run_hid_or_did_to_files_that_are_not_covered_is_recorded_or_named(
    tmp_path: Path,
) -> None:
    command = (
        "echo hidden >> .gitignore; echo x > hidden; echo x > new.log; echo theirs > old.env; echo x >> large; "
        "echo x > .git/hooks/pre-commit; echo theirs > sub/a; mkdir made; echo x > made/b"
    )
    project = tmp_path / "project"
    recorder = await after_kill(project, command)
    assert await recorded(recorder) == {".gitignore", "hidden", "sub/a", "made/b"}
    [trusted] = [notice for notice in recorder.notices if "Git obeys" in notice]
    assert trusted.startswith(
        'Newel was killed during "fix it". Changed, but not recorded: .git/hooks/pre-commit.'
    )
    [named] = [notice for notice in recorder.notices if "undo does not restore" in notice]
    assert all(name in named for name in ("large", "new.log", "old.env"))
    await recorder.project.apply(await recorder.project.undo())
    assert (project / ".gitignore").read_text() == "*.log\nold.env\n"
    assert (project / "sub/a").read_text() == "mine\n"
    assert not (project / "hidden").exists()
    assert not (project / "made").exists()
    assert (project / "old.env").read_text() == "theirs\n"
    assert (project / "large").stat().st_size == (33 << 20) + 2
    recorder.close()


@pytest.mark.parametrize("breaks", ["rm .gitignore; mkfifo .gitignore", "echo '[' > .git/config"])
async def test_ignored_files_stay_ignored_when_a_killed_command_broke_git(
    breaks: str, tmp_path: Path
) -> None:
    """Recorded as new, they would be copied, and deleted by an undo. Git itself waits for ever to read a pipe."""
    project = tmp_path / "project"
    began = time.monotonic()
    recorder = await after_kill(project, f"echo theirs > old.env; {breaks}")
    assert await recorded(recorder) <= {".gitignore"}
    assert any("old.env" in notice for notice in recorder.notices)
    assert time.monotonic() - began < 30
    recorder.close()


async def test_changes_of_secrets_by_a_killed_command_are_named(tmp_path: Path) -> None:
    """Their earlier contents were nowhere but in its memory."""
    project = tmp_path / "project"
    recorder = await after_kill(project, "echo theirs > .env; rm key.pem; echo theirs > sub/a")
    assert await recorded(recorder) == {"sub/a"}
    [named] = [notice for notice in recorder.notices if "undo does not restore" in notice]
    assert ".env" in named
    assert (project / ".env").read_text() == "theirs\n"
    recorder.close()


COMMAND = "echo theirs > sub/a; echo x > .git/hooks/pre-commit; echo theirs > old.env; echo x >> large"


@pytest.mark.slow  # seconds of waiting
async def test_what_happened_after_the_last_command_of_a_killed_run_is_named(tmp_path: Path) -> None:
    project = tmp_path / "project"
    await kill(project, COMMAND, later="echo x > left; echo theirs >> sub/a; echo x > new.log; rm -f .env")
    recorder = await opened(project)
    assert await recorded(recorder) == {"sub/a"}
    named = "\n".join(recorder.notices)
    assert 'Newel was killed during "fix it". Changed, but not recorded: .git/hooks/pre-commit.' in named
    [covered] = [notice for notice in recorder.notices if "since its last command" in notice]
    assert ": left, sub/a." in covered
    [others] = [notice for notice in recorder.notices if "undo does not restore" in notice]
    assert all(name in others for name in ("large", "new.log", "old.env"))
    recorder.close()
    again = await opened(project)
    assert again.notices == []
    again.close()


@pytest.mark.slow  # seconds of waiting
async def test_what_the_user_does_after_newel_was_killed_is_not_taken_for_the_runs(tmp_path: Path) -> None:
    """Not even if the times of the files are old: an undo would delete them."""
    project = tmp_path / "project"
    sh(tmp_path, "mkdir -p folder/below; echo mine > folder/below/file")
    await kill(project, COMMAND, later="true")
    await anyio.sleep(3 * HEARTBEAT_S)
    sh(project, "echo edited > sub/b; echo mine > mine; mv ../folder .; echo mine > my.log; mkdir target")
    recorder = await opened(project)
    assert await recorded(recorder) == {"sub/a"}
    assert not any(
        name in notice for notice in recorder.notices for name in ("mine", "my.log", "sub/b", "target")
    )
    await recorder.project.apply(await recorder.project.undo())
    assert (project / "mine").read_text() == "mine\n"
    assert (project / "folder/below/file").read_text() == "mine\n"
    assert (project / "sub/a").read_text() == "mine\n"
    assert (project / "sub/b").read_text() == "edited\n"
    recorder.close()


async def test_a_run_that_ended_leaves_nothing_to_say(tmp_path: Path) -> None:
    project = tmp_path / "project"
    sh(tmp_path, f"mkdir project; cd project; {BEFORE}")
    recorder = await opened(project)
    run = TrackedRun("s", title="fix it")
    await end(await begin(recorder, run, None))
    await recorder.finish(run)
    sh(project, "echo mine > mine")
    recorder.close()
    recorder = await opened(project)
    assert recorder.notices == []
    recorder.close()
