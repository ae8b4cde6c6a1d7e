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


def test_settings_in_a_project_are_named_with_the_file_that_counts(with_model: Make) -> None:
    """Otherwise somebody who is used to settings of a project waits for theirs to apply."""
    newel = with_model(scenario("go", {"content": "Done."}))
    own, other = (folder / ".newel" / "config.toml" for folder in (newel.home, newel.project))
    for file in (own, other):
        file.parent.mkdir(exist_ok=True)
        file.write_text('thinking = "off"\n')
    done = newel("-p", "go")
    assert done.stdout == "Done.\n"
    assert f"newel: {other} is ignored: settings are read from {own} only" in done.stderr
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel")], newel.project, environ, columns=200) as terminal:
        terminal.wait_for("Enter sends")
        assert terminal.text.count("config.toml is ignored") == 1
    other.unlink()
    assert "ignored" not in newel("-p", "go").stderr


def test_the_users_own_file_is_not_that_of_a_project(with_model: Make) -> None:
    """A conversation in the home folder, whose settings count."""
    newel = with_model(scenario("go", {"content": "Done."}))
    file = newel.project / ".newel" / "config.toml"
    file.parent.mkdir()
    file.write_text('thinking = "off"\n')
    assert "ignored" not in newel("-p", "go", NEWEL_HOME=str(file.parent)).stderr


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
