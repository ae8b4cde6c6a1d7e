"""If these fail, Newel collects keys in its folder, or what a command does to files with keys cannot be undone."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from newel.permissions.rules import RuleSet, parse_rule
from newel.review.project import recent_runs
from newel.review.tracking.change_recorder import ChangeRecorder
from newel.review.tracking.effects import TrackedRun
from newel.review.tracking.recording_workspace import ledger_folder
from newel.workspace.local import LocalWorkspace
from tests.tracked_operation import begin, end

pytestmark = pytest.mark.anyio

TOKEN = "q7Rk2LmZ9vXc4TbN8wYd3HsF6gJp1KeA"
SETTINGS = f'{{"api_token": "{TOKEN}", "n": %d}}\n'
DENY = RuleSet(deny=(parse_rule("read(private/**)"),))


def sh(project: Path, text: str) -> None:
    subprocess.run(["sh", "-ec", text], cwd=project, check=True)


def make(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


async def opened(project: Path) -> ChangeRecorder:
    folder = ledger_folder(project.parent / "home", str(project))
    return await ChangeRecorder.open(LocalWorkspace(str(project)), folder, rules=DENY)


def stored(recorder: ChangeRecorder, project: Path) -> set[str]:
    """The files whose current contents are in the ledger."""
    files = {path for path in project.rglob("*") if path.is_file() and ".git" not in path.parts}
    has_blob = recorder.project.ledger.has_blob
    return {
        str(path.relative_to(project))
        for path in files
        if has_blob(hashlib.sha256(path.read_bytes()).hexdigest())
    }


@pytest.mark.parametrize("count", [1, 100])
async def test_keys_in_text_that_git_does_not_track_are_not_copied(tmp_path: Path, count: int) -> None:
    project = tmp_path / "project"
    make(project, {f"tracked{n}.json": SETTINGS % n for n in range(count)})
    sh(project, "git init -q; git add .")
    make(project, {f"plain{n}.json": f"{n}\n" for n in range(count)})
    make(project, {"sub/settings.json": SETTINGS % -1, "deploy.py": f"KEY = '{TOKEN}'\n"})
    make(project, {"private/notes": "mine\n", ".env": "A=1\n"})
    recorder = await opened(project)
    run = TrackedRun("s", title="fix it")
    await end(await begin(recorder, run, None))
    plain = {f"{kind}{n}.json" for kind in ("tracked", "plain") for n in range(count)}
    assert stored(recorder, project) == plain
    recorder.close()


async def test_without_git_settings_with_keys_are_not_copied_until_a_command_changes_them(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    make(project, {"config.json": SETTINGS % 1, "other.json": SETTINGS % 2, "notes": "mine\n"})
    make(project, {"private/notes": "secret\n", "private/rest": "secret too\n"})
    recorder = await opened(project)
    begun = await begin(recorder, TrackedRun("s", title="fix it"), None)
    assert stored(recorder, project) == {"notes"}
    before = (project / "config.json").read_bytes()
    sh(project, "echo broken > config.json; rm private/notes")
    await end(begun)
    [run] = await recent_runs(recorder.project, limit=9)
    assert {file.file_path for file in run.files} == {"config.json", "private/notes"}
    assert stored(recorder, project) == {"config.json", "notes"}
    await recorder.project.apply(await recorder.project.undo())
    assert (project / "config.json").read_bytes() == before
    assert (project / "private/notes").read_text() == "secret\n"
    recorder.close()


async def test_a_rule_of_the_project_keeps_files_from_being_copied(tmp_path: Path) -> None:
    project = tmp_path / "project"
    make(project, {".newel/permissions.toml": 'deny = ["read(**/*.dump)"]\n', "a/b.dump": "x\n", "c": "y\n"})
    recorder = await opened(project)
    await end(await begin(recorder, TrackedRun("s"), None))
    assert stored(recorder, project) == {".newel/permissions.toml", "c"}
    recorder.close()
    again = await opened(project)
    await end(await begin(again, TrackedRun("s"), None))
    assert "a/b.dump" not in stored(again, project)
    again.close()
