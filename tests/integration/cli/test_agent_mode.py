"""If these fail, private work leaves the machine, or a run that the small model cannot do is lost."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import MockServer, running
from tests.driver import Driver
from tests.integration.review.served_review import line, proposes, served_review
from tests.requirements import require_program
from tests.support import BIN, Newel, scenario

Make = Callable[..., Newel]

BROKEN: dict[str, Any] = {
    "tool_calls": [{"function": {"name": "write", "arguments": '{"file_path": "notes'}}]
}
WRITE: dict[str, Any] = {
    "tool_calls": [
        {"function": {"name": "write", "arguments": {"file_path": "notes.md", "content": "# Notes\n"}}}
    ]
}


@pytest.fixture
def small() -> Iterator[MockServer]:
    """A local model that cannot write a call."""
    with running(scenario("notes", BROKEN, BROKEN, BROKEN, BROKEN), strict=True) as server:
        yield server


def two_models(newel: Newel, small: MockServer) -> None:
    folder = newel.home / ".newel"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(f'[local]\nbase_url = "{small.url}/v1"\nmodel = "small"\n')


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def chats(server: MockServer) -> int:
    return sum(request["path"].endswith("/chat/completions") for request in server.requests)


def test_a_stuck_run_is_finished_by_the_remote_model(with_model: Make, small: MockServer) -> None:
    newel = with_model(
        scenario("notes", {"content": "not this"}, {"content": "nor this"}, WRITE, {"content": "Written."})
    )
    two_models(newel, small)
    done = newel("--agent-mode", "hybrid_auto", "--renderer", "json", "write the notes")
    assert (newel.project / "notes.md").read_text() == "# Notes\n"
    routed = [
        (event["place"], event["model"], event["reason"])
        for event in events(done.stdout)
        if event["type"] == "model_routed"
    ]
    assert routed == [
        ("local", "small", "the run begins locally"),
        ("remote", "mock-model", "2 steps in a row had calls that cannot be executed"),
    ]
    assert chats(small) == 2
    messages = newel.requests[0]["messages"]
    assert [message["role"] for message in messages[1:]] == ["user", "assistant", "tool", "assistant", "tool"]


def test_the_reason_is_shown_to_the_user(with_model: Make, small: MockServer) -> None:
    newel = with_model(scenario("notes", {"content": "a"}, {"content": "b"}, {"content": "Done."}))
    two_models(newel, small)
    done = newel("--agent-mode", "hybrid_auto", "write the notes")
    assert "Using the local model small: the run begins locally." in done.stderr
    assert "Using the remote model mock-model: 2 steps in a row" in done.stderr


def test_a_local_server_that_is_down_is_replaced(with_model: Make, small: MockServer) -> None:
    newel = with_model(scenario("hello", {"content": "Hello from afar."}))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(
        'agent_mode = "hybrid_auto"\n[local]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "small"\n'
    )
    done = newel("hello")
    assert "Hello from afar." in done.stdout
    assert "the local model failed: No connection to http://127.0.0.1:9/v1" in done.stderr


def test_local_work_asks_only_the_local_model(with_model: Make) -> None:
    newel = with_model(scenario("hello", {"content": "never"}))
    with running(scenario("hello", {"content": "Hello from here."})) as local:
        two_models(newel, local)
        done = newel("hello", NEWEL_AGENT_MODE="local")
    assert "Hello from here." in done.stdout
    assert newel.requests == []


@pytest.mark.parametrize("address", ["https://api.example/v1", "http://10.0.0.7:8080/v1"])
def test_local_work_refuses_an_address_elsewhere(with_model: Make, address: str) -> None:
    newel = with_model(scenario("hello", {"content": "never"}))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(f'[local]\nbase_url = "{address}"\nmodel = "x"\n')
    done = newel("--agent-mode", "local", "hello")
    assert done.returncode != 0
    assert (
        f"agent_mode is local, but {address} ([local] in config.toml) is not on this machine." in done.stderr
    )


def test_local_work_opens_no_socket_but_loopback(with_model: Make, tmp_path: Path) -> None:
    """Watched from outside, with every system call."""
    strace = require_program("strace")
    newel = with_model(scenario("hello", {"content": "never"}))
    newel.environ["LLM_BASE_URL"] = "https://api.example/v1"
    trace = tmp_path / "trace"
    with running(scenario("hello", {"content": "Hello from here."})) as local:
        two_models(newel, local)
        tools = {"mcpServers": {"docs": {"url": "https://mcp.example/mcp"}}}
        (newel.home / ".newel" / "mcp_config.json").write_text(json.dumps(tools))
        watched = [strace, "-f", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace)]
        done = subprocess.run(
            [*watched, str(BIN / "newel"), "--agent-mode", "local", "hello"],
            cwd=newel.project,
            env=newel.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "Hello from here." in done.stdout
    addresses = re.findall(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', trace.read_text())
    assert addresses
    assert {four or six for four, six in addresses} <= {"127.0.0.1", "::1"}
    assert "The MCP server docs is not used: agent_mode is local" in done.stderr


def test_a_switch_to_local_work_ends_all_traffic_elsewhere(
    with_model: Make, drive: Callable[..., Driver], tmp_path: Path
) -> None:
    """Watched from outside: from the switch on no byte may leave, not even for a summary by the small model."""
    strace = require_program("strace")
    newel = with_model(scenario("hello", {"content": "never"}))
    for name in ("LLM_BASE_URL", "LLM_AUTH_TOKEN", "LLM_DEFAULT_MODEL"):
        del newel.environ[name]
    trace = tmp_path / "trace"
    with running(scenario("hello", {"content": "Hello from here."}, {"content": "And again."})) as local:
        two_models(newel, local)
        config = newel.home / ".newel" / "config.toml"
        elsewhere = 'base_url = "https://api.example/v1"\nmodel = "large"\nsmall_model = "summaries"\n'
        config.write_text(elsewhere + config.read_text())
        driver = drive(newel, under=[strace, "-f", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace)])
        driver.send(type="set_agent_mode", mode="local")
        for _ in range(2):
            driver.send(type="message", content="hello")
            driver.until("agent_end")
        driver.send(type="compact")
        assert driver.finish() == 0
        assert chats(local) == 3
    addresses = re.findall(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', trace.read_text())
    assert addresses
    assert {four or six for four, six in addresses} <= {"127.0.0.1", "::1"}


def test_a_program_switches_the_mode_and_reads_it(with_model: Make, drive: Callable[..., Driver]) -> None:
    newel = with_model(scenario("hello", {"content": "Hello from afar."}))
    with running(scenario("hello", {"content": "Hello from here."})) as local:
        two_models(newel, local)
        driver = drive(newel)
        driver.send(type="set_agent_mode", mode="cloud")
        error = driver.until("error")
        assert "There is no agent mode 'cloud'. It is one of local, remote, hybrid_auto." in error["message"]
        for mode, model in [("local", "small"), ("remote", "mock-model")]:
            driver.send(type="set_agent_mode", mode=mode)
            driver.send(type="get_state")
            state = driver.until("state")
            assert (state["agentMode"], state["model"]) == (mode, model)
            driver.send(type="message", content="hello")
            driver.until("agent_end")
        assert (chats(local), len(newel.requests)) == (1, 1)
        routed = [event for event in driver.seen if event["type"] == "model_routed"]
        assert [(event["place"], event["reason"]) for event in routed] == [("local", "agent_mode is local")]


def test_a_mode_without_its_model_is_refused_and_the_chat_goes_on(
    with_model: Make, drive: Callable[..., Driver]
) -> None:
    newel = with_model(scenario("hello", {"content": "Hello from afar."}))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text('[local]\nbase_url = "http://10.0.0.7/v1"\n')
    driver = drive(newel)
    driver.send(type="set_agent_mode", mode="local")
    assert "agent_mode is local, but http://10.0.0.7/v1" in driver.until("error")["message"]
    driver.send(type="message", content="hello")
    assert driver.until("agent_end")["reason"] == "done"
    assert len(newel.requests) == 1


def test_a_review_job_works_in_the_mode_of_its_request(with_model: Make) -> None:
    newel = with_model(scenario("Translate", {"content": "never"}))
    (newel.project / "notes.md").write_text("one\n")
    edit = proposes(line("notes.md", 1, "eins\n"))
    with running(scenario("Translate", edit, {"content": "Done."}), strict=True) as local:
        two_models(newel, local)
        with served_review(newel) as at:
            session = at.post("/sessions")["session_id"]
            request = {"session_id": session, "instruction": "Translate"}
            status, answer = at.ask("POST", "/run", request | {"agent_mode": "cloud"})
            job = at.settled(at.post("/run", **request, agent_mode="local")["job_id"])
            recorded = at.get(f"/jobs/{job['id']}/events", cursor=0)["events"]
    assert (status, answer["error"]["code"]) == (400, "bad_request")
    assert "It is one of local, remote, hybrid_auto." in answer["error"]["message"]
    assert (job["status"], job["agent_mode"]) == ("awaiting_review", "local")
    assert newel.requests == []
    (started,) = [event["data"] for event in recorded if event["type"] == "job.started"]
    assert (started["agent_mode"], started["model"]) == ("local", "small")
    (routed,) = [event["data"] for event in recorded if event["type"] == "model.routed"]
    assert (routed["place"], routed["reason"]) == ("local", "agent_mode is local")


def test_a_review_job_records_which_model_worked_and_why(with_model: Make) -> None:
    """Its trace would not tell why a job cost money."""
    wrong = proposes({"file_path": "notes.md", "operation": "replace"})
    newel = with_model(
        scenario(
            "Translate",
            {"content": "a"},
            {"content": "b"},
            proposes(line("notes.md", 1, "eins\n")),
            {"content": "Done."},
        )
    )
    (newel.project / "notes.md").write_text("one\n")
    with running(scenario("Translate", wrong, wrong, wrong), strict=True) as local:
        two_models(newel, local)
        newel.environ["NEWEL_AGENT_MODE"] = "hybrid_auto"
        with served_review(newel) as at:
            job = at.settled(at.start("Translate"))
            recorded = at.get(f"/jobs/{job['id']}/events", cursor=0)["events"]
    assert job["status"] == "awaiting_review"
    routed = [event["data"] for event in recorded if event["type"] == "model.routed"]
    assert [(data["place"], data["model"]) for data in routed] == [
        ("local", "small"),
        ("remote", "mock-model"),
    ]
    assert routed[1]["reason"] == "2 steps in a row had calls that cannot be executed"
