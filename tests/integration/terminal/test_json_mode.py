"""If these fail, a program that drives the agent over JSON lines hangs, crashes it, or misses what happened."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newel.agent.events import AgentEvent
from newel.terminal.run_result import PromptResult
from tests.forked import Process

Run = Callable[..., subprocess.CompletedProcess[str]]


def talk(run: Run, *requests: Any, **env: str) -> list[dict[str, Any]]:
    given = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in requests)
    done = run("json", given=given, **env)
    assert done.stderr == ""
    assert done.returncode == 0
    session, *events = [json.loads(line) for line in done.stdout.splitlines()]
    assert session["type"] == "session"
    return events


def said(events: list[dict[str, Any]]) -> list[str]:
    return [
        event["message"]["content"][0]["text"]
        for event in events
        if event["type"] == "message_end"
        and event["message"]["role"] == "assistant"
        and event["message"]["content"]
    ]


def test_a_message_an_interrupt_and_a_message(run_program: Run) -> None:
    events = talk(
        run_program,
        {"type": "message", "content": "run sleep 60"},
        {"type": "interrupt"},
        {"type": "message", "content": "Count the files"},
    )
    kinds = [event["type"] for event in events]
    stopped = kinds.index("interrupted")
    assert events[kinds.index("agent_end")]["reason"] == "aborted"
    assert kinds.count("agent_end") == 2
    assert said(events[stopped:]) == ["You said: Count the files"]


def test_every_line_is_an_event_under_its_wire_names(run_program: Run) -> None:
    events = talk(run_program, {"type": "message", "content": "run echo hi"})
    for event in events[:-1]:
        msgspec.convert(event, AgentEvent)
    msgspec.convert(events[-1], PromptResult)
    start = next(event for event in events if event["type"] == "tool_execution_start")
    end = next(event for event in events if event["type"] == "tool_execution_end")
    assert (start["toolCallId"], start["toolName"], start["args"]) == ("c0", "bash", {"command": "echo hi"})
    assert (end["toolCallId"], end["isError"]) == ("c0", False)
    assert "stdout:\nhi\n" in end["result"]


def test_the_first_line_names_the_session_and_a_result_ends_each_prompt(run_program: Run) -> None:
    """A program that reads the last line alone learns whether its prompt was answered, and what the answer is."""
    given = [
        {"type": "message", "content": "run echo hi"},
        {"type": "message", "content": "fail"},
        {"type": "clear"},
        {"type": "message", "content": "hello"},
    ]
    done = run_program("json", given="".join(json.dumps(each) + "\n" for each in given))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    sessions = [line for line in lines if line["type"] == "session"]
    assert lines[0] == sessions[0]
    assert (sessions[0]["model"], sessions[0]["approve"]) == ("obedient", "auto")
    assert sessions[0]["tools"] == ["read", "bash", "edit", "write", "todo"]
    assert sessions[0]["sessionId"] in sessions[0]["file"]
    assert len({session["sessionId"] for session in sessions}) == 2  # of the start, and after the clear
    first, failed, last = [line for line in lines if line["type"] == "result"]
    assert (first["reason"], first["exitCode"], first["turns"]) == ("done", 0, 2)
    assert first["duration"] >= first["modelDuration"] > 0
    assert (failed["reason"], failed["exitCode"]) == ("error", 1)
    assert failed["message"]
    assert (last["text"], last["exitCode"]) == ("You said: hello", 0)
    assert lines[-1] == last


def test_the_result_of_an_interrupted_prompt_says_so(run_program: Run) -> None:
    events = talk(run_program, {"type": "message", "content": "run sleep 60"}, {"type": "interrupt"})
    assert (events[-1]["type"], events[-1]["reason"], events[-1]["exitCode"]) == ("result", "aborted", 130)


def test_the_result_names_the_calls_that_were_not_approved(run_program: Run) -> None:
    events = talk(run_program, {"type": "message", "content": "run touch x"}, PROGRAM_APPROVE="read-only")
    assert [call["arguments"] for call in events[-1]["denied"]] == [{"command": "touch x"}]


def test_invalid_lines_are_errors_and_do_not_end_the_session(run_program: Run) -> None:
    lines = ["junk", "[]", "{}", '{"type":"unknown"}', '{"type":"message"}', '{"type":"message","content":7}']
    lines += ["\x00\x01", "[" * 5000]
    events = talk(run_program, *lines, {"type": "message", "content": "hello"})
    errors = [event["message"] for event in events if event["type"] == "error"]
    assert [error.partition(": Invalid request: ")[0] for error in errors] == [
        f"Line {n}" for n in range(1, 9)
    ]
    assert said(events) == ["You said: hello"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r'{"type":"message","content":"\ud800"}', "a lone surrogate"),
        (r'{"type":"message","content":"\udc00 and more"}', "a lone surrogate"),
        (r'{"type":"message","content":"\ud800 and more"}', "a lone surrogate"),
        ('{"type":"message","content":"cut', "it ends too early"),
        ('{"type":"message"', "it ends too early"),
        (
            '{"type":"mesage","content":"hi"}',
            "there is no type 'mesage'; the types are approve, clear, compact, ",
        ),
        ('{"type":"message","content":" \\n"}', "content is empty"),
        ('{"type":"steer","content":""}', "content is empty"),
        ('{"type":"follow_up","content":""}', "content is empty"),
        ('{"type":"set_model","model":" "}', "set_model needs a model name"),
        ('{"type":"approve","toolCallId":"x","decision":"no"}', "No call 'x' is waiting"),
    ],
)
def test_an_error_names_the_line_and_the_reason(run_program: Run, line: str, words: str) -> None:
    events = talk(run_program, {"type": "get_state"}, line, {"type": "get_state"})
    assert [event["type"] for event in events] == ["state", "error", "state"]
    assert (events[1]["code"], events[1]["message"].partition(" ")[2][:1]) == ("bad_request", "2")
    assert words in events[1]["message"]
    assert events[2]["model"] == "obedient"


def test_a_byte_order_mark_before_the_first_request_is_ignored(run_program: Run) -> None:
    events = talk(run_program, '\ufeff{"type":"message","content":"hello"}')
    assert said(events) == ["You said: hello"]


PNG = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"content": "not base64"}, "content is not base64"),
        ({"content": "aGk"}, "content is not base64"),
        ({"content": ""}, "content is empty"),
        ({"size": -1}, "size is negative"),
        ({"mimeType": "image/svg+xml"}, "image/png, image/jpeg, image/gif, image/webp"),
        ({"preview": "not base64"}, "preview is not base64"),
    ],
)
def test_an_unreadable_attachment_is_refused_before_it_is_stored(
    run_program: Run, wrong: dict[str, Any], words: str
) -> None:
    """Once in the conversation, it would fail every later request."""
    image = {"type": "image", "fileName": "a.png", "mimeType": "image/png", "size": 8, "content": PNG}
    message = {"type": "message", "content": "look"}
    events = talk(
        run_program, {**message, "attachments": [image | wrong]}, {**message, "attachments": [image]}
    )
    assert (events[0]["type"], events[0]["code"]) == ("error", "bad_request")
    assert events[0]["message"].startswith("Line 1: The attachment 'a.png'")
    assert words in events[0]["message"]
    assert said(events) == ["You said: look"]


def test_messages_run_in_order_and_are_finished_after_the_end_of_input(run_program: Run) -> None:
    messages = [{"type": "message", "content": f"number {n}"} for n in range(3)]
    assert said(talk(run_program, *messages)) == [f"You said: number {n}" for n in range(3)]


def test_a_failing_run_does_not_end_the_following_ones(run_program: Run) -> None:
    events = talk(
        run_program, {"type": "message", "content": "fail"}, {"type": "message", "content": "hello"}
    )
    assert [event["code"] for event in events if event["type"] == "error"] == ["request_rejected"]
    assert said(events)[-1] == "You said: hello"


def test_state_model_thinking_and_new_session_requests(run_program: Run) -> None:
    events = talk(
        run_program,
        {"type": "get_state"},
        {"type": "set_model", "model": "other"},
        {"type": "set_thinking", "level": "high"},
        {"type": "message", "content": "hello"},
        {"type": "clear"},
        {"type": "compact"},
        {"type": "get_state"},
    )
    before, after = [event for event in events if event["type"] == "state"]
    assert (before["model"], before["thinkingLevel"], before["cost"]) == ("obedient", "off", None)
    assert (after["model"], after["thinkingLevel"]) == ("other", "high")
    assert [event["code"] for event in events if event["type"] == "error"] == ["nothing_to_compact"]


class Driver:
    """A program that talks with the agent, line by line."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def send(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        while True:
            event = json.loads(self.process.stdout.readline())
            if event["type"] == kind:
                return event


def test_approval_is_requested_and_answered_by_id(open_program: Callable[..., Any], tmp_path: Path) -> None:
    driver = Driver(open_program("json", PROGRAM_APPROVE="ask"))
    driver.send(type="message", content="run touch asked")
    request = driver.until("approval_request")
    assert (request["toolCallId"], request["preview"]) == ("c0", "touch asked")
    assert not (tmp_path / "project" / "asked").exists()
    driver.send(type="approve", toolCallId="nothing", decision="once")
    assert "No call 'nothing'" in driver.until("error")["message"]
    driver.send(type="approve", toolCallId="c0", decision="once")
    assert driver.until("agent_end")["reason"] == "done"
    assert (tmp_path / "project" / "asked").exists()


def test_steering_and_follow_up_messages(open_program: Callable[..., Any], tmp_path: Path) -> None:
    driver = Driver(open_program("json"))
    driver.send(type="message", content="run until [ -e go ]; do sleep 0.02; done")
    driver.until("tool_execution_start")
    driver.send(type="follow_up", content="later")
    driver.send(type="steer", content="now")
    driver.until("queue_update")
    driver.until("queue_update")
    (tmp_path / "project" / "go").touch()
    texts: list[str] = []
    while (event := driver.until("message_end"))["message"].get("content") != "later":
        texts.append(event["message"]["role"])
    assert texts[-2:] == ["user", "assistant"]
    assert driver.until("agent_end")["reason"] == "done"


def test_stop_ends_the_run_before_its_next_request(open_program: Callable[..., Any], tmp_path: Path) -> None:
    driver = Driver(open_program("json"))
    driver.send(type="message", content="run until [ -e go ]; do sleep 0.02; done")
    driver.until("tool_execution_start")
    driver.send(type="stop")
    driver.send(type="get_state")
    driver.until("state")
    (tmp_path / "project" / "go").touch()
    assert driver.until("agent_end")["reason"] == "stopped"


def test_the_end_of_input_declines_pending_approvals(run_program: Run, tmp_path: Path) -> None:
    talk(run_program, {"type": "message", "content": "run touch never"}, PROGRAM_APPROVE="ask")
    assert not (tmp_path / "project" / "never").exists()


def test_a_signal_gives_every_prompt_a_result(open_program: Callable[..., Any]) -> None:
    """Also the queued ones: a program that counts results waits for none in vain, and learns what ended them."""
    process = open_program("json")
    driver = Driver(process)
    driver.send(type="message", content="run sleep 60")
    driver.until("tool_execution_start")
    driver.send(type="message", content="hello")
    driver.send(type="get_state")
    assert driver.until("state")["waiting"] == 1
    process.send_signal(signal.SIGTERM)
    results = [driver.until("result"), driver.until("result")]
    assert [(each["reason"], each["exitCode"], each["turns"]) for each in results] == [
        ("aborted", 143, 1),
        ("aborted", 143, 0),
    ]
    assert results[1]["message"] == "Newel was stopped before this turn."
    assert process.wait(10) == 128 + signal.SIGTERM


def test_a_message_for_a_run_that_has_ended_is_not_dropped_silently(run_program: Run) -> None:
    """The program sends it while the run ends, and closes its input."""
    events = talk(run_program, {"type": "get_state"}, {"type": "follow_up", "content": "and then"})
    assert (events[-1]["type"], events[-1]["code"]) == ("error", "prompt_dropped")
    assert events[-1]["message"].endswith("was not sent, because no run took it: and then")


def test_a_closed_output_ends_it_quietly(open_program: Callable[..., Any]) -> None:
    process = open_program("json")
    driver = Driver(process)
    driver.send(type="message", content="slow")
    driver.until("message_update")
    process.stdout.close()
    assert process.wait(15) == 1
    assert process.stderr.read() == ""
