"""If these fail, a run of the suite loses results, counts them wrongly, or one task spoils the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forked import killed
from tests.served import wait_until
from tests.support import Newel, bash

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}

TASK = """\
title = "Write a file"
size = "S"
tags = [{tag}]
prompt = "{prompt}"
{more}
[[checks]]
file = "made.txt"
equals = "made\\n"

[reference]
run = "echo made > made.txt"

[[wrong]]
why = "It is empty."
run = "touch made.txt"
"""


class Suite:
    """Tasks whose prompts the model answers by their first word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scenarios: list[dict[str, Any]] = []

    def add(self, name: str, *steps: dict[str, Any], tag: str = "file", more: str = "") -> None:
        place = self.folder / name
        place.mkdir(parents=True)
        trigger = f"Do {name}."
        (place / "task.toml").write_text(TASK.format(prompt=trigger, tag=f'"{tag}"', more=more))
        whole = [step if "response" in step or "fault" in step else {"response": step} for step in steps]
        self.scenarios.append({"name": name, "trigger": trigger, "steps": whole})


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "suite")


def begin(suite: Suite, with_model: WithModel) -> Newel:
    return with_model({"scenarios": suite.scenarios})


def run(newel: Newel, suite: Suite, *words: str) -> Any:
    return newel("eval", "run", "--suite", str(suite.folder), *words)


def results(newel: Newel, *words: str) -> list[dict[str, Any]]:
    done = newel("eval", "show", "--json", *words)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if line["type"] == "trial"]


def test_what_an_agent_gets_done_is_checked_and_counted(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("echo made > made.txt"), DONE)
    suite.add("bad", bash("echo other > made.txt"), {"content": "All is well."})
    newel = begin(suite, with_model)
    done = run(newel, suite, "-j", "2")
    assert done.returncode == 1, done.stderr
    assert "success rate 50% (95 %: 9% to 91%)" in done.stdout
    good, bad = sorted(results(newel), key=lambda result: not result["passed"])
    assert (good["task"], good["end"], good["metrics"]["tool_calls"]) == ("good", "done", 1)
    assert good["metrics"]["requests"] == 2
    assert (bad["task"], bad["passed"], bad["answer"]) == ("bad", False, "All is well.")
    assert bad["checks"][0]["problem"] == "its content differs: other"
    assert "bad.1" in newel("eval", "show", "--failed").stdout
    assert list(newel.project.iterdir()) == []


@pytest.mark.slow  # a second of a core
def test_repeats_have_folders_of_their_own(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("test ! -e made.txt && echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite, "-n", "3").returncode == 0
    assert [(each["repeat"], each["passed"]) for each in results(newel)] == [(1, True), (2, True), (3, True)]


@pytest.mark.slow  # seconds of waiting
def test_a_run_that_was_killed_goes_on_and_repeats_nothing_that_has_ended(
    suite: Suite, with_model: WithModel
) -> None:
    suite.add("first", bash("echo made > made.txt"), DONE)
    slow = {"delay_ms": 2_500, "response": bash("echo made > made.txt")}
    suite.add("second", slow, DONE)
    newel = begin(suite, with_model)
    with killed(newel.start("eval", "run", "--suite", str(suite.folder))):
        wait_until(lambda: len(newel.requests) >= 3, "the second task")
    (run_folder,) = (newel.home / ".newel" / "evals").iterdir()
    assert [each["task"] for each in results(newel)] == ["first"]
    done = newel("eval", "run", "--resume", run_folder.name[:15])
    assert done.returncode == 0, done.stderr
    assert {each["task"]: each["passed"] for each in results(newel)} == {"first": True, "second": True}
    assert [body["messages"][-1]["content"] for body in newel.requests].count("Do first.") == 1


def test_a_killed_run_leaves_no_agent_behind(suite: Suite, with_model: WithModel) -> None:
    """It would go on spending money."""
    suite.add("long", bash("echo $PPID > ../pid; sleep 600"), DONE)
    newel = begin(suite, with_model)
    files = newel.home / ".newel" / "evals"
    with killed(newel.start("eval", "run", "--suite", str(suite.folder), "--sandbox", "off")):
        wait_until(lambda: list(files.glob("*/trials/*/trace.jsonl")), "a trial")
        wait_until(
            lambda: "tool_execution_start" in next(files.glob("*/trials/*/trace.jsonl")).read_text(),
            "a call",
        )
    wait_until(lambda: not agents_in(files), "the end of the agent")


def agents_in(folder: Path) -> list[str]:
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()).startswith(str(folder)):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.slow  # seconds of waiting
def test_a_model_that_never_answers_fails_its_task_alone(suite: Suite, with_model: WithModel) -> None:
    suite.add("silent", {"delay_ms": 60_000, "response": DONE}, more="timeout = 1.5")
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 1
    told = {each["task"]: (each["end"], each["passed"], each["problem"]) for each in results(newel)}
    assert told == {"silent": ("timeout", False, "It was ended after 1.5 s."), "good": ("done", True, "")}


@pytest.mark.slow  # seconds of waiting
def test_a_run_gives_a_slow_model_more_time_than_its_tasks_do(suite: Suite, with_model: WithModel) -> None:
    made = bash("echo made > made.txt")
    suite.add("slow", {"delay_ms": 3_000, "response": made}, DONE, more="timeout = 1.5")
    newel = begin(suite, with_model)
    done = run(newel, suite, "--timeout", "60")
    assert done.returncode == 0, done.stdout
    (plan,) = newel.home.glob(".newel/evals/*/run.json")
    assert json.loads(plan.read_text())["timeout"] == 60


def test_a_server_that_refuses_is_named_as_the_reason(suite: Suite, with_model: WithModel) -> None:
    suite.add("refused", {"fault": {"kind": "status", "status": 400, "message": "No such model."}})
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 1
    (found,) = results(newel)
    assert found["end"] == "failed"
    assert "No such model." in found["problem"]


def test_a_task_whose_setup_fails_is_invalid_and_counts_for_nothing(
    suite: Suite, with_model: WithModel
) -> None:
    suite.add("broken", DONE, more='setup = "exit 7"')
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    done = run(newel, suite)
    assert "success rate 100%" in done.stdout
    (broken,) = (each for each in results(newel) if each["task"] == "broken")
    assert broken["end"] == "invalid"
    assert "failed with 7: exit 7" in broken["problem"]


def test_a_task_whose_programs_are_missing_is_invalid(suite: Suite, with_model: WithModel) -> None:
    """No agent can do it, however good."""
    suite.add("rust", DONE, more='requires = ["sh", "no-such-cargo"]')
    newel = begin(suite, with_model)
    run(newel, suite)
    (found,) = results(newel)
    assert (found["end"], found["problem"]) == (
        "invalid",
        "rust needs no-such-cargo, which this machine does not have.",
    )
    assert newel.requests == []
    assert "rust needs no-such-cargo" in newel("eval", "check", "--suite", str(suite.folder)).stdout


def test_the_budget_of_a_run_is_kept(suite: Suite, with_model: WithModel) -> None:
    """By the prices of the user's settings, of which a trial's own home knows nothing else."""
    for name in ("first", "second", "third"):
        suite.add(name, bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    config = newel.home / ".newel" / "config.toml"
    config.parent.mkdir()
    config.write_text('[models."mock-model"]\ninput_price = 1000.0\noutput_price = 1000.0\n')
    done = run(newel, suite, "--budget", "0.5")
    (only,) = results(newel)
    assert only["metrics"]["cost"] > 0.5
    assert "2 trials not started: the budget of the run is spent" in done.stdout


def test_a_folder_that_cannot_be_written_fails_its_trial_alone(suite: Suite, with_model: WithModel) -> None:
    suite.add("blocked", DONE)
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    golden = suite.folder / "blocked" / "trace.json"
    golden.write_text('{"made_by": "hand"}')
    assert run(newel, suite, "--replay").returncode == 1
    told = {each["task"]: (each["end"], each["problem"]) for each in results(newel)}
    assert told["good"] == ("done", "")
    assert told["blocked"][0] == "invalid"
    assert "missing required field `answers`" in told["blocked"][1]


def test_without_a_model_no_run_begins(suite: Suite, with_model: WithModel) -> None:
    """Each trial would count as a failure of the agent."""
    suite.add("good", DONE)
    newel = begin(suite, with_model)
    for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
        del newel.environ[name]
    done = run(newel, suite)
    assert done.returncode == 1
    assert "No model is configured" in done.stderr
    assert not (newel.home / ".newel" / "evals").exists()
    assert run(newel, suite, "--replay").returncode == 0
    (replayed,) = (newel.home / ".newel" / "evals").iterdir()
    assert newel("eval", "run", "--resume", replayed.name).returncode == 0


@pytest.mark.slow  # a second of a core
def test_two_runs_in_one_folder_are_refused(suite: Suite, with_model: WithModel) -> None:
    suite.add("slow", {"delay_ms": 60_000, "response": DONE})
    newel = begin(suite, with_model)
    with killed(newel.start("eval", "run", "--suite", str(suite.folder))):
        wait_until(lambda: newel.requests, "a trial")
        (run_folder,) = (newel.home / ".newel" / "evals").iterdir()
        second = newel("eval", "run", "--resume", run_folder.name)
    assert second.returncode == 1
    assert "in use" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_task_that_was_changed_meanwhile_is_not_mixed_with_its_former_self(
    suite: Suite, with_model: WithModel
) -> None:
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    run(newel, suite)
    path = suite.folder / "good" / "task.toml"
    path.write_text(path.read_text().replace("It is empty.", "It has nothing in it."))
    (run_folder,) = (newel.home / ".newel" / "evals").iterdir()
    done = newel("eval", "run", "--resume", run_folder.name)
    assert done.returncode == 2
    assert "The task good has changed since the run started" in done.stderr


def test_another_agent_is_measured_with_the_same_tasks(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", DONE)
    suite.add("bad", DONE)
    newel = begin(suite, with_model)
    agent = "case {prompt} in *good*) echo made > made.txt;; esac; echo I did: {prompt}"
    done = run(newel, suite, "--agent", agent)
    assert done.returncode == 1, done.stderr
    found = {each["task"]: (each["passed"], each["answer"]) for each in results(newel)}
    assert found == {"good": (True, "I did: Do good."), "bad": (False, "I did: Do bad.")}
    assert newel.requests == []


def proposes(*changes: tuple[int, str]) -> dict[str, Any]:
    edits = [
        {
            "edit_id": f"e{line}",
            "file_path": "made.txt",
            "operation": "replace",
            "start_line": line,
            "end_line": line,
            "new_text": text,
        }
        for line, text in changes
    ]
    return {"tool_calls": [{"function": {"name": "propose_edits", "arguments": {"edits": edits}}}]}


def asks(question: str) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "clarify_user", "arguments": {"question": question}}}]}


REVIEWED = """
[files]
"made.txt" = "1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n"
[review]
answers = ["made"]
reject = ["^.NINE"]
"""


@pytest.mark.slow  # a second of a core
def test_a_review_is_driven_as_by_a_user_and_counted(suite: Suite, with_model: WithModel) -> None:
    suite.add(
        "review",
        asks("What shall it say?"),
        proposes((1, "made\n"), (9, "NINE\n")),
        {"content": "Two changes."},
        more=REVIEWED,
    )
    path = suite.folder / "review" / "task.toml"
    path.write_text(
        path.read_text().replace('equals = "made\\n"', 'equals = "made\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n"')
    )
    newel = begin(suite, with_model)
    done = run(newel, suite)
    assert done.returncode == 0, newel("eval", "show", "--failed").stdout + done.stderr
    assert (
        "in reviews: accepted hunks 50%, trials with conflicts 0%, trials with questions 100%" in done.stdout
    )
    (found,) = results(newel)
    metrics = found["metrics"]
    assert (metrics["hunks_proposed"], metrics["hunks_accepted"], metrics["questions"]) == (2, 1, 1)
    assert found["answer"] == "Two changes."


def test_a_review_is_nothing_for_other_agents(suite: Suite, with_model: WithModel) -> None:
    suite.add("review", DONE, more=REVIEWED)
    newel = begin(suite, with_model)
    run(newel, suite, "--agent", "true {prompt}")
    (found,) = results(newel)
    assert (found["end"], found["problem"]) == (
        "invalid",
        "This task is about reviews, which only Newel has.",
    )


@pytest.mark.slow  # four seconds of a core: many runs of agents
def test_a_worse_run_is_told_from_a_better_one(suite: Suite, with_model: WithModel) -> None:
    for number in range(8):
        suite.add(f"task-{number}", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite, "-j", "4").returncode == 0
    run(newel, suite, "--agent", "true {prompt}")
    first, second = sorted(path.name for path in (newel.home / ".newel" / "evals").iterdir())
    done = newel("eval", "compare", first, second)
    assert done.returncode == 0, done.stderr
    success = next(line for line in done.stdout.splitlines() if line.startswith("success rate"))
    assert success.split()[2:] == ["8", "-1.000", "-1.000", "to", "-1.000", "*"]
    assert "task-0" in done.stdout


def test_trials_are_exported_with_prompt_trace_and_result(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    run(newel, suite)
    (line,) = newel("eval", "export").stdout.splitlines()
    exported = json.loads(line)
    assert exported["prompts"] == ["Do good."]
    assert exported["result"]["passed"]
    assert exported["trace"][-1]["type"] == "result"
    assert "sk-test" not in line


@pytest.mark.parametrize("action", [["show"], ["export"], ["compare", "a", "b"], ["run", "--resume", "x"]])
def test_without_a_run_there_is_a_hint(with_model: WithModel, action: list[str]) -> None:
    done = with_model()("eval", *action)
    assert done.returncode == 2
    assert "There are no runs yet" in done.stderr or "There is no run" in done.stderr


def test_a_replay_asks_no_model_and_says_what_it_measures(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", DONE)
    newel = begin(suite, with_model)
    done = run(newel, suite, "--replay")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A replay measures the harness" in done.stdout
    assert newel.requests == []


@pytest.mark.slow  # two seconds of a core: several runs of agents; other tests replay once
def test_a_golden_trace_is_replayed_always_in_the_same_way(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", DONE)
    trace = {
        "made_by": "hand",
        "answers": [
            [
                {"tool_calls": [{"name": "bash", "arguments": {"command": "echo made > made.txt"}}]},
                {"content": "It is made."},
            ]
        ],
    }
    (suite.folder / "good" / "trace.json").write_text(json.dumps(trace))
    newel = begin(suite, with_model)
    for _ in range(2):
        done = run(newel, suite, "--replay")
        assert done.returncode == 0, done.stdout + done.stderr
    assert results(newel)[0]["answer"] == "It is made."
    first, second = sorted(path.name for path in (newel.home / ".newel" / "evals").iterdir())
    done = newel("eval", "compare", first, second, "--diff")
    assert "has changed" not in done.stdout
