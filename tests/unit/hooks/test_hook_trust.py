"""If these fail, hooks of a project stop for no reason, or a command leaves the sandbox by what they run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from newel.hooks.hook import Hook
from newel.hooks.hook_runner import HookRunner
from newel.hooks.hook_trust import fingerprint, programs_of, scripts_of

LOGGING = [
    'jq -r .tool_input.command >> "$CLAUDE_PROJECT_DIR"/out/log',
    '"$CLAUDE_PROJECT_DIR"/check.sh >"${CLAUDE_PROJECT_DIR}/out/log" 2>&1',
    "cat > out/log",
    "./check.sh 2>>'out/log'; true",
    "date &>out/log",
    "jq -r .tool_input.command | tee -a 'out/log'",
    "date|tee out/log >/dev/null",
]
"""As the documentation of Claude Code and many projects write them."""


def _logging(project: Path, command: str) -> Callable[[], str]:
    (project / "out").mkdir(parents=True)
    (project / "check.sh").write_text("true\n")
    hook = Hook(event="Stop", command=command, file=project / "hooks.json", line=1, level="project")
    return lambda: fingerprint(hook.file, [hook], project)


@pytest.mark.parametrize("command", LOGGING)
def test_a_hook_that_writes_a_log_stays_trusted(tmp_path: Path, command: str) -> None:
    """Else its own first line switches off all hooks of the project, the guards among them."""
    project = tmp_path / "project"
    key = _logging(project, command)
    before = key()
    for text in ("one\n", "one\ntwo\n"):
        (project / "out/log").write_text(text)
        assert key() == before
    hook = Hook(event="Stop", command=command, file=project / "hooks.json", line=1, level="project")
    assert project / "out/log" not in scripts_of(hook, project)  # the question would call it a script


@pytest.mark.parametrize("command", LOGGING)
@pytest.mark.parametrize("link", ["out", "out/log"])
def test_a_log_that_leads_elsewhere_is_another_one(tmp_path: Path, command: str, link: str) -> None:
    """Hooks write outside of the sandbox: an agent could let one write to ``~/.bashrc``."""
    project, elsewhere = tmp_path / "project", tmp_path / "home"
    elsewhere.mkdir()
    (elsewhere / "log").touch()
    key = _logging(project, command)
    before = key()
    if link == "out":
        (project / "out").rmdir()
    (project / link).symlink_to(elsewhere if link == "out" else elsewhere / "log")
    assert key() != before


@pytest.mark.parametrize(
    "command",
    [
        "cat > run.sh; sh run.sh",
        "sh -c '. ./\"$0\"' '>' run.sh",
        "sh -c '. ./\"$0\"' \\> run.sh",
        "cat <> run.sh | sh",
        "sh < run.sh > log",
        "./tee run.sh; echo tee run.sh",
        "echo it's > run.sh",  # not read to its end: nothing is left out
    ],
)
def test_what_a_hook_may_run_is_no_log(tmp_path: Path, command: str) -> None:
    """An agent could leave its sandbox by such a script."""
    (tmp_path / "run.sh").write_text("true\n")
    hook = Hook(event="Stop", command=command, file=tmp_path / "hooks.json", line=1, level="project")
    before = fingerprint(hook.file, [hook], tmp_path)
    (tmp_path / "run.sh").write_text("touch escaped\n")
    assert fingerprint(hook.file, [hook], tmp_path) != before


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("sh checks/run.sh", ["checks/run.sh"]),
        ('"$CLAUDE_PROJECT_DIR"/tool --fix', ["tool"]),
        ("bash -c 'cd x; python $PWD/checks/run.py'", ["checks/run.py"]),
        ("test -f package.json && npx prettier .", []),  # which `npm install` changes
        ("node_modules/.bin/eslint .", []),  # which `npm ci` removes
    ],
)
def test_programs_are_what_a_hook_may_start(tmp_path: Path, command: str, programs: list[str]) -> None:
    for name in ("checks/run.sh", "checks/run.py", "tool", "package.json", "node_modules/.bin/eslint"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert list(programs_of([command], tmp_path, "")) == [str(tmp_path / name) for name in programs]


def test_a_link_of_another_users_process_stops_no_start(tmp_path: Path) -> None:
    """A cloned project may name one."""
    file = tmp_path / "hooks.json"
    hook = Hook(event="Stop", command="cat /proc/1/root/x", file=file, line=1, level="project")
    assert len(fingerprint(file, [hook], tmp_path)) == 64


@pytest.mark.parametrize("command", ["eslint -o out/report .", "venv/python check.py", "cp a 'out/re port'"])
def test_a_link_out_of_the_project_is_known_by_where_it_leads(tmp_path: Path, command: str) -> None:
    """An agent could let a hook write to a file of the user, or start another program than the one that the user has seen."""
    project = tmp_path / "project"
    for folder in ("out", "venv"):
        (project / folder).mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / name).touch()
    hook = Hook(event="Stop", command=command, file=project / "hooks.json", line=1, level="project")
    keys = [fingerprint(hook.file, [hook], project)]
    for target in ("one", "two"):
        for name in ("out/report", "out/re port", "venv/python"):
            (project / name).unlink(missing_ok=True)
            (project / name).symlink_to(tmp_path / target)
        keys.append(fingerprint(hook.file, [hook], project))
    assert len(set(keys)) == 3


@pytest.mark.anyio
async def test_a_hook_of_the_user_writes_through_no_link_of_a_project(tmp_path: Path) -> None:
    """It needs no trust, and runs in every project: one of them, or an agent in it, could let it write to ``~/.bashrc``."""
    (tmp_path / "project").mkdir()
    theirs, log = tmp_path / "bashrc", tmp_path / "project/log"
    theirs.touch()
    log.symlink_to(theirs)
    hook = Hook(event="Stop", command="cat >> log", file=tmp_path / "hooks.json", line=1, level="user")
    reports: list[str] = []

    async def report(text: str) -> None:
        reports.append(text)

    runner = HookRunner(
        [hook], project=str(log.parent), is_unchanged=lambda _hook, _folder: True, report=report
    )
    await runner.run("Stop", {"said": 1})
    assert theirs.read_text() == ""
    assert reports == [f"The Stop hook of {hook.where}: log is a link out of the project, so it did not run."]
    log.unlink()
    await runner.run("Stop", {"said": 2})
    assert log.read_text() == '{"said": 2}'
