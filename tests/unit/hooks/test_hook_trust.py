"""If these fail, a command in the sandbox leaves it by the script of a hook, or cannot do its work because of a hook."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.hooks.hook import Hook
from newel.hooks.hook_trust import fingerprint, programs_of


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
    hook = Hook(event="Stop", command=command, file=tmp_path / "hooks.json", line=1, level="project")
    assert list(programs_of(hook, tmp_path, "")) == [str(tmp_path / name) for name in programs]


def test_a_link_of_another_users_process_stops_no_start(tmp_path: Path) -> None:
    """A cloned project may name one."""
    file = tmp_path / "hooks.json"
    hook = Hook(event="Stop", command="cat /proc/1/root/x", file=file, line=1, level="project")
    assert len(fingerprint(file, [hook], tmp_path)) == 64
