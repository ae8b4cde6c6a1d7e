"""If these fail, an agent passes a task that it has not done, a failure is not counted, or a stranger's suite does more on
this machine than its sandbox allows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import require_program
from tests.support import Newel

pytestmark = pytest.mark.slow  # an evaluation for each attack; test_eval_run.py has the quick tests

WithModel = Callable[..., Newel]

require_program("bwrap", "bubblewrap")

HEAD = """\
title = "Add numbers"
size = "S"
tags = ["python"]
prompt = "Fix sum.py."
"""

TASK = (
    HEAD
    + """
[files]
"sum.py" = "def add(a, b):\\n    return a - b\\n"
"expected.txt" = "3"
"test_sum.py" = '''
import json
from sum import add
assert add(1, 2) == json.loads(open("expected.txt").read())
print("all tests pass")
'''

[[checks]]
only = ["sum.py"]

[[checks]]
run = "python3 -B -c 'import sum'"

[[checks]]
run = "python3 -B test_sum.py"
output = "all tests pass"

[reference]
run = "sed -i s/-/+/ sum.py"

[[wrong]]
why = "It changes the test."
run = "echo -1 > expected.txt"
"""
)


class Place:
    """A suite with one task, and Newel with the sandbox of users."""

    def __init__(self, folder: Path, newel: Newel) -> None:
        self.folder = folder / "suite" / "add"
        self.folder.mkdir(parents=True)
        self.newel = newel
        newel.environ["NEWEL_SANDBOX"] = "workspace"

    def write(self, toml: str, *commands: str, files: dict[str, str] | None = None) -> None:
        (self.folder / "task.toml").write_text(toml)
        calls = [
            {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]} for command in commands
        ]
        trace = {"made_by": "hand", "answers": [[*calls, {"content": "Done."}]]}
        (self.folder / "trace.json").write_text(json.dumps(trace))
        for name, text in (files or {}).items():
            path = self.folder / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def replay(self) -> dict[str, Any]:
        done = self.newel("eval", "run", "--suite", str(self.folder), "--replay")
        assert "Traceback" not in done.stderr
        assert "not started" not in done.stdout
        lines = map(json.loads, self.newel("eval", "show", "--json").stdout.splitlines())
        return next(line for line in lines if line["type"] == "trial")


@pytest.fixture
def place(tmp_path: Path, with_model: WithModel) -> Place:
    return Place(tmp_path, with_model())


def test_honest_work_passes(place: Place) -> None:
    place.write(TASK, "sed -i s/-/+/ sum.py")
    assert place.replay()["passed"]


CHEATS = {
    "a module compiled from another source": (
        """printf 'def add(a, b):\\n    return a + b\\n' > /tmp/other.py
python3 -c '
import py_compile, sys
there = "__pycache__/sum.cpython-%d%d.pyc" % sys.version_info[:2]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile("/tmp/other.py", cfile=there, dfile="sum.py", invalidation_mode=mode)
'"""
    ),
    "a process that outlives the agent": (
        """setsid python3 -c '
import os, time
if os.fork():
    os._exit(0)
os.setsid()
time.sleep(1)
while True:
    open("expected.txt", "w").write("-1")
' >/dev/null 2>&1 &"""
    ),
    "a module in place of one of Python's": "echo 'loads = lambda text: -1' > json.py",
    "modules that Python loads by itself": (
        "echo 'print(\"all tests pass\")\nimport os\nos._exit(0)' | tee sitecustomize.py usercustomize.py > conftest.py"
    ),
    "another python3": "printf '#!/bin/sh\\necho all tests pass\\n' > python3; chmod +x python3; PATH=.:$PATH",
    "another python3 in the home folder": (
        "mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho all tests pass\\n' > ~/.local/bin/python3; chmod +x ~/.local/bin/python3"
    ),
    "a link in place of the folder": "mv expected.txt .. ; echo -1 > ../expected.txt; ln -s ../expected.txt expected.txt",
    "the files of the trial": (
        "echo '{}' > ../trace.jsonl; echo > ../../../journal.db; echo > ../../../run.json; rm -rf ../../../*"
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_fails(place: Place, cheat: str) -> None:
    place.write(TASK, CHEATS[cheat])
    result = place.replay()
    assert (result["end"], result["passed"]) == ("done", False)


def test_an_agent_does_not_see_the_keys_of_the_user(place: Place) -> None:
    """Its home is another one, so the places where the user's keys are do not look like any."""
    home = place.newel.home
    for name in (".newel/config.toml", ".ssh/id_rsa"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("# a-key-of-the-user\n")
    place.write(TASK, "sed -i s/-/+/ sum.py")
    calls = [
        {"tool_calls": [{"name": "read", "arguments": {"path": str(home / name)}}]}
        for name in (".newel/config.toml", ".ssh/id_rsa")
    ]
    trace = {"made_by": "hand", "answers": [[*calls, {"content": "Done."}]]}
    (place.folder / "trace.json").write_text(json.dumps(trace))
    assert place.replay()["end"] == "done"
    (trial,) = home.glob(".newel/evals/*/trials/*/trace.jsonl")
    assert "a-key-of-the-user" not in trial.read_text()
    assert trial.read_text().count("was not read: the user's rule") >= 2


LEFT = {
    "a name that is not UTF-8": "touch $(printf 'a\\377')",
    "a link to such a name": "ln -s $(printf 'a\\377') link",
    "a file that is larger than memory": "truncate -s 1T big",
    "a pipe": "rm sum.py; mkfifo sum.py other",
    "a path that is too long": (
        'python3 -c \'import os\nfor _ in range(600):\n    os.mkdir("folder-10c")\n    os.chdir("folder-10c")\nopen("x", "w")\''
    ),
    "a closed folder": "chmod 000 .",
}


DEEP = "a path that is too long"
"""It takes two seconds of a core to make and to remove."""


@pytest.mark.parametrize(
    "left", [pytest.param(left, marks=pytest.mark.slow if left == DEEP else ()) for left in LEFT]
)
def test_whatever_an_agent_leaves_its_failure_counts(place: Place, left: str) -> None:
    """An invalid trial counts for nothing: an agent that cannot do a task would look better by it."""
    place.write(TASK, LEFT[left])
    result = place.replay()
    assert (result["end"], result["passed"]) == ("done", False)


def test_code_among_the_files_of_a_task_runs_in_the_sandbox_only(place: Place, tmp_path: Path) -> None:
    """The agent starts in the project's folder; a module there must not take the place of its own."""
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')\n"
    names = ("newel/__init__.py", "json.py", "msgspec.py", "sitecustomize.py")
    place.write(TASK.replace('only = ["sum.py"]', "only = []"), "true", files=dict.fromkeys(names, code))
    place.replay()
    assert not mark.exists()


@pytest.mark.parametrize("action", ["check", "run"])
def test_a_task_writes_nothing_outside_its_project(place: Place, tmp_path: Path, action: str) -> None:
    """The files of attempts are written by Newel itself, not by a command in the sandbox."""
    outside = tmp_path / "outside"
    outside.mkdir()
    toml = f"""{HEAD}
setup = "ln -s {outside} link; ln -s {outside}/one one"
[[checks]]
run = "true"
[reference]
files = {{ "link/made" = "text", "one" = "text" }}
[[wrong]]
why = "It is as bad."
files = {{ "link/made" = "text" }}
"""
    place.write(toml, "true")
    place.newel("eval", action, "--suite", str(place.folder), *(["--replay"] if action == "run" else []))
    assert list(outside.iterdir()) == []


def test_a_suite_is_listed_without_running_anything(place: Place, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = f"touch {mark}"
    toml = f"""{HEAD}
setup = "{command}"
accept = "{command}"
[[checks]]
run = "{command}"
[reference]
run = "{command}"
[[wrong]]
why = "It is wrong."
run = "{command}"
"""
    place.write(toml, command)
    done = place.newel("eval", "list", "--suite", str(place.folder))
    assert (done.returncode, "Add numbers" in done.stdout) == (0, True)
    assert not mark.exists()


@pytest.mark.slow  # a second of a core
def test_no_text_of_a_task_or_an_agent_reaches_the_terminal_or_the_page_as_it_is(place: Place) -> None:
    evil = "\\u001b]0;title\\u0007\\u001b[2J<script>alert(1)</script>"
    toml = f"""
title = "{evil}"
size = "S"
tags = ["{evil}"]
prompt = "Do it."
[[checks]]
run = "printf '\\\\033]0;title\\\\007<script>alert(1)</script>'; exit 3"
why = "{evil}"
[reference]
run = "true"
[[wrong]]
why = "{evil}"
"""
    place.write(toml, "true")
    place.replay()
    suite = ["--suite", str(place.folder)]
    for words in (
        ["list", *suite],
        ["check", *suite],
        ["show"],
        ["show", "--failed"],
        ["run", "--replay", *suite],
    ):
        done = place.newel("eval", *words)
        assert "<script>" in done.stdout or words == ["show"], done.stderr
        assert "\x1b" not in done.stdout + done.stderr, words
    assert place.newel("eval", "report", "-o", "page.html").returncode == 0
    page = (place.newel.project / "page.html").read_text()
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_an_agent_cannot_look_up_how_its_result_is_checked(place: Place) -> None:
    path = place.folder / "task.toml"
    place.write(TASK, f"cat {path}")
    trace = json.loads((place.folder / "trace.json").read_text())
    call = {"name": "read", "arguments": {"path": str(path)}}
    trace["answers"][0].insert(0, {"tool_calls": [call]})
    (place.folder / "trace.json").write_text(json.dumps(trace))
    place.replay()
    (exported,) = place.newel("eval", "export").stdout.splitlines()
    assert "No such file" in exported
    assert "It changes the test" not in exported


@pytest.mark.slow  # a second of a core
def test_what_a_user_does_meanwhile_is_done_in_the_sandbox(place: Place, tmp_path: Path) -> None:
    """The command is the suite's, and the suite may be a stranger's."""
    outside = tmp_path / "mark"
    toml = f"""{HEAD}
[files]
"sum.py" = "a\\n"
[review]
meanwhile = "echo meanwhile > other.txt; touch {outside}; true"
[[checks]]
file = "other.txt"
contains = "meanwhile"
[reference]
run = "true"
[[wrong]]
why = "It is wrong."
run = "rm other.txt"
"""
    place.write(toml)
    edit = {
        "edit_id": "e",
        "file_path": "sum.py",
        "operation": "replace",
        "start_line": 1,
        "end_line": 1,
        "new_text": "b\n",
    }
    proposal = {"tool_calls": [{"name": "propose_edits", "arguments": {"edits": [edit]}}]}
    answers = [[proposal, {"content": "Done."}], [{"content": "Again."}]]
    (place.folder / "trace.json").write_text(json.dumps({"made_by": "hand", "answers": answers}))
    result = place.replay()
    assert (result["passed"], outside.exists()) == (True, False), result


@pytest.mark.parametrize("action", ["run", "check", "list"])
def test_a_task_copies_no_folder_of_the_user(place: Place, tmp_path: Path, action: str) -> None:
    private = tmp_path / "home" / ".ssh"
    private.mkdir(parents=True)
    (private / "id_rsa").write_text("PRIVATE KEY")
    place.write(TASK, "cat id_rsa")
    (place.folder / "files").symlink_to("../../home/.ssh")
    more = ["--replay"] if action == "run" else []
    done = place.newel("eval", action, "--suite", str(place.folder.parent), *more)
    assert done.returncode != 0, done.stdout
    assert "add/files is a link" in done.stderr + done.stdout
    found = [path for path in tmp_path.rglob("id_rsa") if not path.is_relative_to(tmp_path / "home/.ssh")]
    assert found == []
    assert "PRIVATE" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "check", ['equals = ""', 'contains = "nothing"', "lacks = '(?s)PRIVATE.*'", 'contains = "PRIVATE"']
)
def test_a_check_reads_no_file_of_the_user(place: Place, tmp_path: Path, check: str) -> None:
    """Its result says what is in the file, and goes to the submitter of the task."""
    (secret := tmp_path / "secret").write_text("PRIVATE KEY")
    toml = f"""
setup = "ln -s {secret} stolen"

[[checks]]
file = "stolen"
{check}

[reference]

[[wrong]]
why = "It does nothing."
"""
    place.write(HEAD + toml, "true")
    trial = place.replay()
    assert not trial["passed"]
    assert "a place outside of the project" in trial["checks"][0]["problem"]
    assert "PRIVATE KEY" not in json.dumps(trial)
