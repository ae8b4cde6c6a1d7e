"""If these fail, a program that drives Newel gets a wrong answer, none, or that of another command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mock_llm_server import running
from newel.terminal.repl.slash_commands import COMMANDS as SLASH_COMMANDS
from newel.terminal.rpc import protocol as p
from newel.terminal.rpc.queries import REQUESTS
from tests.integration.rpc.conftest import Program
from tests.support import BIN, Newel, bash, scenario

ROOT = Path(__file__).resolve().parents[3]
Open = Callable[..., Program]

EACH: dict[str, dict[str, Any]] = {
    "prompt": {"text": "hello there"},
    "steer": {"text": "now"},
    "follow_up": {"text": "later"},
    "stop": {},
    "abort": {},
    "approve": {"toolCallId": "c", "decision": "no"},
    "state": {},
    "messages": {"limit": 1},
    "model": {"model": "other"},
    "models": {},
    "thinking": {"level": "low"},
    "agent_mode": {"mode": "remote"},
    "compact": {},
    "sessions": {"all": True, "limit": 3},
    "switch_session": {"session": "zzzz"},
    "name_session": {"name": "mine"},
    "fork": {},
    "stats": {},
    "export": {"html": True},
    "commands": {},
    "changes": {},
    "decide": {"verdict": "keep", "all": True},
    "undo": {"preview": True},
    "new_session": {},
}
REFUSED = {"approve": "bad_request", "switch_session": "session_error", "undo": "nothing_to_undo"}


def test_each_command_is_answered_once_under_its_id_as_the_schema_says(open_rpc: Open) -> None:
    """A program matches responses by id; a missing or second one stalls or confuses it."""
    assert set(EACH) == {p.name_of(command) for command in p.COMMANDS}
    program = open_rpc()
    for name, fields in EACH.items():
        program.send(name, f"id of {name}", **fields)
    assert program.end() == 0
    responses = [line for line in program.lines if line["type"] == "response"]
    assert sorted(line["id"] for line in responses) == sorted(f"id of {name}" for name in EACH)
    for line in responses:
        assert line["id"] == f"id of {line['command']}"
        code = REFUSED.get(line["command"])
        assert line["success"] is (code is None), line
        assert code is None or line["error"]["code"] == code
    schema = json.loads((ROOT / "docs" / "rpc.schema.json").read_text())
    validator: Any = jsonschema.Draft202012Validator(schema)
    for line in program.lines:
        assert validator.is_valid(line), line


@pytest.mark.parametrize("request_id", ["a", "", 7, -1, 2.5, 1e300, None])
def test_an_id_is_repeated_as_it_was(open_rpc: Open, request_id: Any) -> None:
    program = open_rpc()
    program.send("state", request_id)
    assert program.event("response")["id"] == request_id
    assert program.end() == 0


def test_the_response_to_a_prompt_comes_when_its_message_is_saved(open_rpc: Open, newel: Newel) -> None:
    """Else a crash could lose what the program was told is accepted."""
    program = open_rpc()
    response = program.ask("prompt", text="wait for go")
    assert response["data"]["queued"] is False
    (session,) = newel.sessions
    assert response["data"]["messageId"] in session.read_text()
    second = program.ask("prompt", text="hello there")
    assert second["data"]["queued"] is True
    assert program.ask("state")["data"]["waiting"] == 1
    (newel.project / "go").touch()
    assert program.end() == 0
    users = [
        line["message"]["id"]
        for line in program.lines
        if line["type"] == "message_end" and line["message"]["role"] == "user"
    ]
    assert users[-1] == second["data"]["messageId"]


def test_the_events_are_those_of_json_mode(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc("--ephemeral")
    program.send("prompt", 1, text="touch the file")
    assert program.end() == 0
    message = {"type": "message", "content": "touch the file"}
    other = newel("--json", "--ephemeral", stdin=json.dumps(message) + "\n")
    events = [json.loads(line) for line in other.stdout.splitlines()]
    mine = [line for line in program.lines if line["type"] != "response"]
    known = {line["type"] for line in mine}
    assert [set(line) for line in mine] == [set(event) for event in events if event["type"] in known]


def test_a_run_is_steered_followed_up_and_stopped(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    program.ask("prompt", text="wait for go")
    program.event("tool_execution_update")
    later = program.ask("follow_up", text="later")["data"]["messageId"]
    now = program.ask("steer", text="now")["data"]["messageId"]
    assert [program.ask("state")["data"][name] for name in ("steer", "followUp")] == [1, 1]
    (newel.project / "go").touch()
    taken = [program.until(is_users)["message"]["id"] for _ in range(2)]
    assert taken == [now, later]
    program.event("agent_end")
    (newel.project / "go").unlink()
    program.ask("prompt", text="wait for go")
    program.event("tool_execution_update")
    assert program.ask("stop")["data"] == {"running": True}
    (newel.project / "go").touch()
    assert program.event("agent_end")["reason"] == "stopped"
    assert program.ask("stop")["data"] == {"running": False}


def is_users(line: dict[str, Any]) -> bool:
    return line["type"] == "message_end" and line["message"]["role"] == "user"


def test_an_abort_ends_the_turn_and_the_next_one_follows(open_rpc: Open) -> None:
    program = open_rpc()
    program.ask("prompt", text="sleep for long")
    program.event("tool_execution_update")
    program.ask("prompt", text="hello there")
    program.send("abort", "abort")
    assert program.event("agent_end")["reason"] == "aborted"
    assert program.event("agent_end")["reason"] == "done"
    assert program.ask("abort")["data"] == {"running": False}


def test_a_command_that_is_aborted_is_answered(open_rpc: Open) -> None:
    """A summary can take minutes, and the program waits for its response."""
    program = open_rpc()
    program.ask("prompt", text="hello there")
    program.event("agent_end")
    program.send("compact", "slow", instructions="slowly, please")
    while program.ask("state")["data"]["waiting"]:
        pass  # until it runs: the prompt's turn ends a moment after its last event
    assert program.ask("abort")["data"] == {"running": True}
    assert program.event("response")["error"]["code"] == "aborted"
    assert program.ask("messages")["data"]["total"] == 2


def test_a_fork_begins_as_a_copy_up_to_a_message(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    for text in ("touch the file", "hello there"):
        program.ask("prompt", text=text)
        program.event("agent_end")
    original = program.ask("state")["data"]["sessionId"]
    messages = program.ask("messages")["data"]["messages"]
    assert [message["role"] for message in messages] == [
        "user", "assistant", "toolResult", "assistant", "user", "assistant",
    ]  # fmt: skip
    for at, before, length in ((1, False, 3), (4, True, 4), (4, False, 5), (5, False, 6)):
        forked = program.ask("fork", messageId=messages[at]["id"], before=before)["data"]
        assert forked["messageCount"] == length, at
        copied = program.ask("messages")["data"]["messages"]
        assert [message["id"] for message in copied] == [message["id"] for message in messages[:length]]
        assert Path(forked["sessionFile"]).is_file()
        program.ask("switch_session", session=original)
    assert program.ask("fork")["data"]["messageCount"] == 6
    refused = program.ask("fork", messageId="nothing")
    assert "There is no message 'nothing'" in refused["error"]["message"]
    program.ask("prompt", text="hello there")
    program.event("agent_end")
    assert program.end() == 0
    assert len(newel.sessions) == 6
    assert newel("export", original).stdout.count("Hello from the model.") == 1  # the original is as it was


def test_pending_changes_are_kept_and_rejected(open_rpc: Open, newel: Newel) -> None:
    file = newel.project / "a.txt"
    file.write_text("one\n")
    program = open_rpc("--approve", "review")
    program.ask("prompt", text="change the file")
    program.event("agent_end")
    changes = program.ask("changes")["data"]
    (pending,) = changes["pending"]
    (hunk,) = pending["hunks"]
    assert (pending["filePath"], hunk["state"]) == ("a.txt", "pending")
    assert "+two" in hunk["patch"]
    assert changes["runs"][0]["title"] == "change the file"
    assert program.ask("decide", verdict="reject")["error"]["code"] == "bad_request"
    assert program.ask("decide", verdict="keep", names=["h_nothing"])["error"]["code"] == "unknown_hunk"
    rejected = program.ask("decide", verdict="reject", names=[hunk["hunkId"][:6]])["data"]
    assert (rejected["decided"], rejected["written"]) == ([hunk["hunkId"]], [])
    assert file.read_text() == "one\n"
    program.ask("prompt", text="change the file")
    program.event("agent_end")
    kept = program.ask("decide", verdict="keep", names=["a.txt"])["data"]
    assert (len(kept["decided"]), kept["written"], kept["left"]) == (1, ["a.txt"], [])
    assert file.read_text() == "two\n"


def test_the_last_run_is_undone_and_redone(open_rpc: Open, newel: Newel) -> None:
    file = newel.project / "a.txt"
    file.write_text("one\n")
    program = open_rpc()
    program.ask("prompt", text="change the file")
    program.event("agent_end")
    plan = program.ask("undo", preview=True)["data"]
    assert (plan["done"], plan["redo"], [each["path"] for each in plan["files"]]) == (False, False, ["a.txt"])
    assert file.read_text() == "two\n"
    assert program.ask("undo")["data"]["done"] is True
    assert file.read_text() == "one\n"
    assert program.ask("undo")["error"]["code"] == "nothing_to_undo"
    again = program.ask("undo", redo=True)["data"]
    assert (again["done"], again["redo"]) == (True, True)
    assert file.read_text() == "two\n"
    run = program.ask("changes")["data"]["runs"][-1]
    program.ask("undo", checkpoint=run["checkpointId"][:6])
    assert program.ask("undo", checkpoint="cp_nothing")["error"]["code"] == "unknown_checkpoint"


def test_without_recording_there_is_nothing_to_undo(open_rpc: Open, newel: Newel) -> None:
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text("[review]\nrecord = false\n")
    program = open_rpc()
    assert program.ask("undo")["error"]["code"] == "not_recorded"


def test_an_export_is_a_file_or_text_without_secrets(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc()
    assert program.ask("export")["error"]["code"] == "session_error"
    key = newel.environ["LLM_AUTH_TOKEN"]
    program.ask("prompt", text=f"hello there, {key}")
    program.event("agent_end")
    exported = program.ask("export")["data"]
    assert (key in exported["text"], exported["masked"]) == (False, 1)
    written = program.ask("export", path="talk.html")["data"]
    assert written["path"] == str(newel.project / "talk.html")
    assert key not in (newel.project / "talk.html").read_text()
    assert "exists already" in program.ask("export", path="talk.html")["error"]["message"]
    assert key in program.ask("export", unmasked=True)["data"]["text"]


def test_a_session_that_is_open_elsewhere_is_refused_with_a_code(open_rpc: Open) -> None:
    """Two writers would tear a session's file."""
    first = open_rpc()
    first.ask("prompt", text="hello there")
    first.event("agent_end")
    session = first.ask("state")["data"]["sessionId"]
    second = open_rpc()
    refused = second.ask("switch_session", session=session)
    assert refused["error"]["code"] == "session_in_use"
    assert second.ask("state")["data"]["sessionId"] != session
    third = open_rpc("--session", session)
    assert third.event("error")["code"] == "session_in_use"
    assert third.end() == 1
    assert first.end() == 0
    assert second.ask("switch_session", session=session)["data"]["messageCount"] == 2


def test_an_approval_is_asked_for_and_answered(open_rpc: Open, newel: Newel) -> None:
    program = open_rpc("--approve", "ask")
    program.ask("prompt", text="touch the file")
    asked = program.event("approval_request")
    assert asked["preview"] == "touch touched"
    assert program.ask("state")["data"]["pendingApprovals"] == [asked["toolCallId"]]
    assert program.ask("approve", toolCallId="nothing", decision="once")["success"] is False
    assert not (newel.project / "touched").exists()
    program.ask("approve", toolCallId=asked["toolCallId"], decision="once")
    program.event("agent_end")
    assert (newel.project / "touched").exists()


def test_a_prompt_is_verbatim_unless_it_is_to_be_expanded(open_rpc: Open, newel: Newel) -> None:
    """Text of others must not attach the user's files."""
    prompts = newel.project / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "greet.md").write_text("hello there, $1")
    (newel.project / "note.txt").write_text("the note")
    program = open_rpc()
    listed = {each["name"]: each for each in program.ask("commands")["data"]["commands"]}
    assert (listed["greet"]["kind"], listed["compact"]["request"]) == ("template", "compact")
    for expand, expected in ((False, "/greet @note.txt"), (True, "hello there")):
        program.send("prompt", text="/greet @note.txt", expand=expand)
        message = program.until(is_users)["message"]
        assert message["content"].startswith(expected)
        assert ("attachments" in message) is expand
        program.event("agent_end")


def test_each_listed_command_names_a_request_that_exists() -> None:
    assert REQUESTS.keys() <= {command.name for command in SLASH_COMMANDS}
    assert set(REQUESTS.values()) <= {p.name_of(command) for command in p.COMMANDS}


def test_an_agents_command_cannot_decide_through_it(tmp_path: Path) -> None:
    """The pending changes may be another agent's; only the user decides."""
    lines = '{"type":"decide","verdict":"keep","all":true}\\n{"type":"undo"}\\n'
    model = "--base-url http://127.0.0.1:9 --model m"  # the command does not get the settings
    command = bash(f"printf '{lines}' | {BIN / 'newel'} rpc {model}")
    with running(scenario("work", command, {"content": "Done."})) as server:
        newel = Newel(tmp_path, server)
        assert newel("work").returncode == 0
        heard = newel.requests[-1]["messages"][-1]["content"]
    assert heard.count("is a decision of the user") == 2
