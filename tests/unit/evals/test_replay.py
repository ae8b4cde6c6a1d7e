"""If these fail, a golden trace is not what is replayed, or a change of what the model is sent goes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from newel.evals.golden import GoldenAnswer, GoldenCall, load_trace
from newel.evals.replay import EXCHANGES
from newel.evals.requests import compare_requests, read_sent
from newel.evals.run import trial_folder
from newel.evals.task import TaskError, load_task
from tests.unit.evals.test_task import GOOD, write


def golden(folder: Path, **fields: Any) -> None:
    whole = {"made_by": "hand", "answers": [[{"content": "Done."}]]} | fields
    (folder / "trace.json").write_text(json.dumps(whole))


def test_without_a_trace_the_reference_is_replayed(tmp_path: Path) -> None:
    place = write(tmp_path, GOOD.replace("[reference]", '[reference]\nrun = "true"\nanswer = "Hello."'))
    trace = load_trace(load_task(place))
    assert trace.made_by == "reference"
    assert trace.answers[0] == [
        GoldenAnswer(tool_calls=[GoldenCall("write", {"path": "hello.txt", "content": "hello"})]),
        GoldenAnswer(tool_calls=[GoldenCall("bash", {"command": "true"})]),
        GoldenAnswer(content="Hello."),
    ]


def test_a_trace_has_answers_to_each_prompt(tmp_path: Path) -> None:
    place = write(tmp_path, GOOD.replace("\n[files]", '\nthen = ["And now?"]\n[files]'))
    golden(place, answers=[[{"content": "One."}], [{"content": "Two."}]])
    assert len(load_trace(load_task(place)).answers) == 2
    golden(place)
    with pytest.raises(TaskError, match=r"trace\.json has answers to 1 prompt; the task has 2"):
        load_trace(load_task(place))


def test_a_slip_in_a_trace_is_told_with_its_place(tmp_path: Path) -> None:
    place = write(tmp_path, GOOD)
    golden(place, answers=[[{"text": "Done."}]])
    with pytest.raises(TaskError, match=r"trace\.json: .*unknown field `text` - at `\$\.answers\[0\]\[0\]`"):
        load_trace(load_task(place))


def sent(
    run: Path, task: str, *, system: str = "You help.", tool: str = "Edit a file.", result: str = "ok"
) -> None:
    place = trial_folder(run, task, 1)
    place.mkdir(parents=True)
    messages = [{"role": "system", "content": f"{system} Today is 2026-11-27. You are in {place}/project."}]
    first = {"messages": [*messages, {"role": "user", "content": "Go."}]}
    last = {
        "messages": [*first["messages"], {"role": "tool", "content": result}],
        "tools": [{"type": "function", "function": {"name": "edit", "description": tool}}],
    }
    lines = [{"request": {"body": body}} for body in (first, last)]
    (place / EXCHANGES).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_what_differs_in_requests_is_named_once_for_all_tasks(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for task in ("one", "two"):
        sent(before, task)
        sent(
            after, task, system="You help a lot.", tool="Edit files.", result="ok" if task == "one" else "no"
        )
    found = {
        change.what: (change.tasks, change.diff) for change in compare_requests(["one", "two"], before, after)
    }
    assert found["system prompt"] == (
        ["one", "two"],
        [
            "-You help. Today is …. You are in TRIAL/project.",
            "+You help a lot. Today is …. You are in TRIAL/project.",
        ],
    )
    assert found["tool edit"][0] == ["one", "two"]
    assert found["result of call 1"] == (["two"], ["-ok", "+no"])


def test_dates_durations_and_folders_are_no_difference(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    sent(
        before,
        "one",
        result=f"{trial_folder(before, 'one', 1)}/project: done in 1.5 s on 2026-11-27T10:00:00.123Z",
    )
    sent(
        after,
        "one",
        result=f"{trial_folder(after, 'one', 1)}/project: done in 12 ms on 2026-12-01T11:00:00.000Z",
    )
    assert compare_requests(["one"], before, after) == []


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("-rw-r--r-- 1 a a 403 Nov 27 19:12 slug.py", "-rw-r--r-- 1 a a 403 Dec  1 08:05 slug.py"),
        ("real\t0m6.211s", "real\t1m13.9s"),
        ("--- a.md\t2026-11-27 19:12:58.049551946 +0000", "--- a.md\t2026-12-01 08:05:01.1 +0100"),
        ("3f1c2ab Fix the total", "9be07d4 Fix the total"),
    ],
    ids=["ls", "time", "diff", "commit"],
)
def test_what_programs_print_of_the_time_is_no_difference(tmp_path: Path, then: str, now: str) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    sent(before, "one", result=then)
    sent(after, "one", result=now)
    assert compare_requests(["one"], before, after) == []


def test_a_difference_in_a_diff_is_shown_whole(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    sent(before, "one", result="--- old\n+++ new\nsize 1234567")
    sent(after, "one", result="--- old\n+++ newer\nsize 1234568")
    (change,) = compare_requests(["one"], before, after)
    assert change.diff == [" --- old", "-+++ new", "-size 1234567", "++++ newer", "+size 1234568"]


def test_a_trial_that_was_no_replay_has_nothing_to_compare(tmp_path: Path) -> None:
    assert read_sent(tmp_path) is None
    assert compare_requests(["one"], tmp_path, tmp_path) == []
