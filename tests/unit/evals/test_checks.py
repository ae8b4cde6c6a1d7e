"""If these fail, a wrong result counts as right, or a check's commands disturb those that follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newel.evals.checks import Reply, prepare, run_checks
from newel.evals.proof import prove
from newel.evals.task import Task, TaskCheck, TaskError, load_task
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import Workspace
from tests.host_connection import anyio_backend
from tests.processes import is_alive
from tests.unit.evals.test_task import GOOD, write

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def open_folder(folder: Path) -> AsyncGenerator[Workspace]:
    yield LocalWorkspace(str(folder))


def task_with(
    folder: Path, *checks: dict[str, Any], setup: str = "", files: dict[str, str] | None = None
) -> Task:
    task = load_task(write(folder, GOOD))
    built = tuple(msgspec.convert(check, TaskCheck) for check in checks)
    return msgspec.structs.replace(task, checks=built, setup=setup, files=files or {})


async def problems(folder: Path, task: Task, change: str = "", answer: str = "") -> list[str]:
    project = folder / "project"
    before = await prepare(task, project, open_folder)
    if change:
        await LocalWorkspace(str(project)).run(change)
    return [result.problem for result in await run_checks(task, project, before, Reply(answer), open_folder)]


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a command that fails": ({"run": "echo no >&2; exit 3"}, "", "exit code 3: no"),
    "another output": ({"run": "echo 41", "output": "^42$"}, "", "its output does not match `^42$`: 41"),
    "a line of an output": (
        {"run": "echo 4; echo 2", "output": "^4$"},
        "",
        "its output does not match `^4$` (with `(?m)` it would: ",
    ),
    "a missing file": ({"file": "b", "contains": "x"}, "", "it cannot be read: No such file or directory"),
    "another content": (
        {"file": "a", "equals": "one\n"},
        "printf 'one\\r\\n' > a",
        "its content differs: one",
    ),
    "a text that must be there": ({"file": "a", "contains": "two"}, "", "it does not match `two`"),
    "a text that must not": ({"file": "a", "lacks": "on."}, "", "it has 'one'"),
    "a file that must go": ({"file": "a", "absent": True}, "", "it exists"),
    "a dangling link in its place": ({"file": "a", "absent": True}, "rm a; ln -s nowhere a", "it exists"),
    "a pipe in place of a file": ({"file": "a", "contains": "x"}, "rm a; mkfifo a", "it cannot be read: "),
    "a changed file": ({"unchanged": ["a"]}, "echo more >> a", "changed: a"),
    "a deleted one": ({"unchanged": ["*"]}, "rm a", "changed: a"),
    "a made one": ({"only": ["a"]}, "mkdir d; touch d/b", "changed: d/b"),
    "a link to another place": ({"only": []}, "ln -sf a l", "changed: l"),
    "a name that is not UTF-8": ({"only": []}, "touch $(printf 'b\\377')", "changed: b\\xff"),
    "another answer": ({"answer": "(?i)forty-two"}, "", "the answer does not match: 41"),
    "an answer that says too much": ({"no_answer": "4."}, "", "the answer has '41'"),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_is_wrong_is_told(tmp_path: Path, case: str) -> None:
    check, change, told = CASES[case]
    task = task_with(tmp_path, check, files={"a": "one\n"})
    (found,) = await problems(tmp_path, task, change, answer="41")
    assert found.startswith(told)


RIGHT: dict[str, tuple[dict[str, Any], str]] = {
    "command": ({"run": "test $(cat a) = one", "output": ""}, ""),
    "output": ({"run": "echo 42", "output": "^42$"}, ""),
    "content": ({"file": "a", "equals": "one\n"}, ""),
    "deleted": ({"file": "a", "absent": True}, "rm a"),
    "only": ({"only": ["a"]}, "echo > a"),
    "caches do not count": ({"only": []}, "mkdir __pycache__ .git; touch __pycache__/x .git/y"),
    "answer": ({"answer": "4[12]"}, ""),
}


@pytest.mark.parametrize("case", RIGHT)
async def test_what_is_right_passes(tmp_path: Path, case: str) -> None:
    check, change = RIGHT[case]
    assert await problems(
        tmp_path, task_with(tmp_path, check, files={"a": "one\n"}), change, answer="41"
    ) == [""]


async def test_a_check_that_hangs_is_ended_and_leaves_no_process(tmp_path: Path) -> None:
    task = task_with(
        tmp_path, {"run": "sleep 3600 & echo $! > ../pid; sleep 3600", "timeout": 0.3}, {"run": "true"}
    )
    assert await problems(tmp_path, task) == ["it was ended after 0.3 s", ""]
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_files_are_compared_before_commands_leave_some(tmp_path: Path) -> None:
    task = task_with(tmp_path, {"run": "touch left"}, {"only": []})
    assert await problems(tmp_path, task) == ["", ""]


async def test_the_setup_may_make_the_files(tmp_path: Path) -> None:
    task = task_with(tmp_path, {"only": []}, {"run": "test $(wc -l < big) = 1000"}, setup="seq 1000 > big")
    assert await problems(tmp_path, task) == ["", ""]


async def test_a_setup_that_fails_is_told(tmp_path: Path) -> None:
    task = task_with(tmp_path, {"only": []}, setup="echo missing >&2; exit 4")
    with pytest.raises(TaskError, match=r"The setup of say-hello failed with 4: echo missing.*\nmissing"):
        await problems(tmp_path, task)


async def test_a_task_that_measures_something_is_proved(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, GOOD))
    assert await prove(task, tmp_path / "place", open_folder) == []


async def test_a_task_that_measures_nothing_is_told(tmp_path: Path) -> None:
    lax = GOOD.replace('contains = "^hello$"', 'contains = "hello"')
    assert await prove(load_task(write(tmp_path, lax)), tmp_path / "lax", open_folder) == [
        "a wrong answer passes all checks: It greets the world."
    ]
    blind = GOOD.replace('file = "hello.txt"\ncontains = "^hello$"', 'run = "true"')
    assert await prove(load_task(write(tmp_path, blind)), tmp_path / "blind", open_folder) == [
        "doing nothing passes all checks",
        "a wrong answer passes all checks: It greets the world.",
    ]
    strict = GOOD.replace('contains = "^hello$"', 'contains = "^Hello$"')
    assert await prove(load_task(write(tmp_path, strict)), tmp_path / "strict", open_folder) == [
        "the reference fails `file hello.txt`: it does not match `^Hello$`"
    ]


async def test_other_solutions_have_to_pass(tmp_path: Path) -> None:
    """Or a task fails who does it in another way."""
    other = GOOD.replace("[[wrong]]", "[[right]]\nrun = \"printf 'hello\\\\n' > hello.txt\"\n\n[[wrong]]", 1)
    assert await prove(load_task(write(tmp_path, other)), tmp_path / "good", open_folder) == []
    strict = other.replace('contains = "^hello$"', 'equals = "hello"')
    (told,) = await prove(load_task(write(tmp_path, strict)), tmp_path / "strict", open_folder)
    assert told.startswith("right solution 1 fails `file hello.txt`")


async def test_a_wrong_answer_may_not_fail_by_a_slip_of_its_author(tmp_path: Path) -> None:
    named = GOOD.replace('why = "It greets', 'fails = "file hello"\nwhy = "It greets')
    assert await prove(load_task(write(tmp_path, named)), tmp_path / "good", open_folder) == []
    other = named.replace('fails = "file hello"', 'fails = "only"')
    assert await prove(load_task(write(tmp_path, other)), tmp_path / "bad", open_folder) == [
        "a wrong answer fails `file hello.txt` instead of `only`: It greets the world."
    ]
