"""If these fail, nobody can see what a local model gets done, nor what it costs to have a remote one as its safety net."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import MockServer, running
from tests.integration.evals.test_eval_run import DONE, Suite, bash
from tests.support import Newel

WithModel = Callable[..., Newel]

MODES = ("remote", "local", "hybrid_auto")

BROKEN: dict[str, Any] = {"tool_calls": [{"function": {"name": "write", "arguments": '{"file_path": "made'}}]}


def write_config(newel: Newel, text: str) -> None:
    folder = newel.home / ".newel"
    folder.mkdir()
    (folder / "config.toml").write_text(text)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    suite = Suite(tmp_path / "suite")
    suite.add("easy", bash("echo made > made.txt"), DONE)
    made = (bash("echo made > made.txt"), DONE)
    suite.add("hard", *made, *made)  # in a fallback, the first two answers were those of the local model
    return suite


@pytest.fixture
def small() -> Iterator[MockServer]:
    """A local model that can do the easy task only."""
    easy = [{"response": bash("echo made > made.txt")}, {"response": DONE}]
    hard = [{"response": BROKEN}] * 6
    scenarios = [
        {"name": "easy", "trigger": "Do easy.", "steps": easy},
        {"name": "hard", "trigger": "Do hard.", "steps": hard},
    ]
    with running({"scenarios": scenarios * 2}) as server:
        yield server


def runs(newel: Newel) -> list[str]:
    return sorted(path.name for path in (newel.home / ".newel" / "evals").iterdir())


def figures(text: str) -> dict[str, list[str]]:
    """The cells of each row of a matrix, by its first words."""
    rows = (re.split(r" {2,}", line) for line in text.splitlines() if line.strip())
    return {row[0]: row[1:] for row in rows}


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_modes_are_compared_on_the_same_tasks(suite: Suite, small: MockServer, with_model: WithModel) -> None:
    newel = with_model({"scenarios": suite.scenarios * 2})
    write_config(newel, f'[local]\nbase_url = "{small.url}/v1"\nmodel = "small"\n')
    for mode in MODES:
        assert newel("eval", "run", "--suite", str(suite.folder), "--agent-mode", mode).stderr == ""
    done = newel("eval", "show", *runs(newel))
    assert done.returncode == 0, done.stderr
    found = figures(done.stdout)
    assert found["mode"] == list(MODES)
    assert found["model"] == ["mock-model", "small", "small + mock-model"]
    assert found["success rate"] == ["100%", "50%", "100%"]
    assert found["fallbacks"] == ["-", "0%", "50%"]
    assert found["hard"] == ["1/1", "0/1", "1/1"]


def test_figures_are_read_by_programs(suite: Suite, with_model: WithModel) -> None:
    newel = with_model({"scenarios": suite.scenarios})
    newel("eval", "run", "--suite", str(suite.folder))
    lines = [json.loads(line) for line in newel("eval", "show", "--json").stdout.splitlines()]
    assert [(line["type"], line.get("task", line.get("name"))) for line in lines] == [
        ("trial", "easy"),
        ("trial", "hard"),
        ("summary", "easy"),
        ("summary", "hard"),
        ("summary", "total"),
    ]
    assert lines[-1]["passed"] == 2
    assert lines[-1]["model"] == "mock-model"


def test_the_key_of_a_local_server_is_not_written_to_the_folders_of_trials(
    suite: Suite, with_model: WithModel
) -> None:
    newel = with_model({"scenarios": suite.scenarios})
    write_config(newel, '[local]\nbase_url = "http://127.0.0.1:9/v1"\napi_key = "sk-local"\n')
    done = newel("eval", "run", "--suite", str(suite.folder), "--agent-mode", "local")
    assert done.returncode == 2
    assert "The key of [local] in config.toml is not given to trials" in done.stderr
    assert not (newel.home / ".newel" / "evals").exists()
