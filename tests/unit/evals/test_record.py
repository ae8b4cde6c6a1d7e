"""If these fail, a trace is made of answers that no replay can give again, or names a folder of somebody's machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from newel.evals.golden import GoldenAnswer, GoldenCall, GoldenTrace, describe_sources, load_trace, save_trace
from newel.evals.record import RecordError, TraceRecorder
from newel.evals.task import Task, load_task
from tests.unit.evals.test_task import GOOD, write

SAID = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "model": "m"}


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(write(tmp_path, GOOD))


def ended(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message_end", "message": message}


def piece(text: str, name: str = "") -> dict[str, Any]:
    delta = {"type": "toolcall_delta", "index": 0, "name": name, "delta": text}
    return {"type": "message_update", "assistantMessageEvent": delta}


def called(name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    call = {"type": "toolCall", "id": "c1", "name": name, "arguments": arguments, **more}
    return ended({"role": "assistant", "content": [call], "model": "m"})


def read(task: Task, place: Path, *events: dict[str, Any]) -> GoldenTrace:
    place.mkdir()
    (place / "trace.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    trial, _ = TraceRecorder([], [place.parent / "home"]).read(task, place)
    return trial.trace


def test_a_call_is_taken_as_the_model_wrote_it(task: Task, tmp_path: Path) -> None:
    """Newel understands other names and fields, too; a replay must show that it still does."""
    given = {"file_path": "a.txt"}
    trace = read(
        task, tmp_path / "t", piece("", "Read"), piece('{"path": '), piece('"a.txt"}'), called("read", given)
    )
    assert trace.answers == [[GoldenAnswer(tool_calls=[GoldenCall("Read", {"path": "a.txt"})])]]


def test_what_came_before_a_retry_is_void(task: Task, tmp_path: Path) -> None:
    trace = read(
        task,
        tmp_path / "t",
        piece('{"path": "a', "read"),
        {"type": "retry", "attempt": 2},
        piece('{"path": "b"}', "read"),
        called("read", {"path": "b"}),
    )
    assert trace.answers[0][0].tool_calls == [GoldenCall("read", {"path": "b"})]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (called("bash", {}, problem="its arguments are not valid JSON"), "call of bash are not JSON"),
        (
            ended(SAID | {"stopReason": "error", "errorMessage": "no route"}),
            "answer 1 to prompt 1 broke off: no route",
        ),
        (
            ended({"role": "custom", "name": "compaction", "data": {"problem": "No model summarized it."}}),
            "Summary 1 of the conversation: No model summarized it.",
        ),
        ({"type": "agent_start"}, "prompt without an answer"),
    ],
)
def test_what_cannot_be_given_again_is_refused(
    task: Task, tmp_path: Path, event: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RecordError, match=reason):
        read(task, tmp_path / "t", event)


def test_a_folder_of_this_machine_is_refused(task: Task, tmp_path: Path) -> None:
    """The trial's own is replaced, also where its name is the beginning of another one."""
    own, other = tmp_path / "trials.1", tmp_path / "home"
    inside = called("read", {"path": f"{own}/project/a", "also": f"{own}2"})
    assert read(task, own, inside).answers[0][0].tool_calls[0].arguments == {
        "path": "/newel-trial/project/a",
        "also": f"{own}2",
    }
    with pytest.raises(RecordError, match=f"names {other}"):
        read(task, tmp_path / "t2", called("read", {"path": f"{other}/.ssh/config"}))
    with pytest.raises(RecordError, match="contains /newel-trial"):
        read(task, tmp_path / "t3", called("read", {"path": "/newel-trial/x"}))


def test_a_trace_is_written_for_people_and_once(task: Task) -> None:
    trace = GoldenTrace(made_by="m", made_on="2026-11-27", answers=[[GoldenAnswer(content="Ä.")]])
    assert save_trace(task, trace)
    path = task.folder / "trace.json"
    assert '\n  "answers": [\n' in path.read_text()
    assert path.stat().st_mode == (task.folder / "task.toml").stat().st_mode
    assert load_trace(task) == trace
    assert not save_trace(task, GoldenTrace(made_by="m", made_on="2026-11-28", answers=trace.answers))
    assert load_trace(task) == trace


def test_sources_are_counted() -> None:
    traces = {"a": "hand", "b": "qwen3:8b", "c": "reference", "d": "qwen3:8b", "e": ""}
    assert describe_sources(traces) == "Answers: 2 tasks of qwen3:8b, 1 by hand, 1 from references, 1 none."
    assert describe_sources({"a": "reference"}) == "Answers: 1 task from references."


def test_a_trace_of_another_place_is_not_recorded(task: Task, tmp_path: Path) -> None:
    said = json.dumps(ended({"role": "assistant", "content": [{"type": "text", "text": "PRIVATE"}]}))
    (tmp_path / "private.jsonl").write_text(said + '\n{"type": "result"}\n')
    (place := tmp_path / "t").mkdir()
    (place / "trace.jsonl").symlink_to(tmp_path / "private.jsonl")
    with pytest.raises(RecordError, match="there is a link on its way"):
        TraceRecorder([], []).read(task, place)
