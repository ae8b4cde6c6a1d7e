"""If these fail, what a real model wrote cannot be replayed, is replayed otherwise than it was, or ends up with secrets and paths in a
repository.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.evals.task import load_task
from tests.forked import killed
from tests.integration.evals.test_eval_run import (
    DONE,
    REVIEWED,
    Suite,
    asks,
    begin,
    proposes,
    results,
    run,
)
from tests.integration.evals.test_suite import SUITE
from tests.served import wait_until
from tests.support import Newel, bash

WithModel = Callable[..., Newel]

MADE = bash("echo made > made.txt")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "suite")


def record(newel: Newel, *words: str) -> Any:
    return newel("eval", "record", *words)


def trace_of(suite: Suite, name: str) -> dict[str, Any]:
    return json.loads((suite.folder / name / "trace.json").read_text())


def calls(*pairs: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": given}} for name, given in pairs], **more}


def add_review(suite: Suite, *steps: dict[str, Any], more: str = REVIEWED) -> None:
    """A review of a file with nine lines, of which the first is to change."""
    suite.add("review", *steps, more=more)
    path = suite.folder / "review" / "task.toml"
    changed = 'equals = "made\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n"'
    path.write_text(path.read_text().replace('equals = "made\\n"', changed))


def recorded(newel: Newel, suite: Suite) -> None:
    """Run the suite with its model, and record all of it."""
    done = run(newel, suite)
    assert done.returncode == 0, newel("eval", "show", "--failed").stdout + done.stderr
    done = record(newel)
    assert done.returncode == 0, done.stdout + done.stderr


def replayed(newel: Newel, suite: Suite) -> dict[str, Any]:
    """The result of a replay, which asks no model."""
    asked = len(newel.requests)
    done = run(newel, suite, "--replay")
    assert done.returncode == 0, newel("eval", "show", "--failed").stdout + done.stderr
    assert len(newel.requests) == asked
    assert all(each["problem"] == "" for each in results(newel))
    return results(newel)[0]


def runs(newel: Newel) -> list[str]:
    return sorted(path.name for path in (newel.home / ".newel" / "evals").iterdir())


@pytest.mark.slow  # a second of a core
def test_what_a_model_answered_is_recorded_and_replayed(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", MADE | {"content": "I will."}, DONE)
    suite.add("other", DONE)
    (suite.folder / "other" / "trace.json").write_text(
        json.dumps({"made_by": "hand", "answers": [[MADE_BY_HAND, DONE]]})
    )
    newel = begin(suite, with_model)
    run(newel, suite, "good")
    done = record(newel, runs(newel)[0])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["good", "recorded", "2", "answers", "of", "mock-model"]
    trace = trace_of(suite, "good")
    assert trace.pop("made_on").count("-") == 2
    assert trace == {
        "made_by": "mock-model",
        "answers": [
            [
                {
                    "content": "I will.",
                    "tool_calls": [{"name": "bash", "arguments": {"command": "echo made > made.txt"}}],
                },
                {"content": "Done."},
            ]
        ],
    }
    listed = [
        line.split()[:3] for line in newel("eval", "list", "--suite", str(suite.folder)).stdout.splitlines()
    ]
    assert listed == [["good", "S", "mock-model"], ["other", "S", "hand"]]
    assert replayed(newel, suite)["answer"] == "Done."
    again = run(newel, suite, "--replay")
    assert "Answers: 1 task of mock-model, 1 by hand." in again.stdout
    assert "Answers: 1 task of mock-model, 1 by hand." in newel("eval", "show").stdout
    compared = newel("eval", "compare", *runs(newel)[-2:], "--diff")
    assert "has changed" not in compared.stdout
    assert record(newel).stderr.count("was a replay") == 1


MADE_BY_HAND = {"tool_calls": [{"name": "bash", "arguments": {"command": "echo made > made.txt"}}]}


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_recording_is_the_same_wherever_it_is_replayed(suite: Suite, with_model: WithModel) -> None:
    """The model named its folder; the trace must not."""
    made = "{{ tool_result | (/\\S+/project) }}/made.txt"
    suite.add("good", bash("pwd"), calls(("write", {"path": made, "content": "made\n"})), DONE)
    newel = begin(suite, with_model)
    recorded(newel, suite)
    text = (suite.folder / "good" / "trace.json").read_text()
    assert str(newel.home) not in text
    assert trace_of(suite, "good")["answers"][0][1]["tool_calls"] == [
        {"name": "write", "arguments": {"path": "/newel-trial/project/made.txt", "content": "made\n"}}
    ]
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_several_calls_and_slips_are_replayed_as_they_were(suite: Suite, with_model: WithModel) -> None:
    slip = "{\"command\": 'echo made > made.txt'}"
    suite.add(
        "good",
        calls(
            ("bash", {"command": "echo made > made.txt"}),
            ("bash", {"command": "pwd"}),
            reasoning_content="Hm.",
        ),
        calls(("bash", slip)),
        calls(("nosuch", {"a": 1})),
        {"response": MADE, "fault": {"kind": "malformed_arguments"}},
        DONE,
    )
    newel = begin(suite, with_model)
    recorded(newel, suite)
    (answers,) = trace_of(suite, "good")["answers"]
    assert answers[0]["thinking"] == "Hm."
    assert [call["arguments"]["command"] for call in answers[0]["tool_calls"]] == [
        "echo made > made.txt",
        "pwd",
    ]
    assert answers[1]["tool_calls"] == [{"name": "bash", "arguments": slip}]
    assert answers[2]["tool_calls"] == [{"name": "nosuch", "arguments": {"a": 1}}]
    assert answers[3]["tool_calls"] == [{"name": "bash", "arguments": '{"command":"echo '}]
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_conversation_of_several_prompts_is_recorded(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("pwd"), {"content": "I looked."}, more='then = ["Go on.", "Go on."]')
    go_on = {"name": "go on", "trigger": "Go on.", "steps": [{"response": MADE}, {"response": DONE}]}
    suite.scenarios.append(go_on)
    newel = begin(suite, with_model)
    recorded(newel, suite)
    assert [[answer.get("content") for answer in each] for each in trace_of(suite, "good")["answers"]] == [
        [None, "I looked."],
        [None, "Done."],
        [None, "Done."],
    ]
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_summaries_of_a_conversation_are_recorded(suite: Suite, with_model: WithModel) -> None:
    place = suite.folder / "remember"
    shutil.copytree(SUITE / "remember-across-summaries", place)
    task = load_task(place)
    by_hand = trace_of(suite, "remember")
    (place / "trace.json").unlink()
    told = {"content": "Count.", "reasoning_content": "Hm."}
    suite.scenarios.append(
        {
            "name": "summary",
            "trigger": "",
            "match": {"system": "You summarize"},
            "steps": [{"response": told}],
        }
    )
    prompts = list(zip([task.prompt, *task.then], by_hand["answers"], strict=True))
    for prompt, answers in reversed(prompts):  # a summary has the first prompt, too
        steps = [
            {"response": calls(*((each["name"], each["arguments"]) for each in answer["tool_calls"]))}
            if "tool_calls" in answer
            else {"response": answer}
            for answer in answers
        ]
        suite.scenarios.append({"name": prompt[:20], "trigger": prompt, "steps": steps})
    newel = begin(suite, with_model)
    recorded(newel, suite)
    trace = trace_of(suite, "remember")
    assert trace["answers"] == by_hand["answers"]
    assert set(trace["summaries"]) == {"Count."}
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
@pytest.mark.parametrize("api", ["responses", "anthropic"])
def test_all_apis_are_recorded_alike(suite: Suite, with_model: WithModel, api: str) -> None:
    slip = {"response": MADE, "fault": {"kind": "malformed_arguments"}}
    suite.add("good", MADE | {"content": "I will."}, slip, DONE)
    newel = begin(suite, with_model)
    url = newel.server.url + ("" if api == "anthropic" else "/v1")
    done = run(newel, suite, "--api", api, "--base-url", url)
    assert done.returncode == 0, newel("eval", "show", "--failed").stdout + done.stderr
    assert record(newel).returncode == 0
    (answers,) = trace_of(suite, "good")["answers"]
    assert [answer.get("content") for answer in answers] == ["I will.", None, "Done."]
    assert answers[1]["tool_calls"] == [{"name": "bash", "arguments": '{"command":"echo '}]
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_contract_is_recorded_with_the_verdicts_of_its_judge(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("touch made.txt"), {"content": "It is there."}, more='accept = "test -s made.txt"')
    not_yet = {"content": '{"satisfied": false, "why": "It is empty.", "missing": "made"}'}
    satisfied = {"content": '{"satisfied": true, "why": "All is made.", "missing": ""}'}
    judge = {"name": "judge", "trigger_regex": "^After [12] tool calls?: is the contract", "loop": True}
    suite.scenarios += [
        judge
        | {"name": "first", "trigger_regex": "^After 1 tool call: is", "steps": [{"response": not_yet}]},
        judge | {"name": "then", "steps": [{"response": satisfied}]},
        {"name": "nudged", "trigger": "Not yet", "steps": [{"response": MADE}, {"response": DONE}]},
    ]
    newel = begin(suite, with_model)
    recorded(newel, suite)
    (answers,) = trace_of(suite, "good")["answers"]
    assert [answer["verdict"]["satisfied"] for answer in answers] == [False, False, True]
    assert answers[0]["verdict"] == {"satisfied": False, "why": "It is empty.", "missing": "made"}
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_review_is_recorded_with_its_rerun(suite: Suite, with_model: WithModel) -> None:
    add_review(
        suite,
        asks("What shall it say?"),
        proposes((1, "made\n"), (9, "NINE\n")) | {"content": "I propose:"},
        {"content": "Two changes."},
        more=REVIEWED.replace("[review]", "[review]\nmeanwhile = \"sed -i 's/^1$/one/' made.txt\""),
    )
    newel = begin(suite, with_model)
    recorded(newel, suite)
    first, second = trace_of(suite, "review")["answers"]
    assert first[0]["tool_calls"][0]["name"] == "clarify_user"
    assert first[1]["content"] == "I propose:"
    assert len(second) == 3
    metrics = replayed(newel, suite)["metrics"]
    assert (metrics["conflicts"], metrics["questions"]) == (1, 2)


@pytest.mark.slow  # a second of a core
def test_an_answer_that_cannot_be_repeated_is_named(suite: Suite, with_model: WithModel) -> None:
    """A review keeps no text of arguments that are no JSON."""
    add_review(
        suite,
        calls(("propose_edits", "{'edits'")),
        proposes((1, "made\n")),
        {"content": "Made."},
    )
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    done = record(newel)
    assert done.returncode == 1
    assert "refused" in done.stdout
    assert "answer 1 to prompt 1: the arguments of its call of propose_edits are not JSON" in done.stdout
    assert done.stdout.splitlines()[1].strip().endswith("/trials/review.1")
    assert not (suite.folder / "review" / "trace.json").exists()


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_another_trial_is_recorded_if_the_first_cannot_be(suite: Suite, with_model: WithModel) -> None:
    once = {"kind": "malformed_arguments", "times": 1}
    proposed = proposes((1, "made\n"))
    add_review(suite, {"response": proposed, "fault": once}, proposed, DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite, "-n", "2").returncode == 0, newel("eval", "show", "--failed").stdout
    done = record(newel)
    assert done.returncode == 0, done.stdout
    assert trace_of(suite, "review")["answers"][0][0]["tool_calls"][0]["name"] == "propose_edits"
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_trace_made_by_hand_is_replaced_only_by_force(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", MADE, DONE)
    golden = suite.folder / "good" / "trace.json"
    golden.write_text(json.dumps({"made_by": "hand", "answers": [[MADE_BY_HAND]]}))
    newel = begin(suite, with_model)
    run(newel, suite)
    done = record(newel)
    assert done.returncode == 1
    assert "made by hand; --force replaces it" in done.stdout
    assert trace_of(suite, "good")["made_by"] == "hand"
    assert record(newel, "--force").returncode == 0
    assert trace_of(suite, "good")["made_by"] == "mock-model"
    before = golden.stat().st_mtime_ns
    assert "unchanged" in record(newel).stdout
    assert golden.stat().st_mtime_ns == before


def test_no_secret_gets_into_a_trace(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("echo sk-test-0123456789abcdef; echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    done = record(newel)
    assert "sk-test" not in (suite.folder / "good" / "trace.json").read_text()
    assert "1 secret value masked" in done.stdout


def test_a_trace_that_does_not_prove_itself_is_not_kept(suite: Suite, with_model: WithModel) -> None:
    flag = suite.folder.parent / "flag"
    suite.add("good", bash(f"cat {flag} && echo made > made.txt"), DONE)
    flag.touch()
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    flag.unlink()
    done = record(newel)
    assert done.returncode == 1
    assert "its replay fails: file made.txt" in done.stdout
    assert not (suite.folder / "good" / "trace.json").exists()


def test_a_call_that_ends_otherwise_than_in_the_run_is_told(suite: Suite, with_model: WithModel) -> None:
    """The checks hold, but what the model read is not there in a replay."""
    flag = suite.folder.parent / "flag"
    suite.add("good", calls(("read", {"path": str(flag)})), MADE, DONE)
    flag.touch()
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    flag.unlink()
    done = record(newel)
    assert done.returncode == 1
    assert "call 1, of read, succeeded in the run, and not in its replay" in done.stdout


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_only_what_was_passed_in_this_task_is_recorded(suite: Suite, with_model: WithModel) -> None:
    suite.add("bad", DONE)
    suite.add("good", MADE, DONE)
    suite.add("new", MADE, DONE)
    newel = begin(suite, with_model)
    run(newel, suite)
    path = suite.folder / "new" / "task.toml"
    path.write_text(path.read_text().replace("It is empty.", "It has nothing in it."))
    done = record(newel)
    assert done.returncode == 1
    assert {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[:3]} == {
        "bad": "failed",
        "good": "recorded",
        "new": "refused",
    }
    assert "the task is not as it was" in done.stdout
    assert record(newel, runs(newel)[0], "good").returncode == 0
    assert "No task has the name" in record(newel, runs(newel)[0], "nosuch").stderr
    run(newel, suite, "--agent", "true {prompt}")
    assert "Newel's own" in record(newel).stderr


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_recording_that_is_killed_leaves_the_former_trace(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", bash("sleep 1.5; echo made > made.txt"), DONE)
    newel = begin(suite, with_model)
    assert run(newel, suite).returncode == 0
    temporary = newel.home / "tmp"
    temporary.mkdir()
    newel.environ["TMPDIR"] = str(temporary)
    with killed(newel.start("eval", "record")):
        wait_until(lambda: list(temporary.glob("*/*/exchanges.jsonl")), "the proof")
    assert sorted(path.name for path in (suite.folder / "good").iterdir()) == ["task.toml"]
    assert record(newel).returncode == 0
    replayed(newel, suite)


@pytest.mark.slow  # two seconds of a core: several runs of agents, each a process of its own
def test_a_run_is_resumed_after_its_tasks_were_recorded(suite: Suite, with_model: WithModel) -> None:
    """A trace is nothing that a model is given."""
    suite.add("good", MADE, DONE)
    newel = begin(suite, with_model)
    recorded(newel, suite)
    assert newel("eval", "run", "--resume", runs(newel)[0]).returncode == 0
    replayed(newel, suite)
    trace = trace_of(suite, "good")
    trace["answers"][0][1]["content"] = "Well done."
    (suite.folder / "good" / "trace.json").write_text(json.dumps(trace))
    done = newel("eval", "run", "--resume", runs(newel)[1])
    assert "has changed since the run started" in done.stderr


def golden(suite: Suite, *answers: Any) -> None:
    trace = {"made_by": "qwen3:8b", "answers": [list(answers)]}
    (suite.folder / "good" / "trace.json").write_text(json.dumps(trace))


def test_an_agent_that_asks_for_more_than_was_recorded_is_told(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", DONE)
    golden(suite, MADE_BY_HAND)
    newel = begin(suite, with_model)
    run(newel, suite, "--replay")
    (found,) = results(newel)
    assert (found["end"], found["passed"]) == ("failed", True)
    assert found["problem"] == (
        "The trace of good has 1 answer to prompt 1, and the agent asked for one more. "
        "Record it again: `newel eval run good`, then `newel eval record`."
    )


def test_answers_that_the_agent_did_not_ask_for_are_told(suite: Suite, with_model: WithModel) -> None:
    suite.add("good", DONE)
    golden(suite, MADE_BY_HAND, DONE, DONE)
    newel = begin(suite, with_model)
    done = run(newel, suite, "--replay")
    (found,) = results(newel)
    assert (found["end"], found["passed"]) == ("failed", True)
    assert found["problem"].startswith(
        "The agent asked for 2 of the 3 answers to prompt 1 in the trace of good."
    )
    assert "The agent asked for 2 of the 3 answers" in done.stdout
