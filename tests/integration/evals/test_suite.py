"""If these fail, a task of the suite measures nothing, or the harness can no longer do what a task takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from newel.evals.task import find_tasks, load_task
from tests.properties import one_in
from tests.requirements import require_program
from tests.sshd import require_sshd
from tests.support import Newel

pytestmark = pytest.mark.slow  # a process for each check of each attempt

WithModel = Callable[..., Newel]

SUITE = Path(__file__).parents[3] / "evals" / "tasks"
TASKS = [path.name for path in find_tasks(SUITE)]


@pytest.mark.timeout(280)
@pytest.mark.parametrize("name", one_in(4, TASKS))
def test_a_task_measures_something(with_model: WithModel, name: str) -> None:
    """Its start fails, and so do all wrong answers that it names."""
    code, output = evaluate(with_sandbox(with_model, name), "check", name)
    assert code == 0, output


# Each trace was replayed when it was recorded, so only the harness can break them, and it breaks many at once.
@pytest.mark.timeout(140)
@pytest.mark.parametrize("name", one_in(6, TASKS))
def test_the_golden_trace_of_a_task_passes(with_model: WithModel, name: str) -> None:
    code, output = evaluate(with_sandbox(with_model, name), "run", "--replay", name)
    assert code == 0, output


def with_sandbox(with_model: WithModel, name: str) -> Newel:
    """A Newel for a task: a model keeps notes in /tmp, of which each sandbox has its own."""
    require_program("bwrap", "bubblewrap")
    if load_task(SUITE / name).host is not None:
        require_sshd()
    newel = with_model()
    newel.environ["NEWEL_SANDBOX"] = "workspace"
    return newel


def evaluate(newel: Newel, *words: str) -> tuple[int, str]:
    """The exit code and the output. Some wrong answers block for as long as their checks allow."""
    with newel.start("eval", *words) as process:
        output = "".join(process.communicate(timeout=130))
        return process.wait(), output


def test_the_suite_covers_what_agents_are_asked_for() -> None:
    tasks = [load_task(path) for path in find_tasks(SUITE)]
    assert {task.size for task in tasks} == {"S", "M", "L"}
    assert {"review", "clarification", "conflict", "hosts"} <= {tag for task in tasks for tag in task.tags}
