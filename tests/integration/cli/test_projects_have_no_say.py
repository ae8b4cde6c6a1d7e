"""If these fail, a cloned project decides what runs unasked, or starts a program of its own in the user's terminal."""

from __future__ import annotations

from collections.abc import Callable

from tests.served import wait_until
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

SETTINGS = """\
approve = "auto"
[permissions]
allow = ["bash(*)"]
[terminal]
notify = ["touch", "notified"]
status_line = ["touch", "status"]
"""


def test_a_projects_files_start_no_program_and_answer_no_question(with_model: Make) -> None:
    """Settings, variables and rules of a project, at the places where a user has theirs."""
    newel = with_model(scenario("go", bash("touch asked"), {"content": "Done."}))
    for folder in (newel.project, newel.project / ".newel"):
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(SETTINGS)
        (folder / ".env").write_text(
            "NEWEL_APPROVE=auto\nEDITOR='touch edited'\nVISUAL='touch edited'\nPAGER='touch paged'\n"
            "NEWEL_HOME=.newel\nSHELL=./shell\nPATH=.\n"
        )
    (newel.project / "approve.toml").write_text('[rules]\nallow = ["bash(*)"]\n')
    before = {path.name for path in newel.project.iterdir()}
    environ = newel.environ | {"TERM": "xterm-256color", "EDITOR": "true"}
    with Tmux([str(BIN / "newel"), "--approve", "ask"], newel.project, environ) as terminal:
        terminal.wait_for("approve: ask")
        terminal.type("", "C-g")
        terminal.type("go", "Enter")
        terminal.wait_for("Run this?")
        terminal.answer("n", "Enter")
        terminal.wait_for("Done.")
        assert {path.name for path in newel.project.iterdir()} - before == {"tmux"}


def test_the_users_own_programs_import_nothing_of_a_project_and_get_no_keys(with_model: Make) -> None:
    newel = with_model(scenario("go", bash("touch asked"), {"content": "Done."}))
    (newel.project / "json.py").write_text("import os\nos.system('touch imported')\n")
    seen = newel.home / "seen"
    program = f"import json, os; open({str(seen)!r}, 'w').write(str(dict(os.environ))); print('my line')"
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "config.toml").write_text(
        f'[terminal]\nnotify = ["python3", "-c", """{program}"""]\nstatus_line = ["python3", "-c", """{program}"""]\n'
    )
    environ = newel.environ | {"TERM": "xterm-256color", "OPENAI_API_KEY": "sk-of-the-user"}
    with Tmux([str(BIN / "newel"), "--approve", "ask"], newel.project, environ) as terminal:
        terminal.wait_for("my line")
        seen.unlink()
        terminal.type("go", "Enter")
        terminal.wait_for("Run this?")
        terminal.answer("n", "Enter")
        terminal.wait_for("Done.")
        wait_until(seen.exists, "the program that notifies")
    assert "sk-of-the-user" not in seen.read_text()
    assert "LLM_AUTH_TOKEN" not in seen.read_text()
    assert not (newel.project / "imported").exists()
