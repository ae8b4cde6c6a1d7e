"""If these fail, the GitHub Action does not run, or an issue's title in a prompt runs commands on the runner."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.action_runner import ActionRun, ActionRunner
from tests.integration.cli.proposals import Proposals, replace
from tests.support import Newel, bash, scenario

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = (
    "\"; rm -rf ~ #\n$(touch pwned) `touch pwned` ${{ secrets.KEY }} ${{ github.token }} '; touch pwned; '"
)

Make = Callable[..., Newel]
Act = Callable[..., ActionRun]


@pytest.fixture
def act(tmp_path: Path) -> Callable[[Newel], Act]:
    """Runs the action in a Newel's project, with the ``newel`` that is installed."""

    def make(newel: Newel) -> Act:
        files = tmp_path / "runner"
        files.mkdir()
        environ = {name: value for name, value in newel.environ.items() if not name.startswith("LLM_")}
        runner = ActionRunner(ROOT / "action.yml", files, newel.project, environ)
        model = {
            "base_url": newel.environ["LLM_BASE_URL"],
            "model": "mock-model",
            "api_key": "sk-secret-of-the-job",
        }

        def run(**inputs: str) -> ActionRun:
            return runner.run(**{"version": "installed"} | model | inputs)

        return run

    return make


def test_no_script_of_the_action_has_an_expression_in_it(tmp_path: Path) -> None:
    """GitHub would put the input's text into the script, which would run it."""
    steps = ActionRunner(ROOT / "action.yml", tmp_path, tmp_path, {}).steps
    assert len(steps) == 2
    for step in steps:
        assert "${{" not in step["run"]
        assert step.keys() <= {"name", "id", "shell", "env", "run", "working-directory"}
        assert not re.search(r"\beval\b", step["run"])


def test_a_hostile_prompt_reaches_the_model_word_for_word_and_runs_nothing(
    with_model: Make, act: Callable[[Newel], Act]
) -> None:
    newel = with_model(scenario("rm -rf", {"content": "No."}))
    keep = newel.home / "keep"
    keep.touch()
    done = act(newel)(prompt=HOSTILE)
    assert done.code == 0, done.log
    assert newel.requests[0]["messages"][-1]["content"] == HOSTILE.strip()
    assert keep.exists()
    assert not list(newel.project.iterdir())
    assert done.outputs["answer"] == "No."


@pytest.mark.slow  # it makes an environment: four seconds of a core
def test_the_installation_runs_no_module_of_a_pull_request(
    with_model: Make, act: Callable[[Newel], Act], tmp_path: Path
) -> None:
    """It could change the next step, which has the key."""
    newel = with_model()
    newel.environ["PIP_NO_INDEX"] = "1"  # it ends soon
    for name in ("venv", "ensurepip", "pip"):
        (newel.project / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    done = act(newel)(prompt="go", version="action")
    assert done.code != 0
    assert "pip" in done.log or "hatchling" in done.log, done.log
    assert not (tmp_path / "ran").exists()


def test_the_outputs_are_the_answer_the_session_and_the_cost(
    with_model: Make, act: Callable[[Newel], Act]
) -> None:
    newel = with_model(scenario("count", {"content": "One\ncost<<end\n99\nend\nTwo"}))
    config = newel.home / ".newel" / "config.toml"
    config.parent.mkdir()
    config.write_text('[models."mock-model"]\ninput_price = 1.0\noutput_price = 1.0\n')
    done = act(newel)(prompt="count", max_cost="0.5")
    assert done.code == 0, done.log
    assert done.outputs["answer"] == "One\ncost<<end\n99\nend\nTwo"
    assert float(done.outputs["cost"]) > 0
    assert done.outputs["session"] in newel.sessions[0].name


def test_text_of_the_model_is_no_command_for_the_runner(
    with_model: Make, act: Callable[[Newel], Act]
) -> None:
    newel = with_model(scenario("go", {"content": "\n::add-path::/tmp/evil\n"}))
    log = act(newel)(prompt="go").log
    stopped = re.search(r"^::stop-commands::(\w+)$(.*)^::(\1)::$", log, re.MULTILINE | re.DOTALL)
    assert stopped, log
    assert "::add-path::" in stopped[2]
    assert "::add-path::" not in log.replace(stopped[0], "")


def test_by_default_the_agent_changes_nothing_and_with_auto_its_commands_get_no_key(
    with_model: Make, act: Callable[[Newel], Act]
) -> None:
    steps = [bash("env > env.txt; touch made"), {"content": "Done."}]
    newel = with_model(scenario("go", *steps, *steps))
    run = act(newel)
    run(prompt="go")
    assert not (newel.project / "made").exists()
    assert run(prompt="go", approve="auto").code == 0
    assert (newel.project / "made").exists()
    environ = (newel.project / "env.txt").read_text()
    assert "sk-secret-of-the-job" not in environ
    assert "NEWEL_ACTION_" not in environ


def test_the_check_fails_while_a_change_waits(with_model: Make, act: Callable[[Newel], Act]) -> None:
    newel = with_model()
    run = act(newel)
    assert run(check="true").code == 0
    (newel.project / "app.py").write_text("one\n")
    proposals = Proposals(newel.home / ".newel", newel.project)
    proposals.propose("one", {"app.py": [replace(1, 1, "ONE\n")]})
    done = run(check="true")
    assert done.code == 1
    assert "app.py: 1 change to decide" in done.log


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "needs either a prompt"),
        ({"prompt": "hi", "check": "true"}, "needs either a prompt"),
        ({"prompt": "hi", "max_cost": "lots"}, "max-cost is 'lots'"),
        ({"prompt": "hi", "approve": "everything"}, "approve: invalid"),
        ({"prompt": "hi", "version": "1.0; touch pwned"}, "version must be"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_input_is_named(
    with_model: Make, act: Callable[[Newel], Act], inputs: dict[str, str], message: str
) -> None:
    newel = with_model()
    done = act(newel)(**{"prompt": "", "version": "installed"} | inputs)
    assert done.code == 2
    assert message in done.log
