"""If these fail, an example of the documentation does not work for the user who starts it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.served import served, wait_until
from tests.support import BIN, Newel, bash, scenario

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Make = Callable[..., Newel]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def scenarios(*several: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": [each for one in several for each in one["scenarios"]]}


def begin(newel: Newel, example: str, *words: str) -> subprocess.Popen[str]:
    """Start an example in a Newel's project, as its first lines say."""
    return subprocess.Popen(
        [sys.executable, "-u", os.fspath(EXAMPLES / f"{example}.py"), *words],
        cwd=newel.project,
        env=newel.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(newel: Newel, example: str, *words: str) -> str:
    """What it prints."""
    with begin(newel, example, *words) as process:
        try:
            said = process.communicate(timeout=20)[0]
        finally:
            process.kill()
    assert process.returncode == 0, said
    return said


def tool_results(newel: Newel) -> list[str]:
    return [message["content"] for message in newel.requests[-1]["messages"] if message["role"] == "tool"]


def test_each_example_is_in_the_list_and_has_a_test() -> None:
    listed = re.findall(r"^- \[`(\w+)\.py`\]\(\1\.py\): ", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"serving"}
    assert set(listed) == programs
    tests = Path(__file__).read_text()
    assert [name for name in programs if f', "{name}"' not in tests] == []


def test_a_tool_of_the_program_answers_the_model(with_model: Make) -> None:
    newel = with_model(
        scenario("ticket", call("ticket", number=7), call("ticket", number=9), {"content": "I see."})
    )
    assert "I see." in run(newel, "custom_tool", "Read", "the", "ticket")
    assert tool_results(newel) == ["The greeting lacks an exclamation mark.", "There is no ticket 9."]


def test_a_provider_of_the_program_is_asked(with_model: Make) -> None:
    said = run(with_model(), "custom_provider", "How long is this?")
    assert said == "That prompt has 4 words.\ndone: 9 tokens\n"


def test_the_model_sees_the_kinds_of_messages_that_have_a_text(with_model: Make) -> None:
    newel = with_model(scenario("title", {"content": "It is."}))
    said = run(newel, "custom_messages", "Is the title good?")
    assert said == "[artifact] report.md\n[notification] The report is saved.\nIt is.\n"
    sent = [message["content"] for message in newel.requests[0]["messages"] if message["role"] == "user"]
    assert "Seven ways to count to six" in sent[0]
    assert sent[1:] == ["Is the title good?"]


def test_an_agent_asks_another_one_that_cannot_change_anything(with_model: Make) -> None:
    lead = scenario(
        "hello world",
        call("write", file_path="hello.py", content="print('Hello')\n"),
        call("ask_reviewer", question="Look at hello.py."),
        {"content": "Reviewed."},
    )
    reviewer = scenario("Look at", bash("rm hello.py"), {"content": "It greets."})
    newel = with_model(scenarios(lead, reviewer))
    said = run(newel, "multi_agent", "Write a hello world")
    assert "changed: hello.py" in said
    assert tool_results(newel)[-1] == "It greets."
    assert (newel.project / "hello.py").exists()
    assert len(newel.sessions) == 1


def test_an_editor_approves_watches_and_cancels(with_model: Make) -> None:
    writes = call("write", file_path="a.txt", content="a\n")
    go = scenario("go", writes, {"content": "Written."})
    newel = with_model(scenarios(go, scenario("wait", bash("touch begun; sleep 60"), {"content": "Late."})))
    with begin(newel, "editor_client", ".") as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def read_until(words: str) -> str:
            seen = ""
            while words not in seen:
                line = process.stdout.readline() if process.stdout else ""
                assert line, f"waited in vain for {words!r} in {seen!r}"
                seen += line
            return seen

        def type_line(text: str) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{text}\n")
            process.stdin.flush()

        try:
            type_line("go")
            read_until("Allow Write")
            type_line("no")
            assert "Written." in read_until("Ended: done")
            assert not (newel.project / "a.txt").exists()
            type_line("wait")
            read_until("Allow")
            type_line("yes")
            read_until("Running: bash")
            wait_until((newel.project / "begun").exists, "the command")
            type_line("cancel")
            read_until("Ended: aborted")
            process.stdin.close()
            assert process.wait(10) == 0
        finally:
            process.kill()


# -- servers ------------------------------------------------------------------------------------------


@contextmanager
def serve(newel: Newel, example: str, *words: str) -> Generator[tuple[str, str]]:
    """A running server: its address, and what it prints first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with begin(newel, example, *words, str(port)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            deadline = time.monotonic() + 10
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert time.monotonic() < deadline, line
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}", line.strip()
        finally:
            process.kill()


def events(answer: httpx2.Response) -> list[dict[str, Any]]:
    return [json.loads(part.removeprefix("data: ")) for part in answer.text.split("\n\n") if part]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_headless_server_streams_a_run_in_the_sessions_own_folder(with_model: Make) -> None:
    go = scenario("go", call("write", file_path="a.txt", content="a\n"), {"content": "Written."})
    newel = with_model(scenarios(go, scenario("again", {"content": "Again."})))
    with serve(newel, "headless_server", "rooms") as (url, line):
        post = httpx2.Client(base_url=url, trust_env=False, timeout=10)
        ask = {"prompt": "go", "sessionId": "one"}
        with post:
            for wrong in ({}, {"Authorization": "Bearer guess"}):
                assert post.post("/api/prompt", json=ask, headers=wrong).status_code == 401
            post.headers["Authorization"] = f"Bearer {line.rpartition(' ')[2]}"
            for session in ("../one", "a/b", "", ".", "x" * 65, "one\n"):
                refused = post.post("/api/prompt", json={"prompt": "go", "sessionId": session})
                assert refused.status_code == 400, session
            assert post.post("/api/prompt", content=b"{").status_code == 400
            kinds = [event["type"] for event in events(post.post("/api/prompt", json=ask))]
            assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
            post.post("/api/prompt", json={"prompt": "again", "sessionId": "one"})
    assert (newel.project / "rooms" / "one" / "a.txt").read_text() == "a\n"
    assert len([m for m in newel.requests[-1]["messages"] if m["role"] == "user"]) == 2
    assert not [path for path in newel.project.rglob("*") if path.is_dir() and path.name == "b"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client_of_the_headless_server_that_disconnects_aborts_its_run(with_model: Make) -> None:
    newel = with_model(
        scenarios(
            scenario("wait", bash("echo $$ > pid; sleep 60")), scenario("next", {"content": "Still there."})
        )
    )
    with serve(newel, "headless_server", "rooms") as (url, line):
        headers = {"Authorization": f"Bearer {line.rpartition(' ')[2]}"}
        with httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=10) as client:
            ask = {"prompt": "wait", "sessionId": "one"}
            pid = newel.project / "rooms" / "one" / "pid"
            with client.stream("POST", "/api/prompt", json=ask):
                wait_until(lambda: pid.exists() and pid.read_text().strip(), "the command")
                assert client.post("/api/prompt", json=ask).status_code == 409
            command = Path("/proc") / pid.read_text().strip()
            wait_until(lambda: not command.exists(), "the end of the command")
            wait_until(
                lambda: client.post("/api/prompt", json=ask | {"prompt": "next"}).status_code == 200,
                "the end of the run",
            )


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_web_page_sends_attachments_through_a_newel_server(with_model: Make) -> None:
    newel = with_model(scenario("compare", {"content": "They differ."}))
    newel.environ["PATH"] = f"{BIN}:{newel.environ['PATH']}"
    with (
        served(newel) as server,
        serve(newel, "web_ui", f"{server.url}/#token={server.token}", "mock-model") as (url, line),
        httpx2.Client(base_url=url, trust_env=False, timeout=10) as client,
    ):
        page = client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        files = [
            {"name": "pixel.png", "type": "image/png", "content": base64.b64encode(PIXEL).decode()},
            {"name": "notes.txt", "type": "text/plain", "content": base64.b64encode(b"A note.").decode()},
        ]
        message = {"text": "compare these", "files": files}
        assert client.post("/prompt", json=message).status_code == 401
        client.headers["Authorization"] = f"Bearer {line.partition('#')[2]}"
        told = events(client.post("/prompt", json=message))
    assert told[-1]["reason"] == "done"
    content = newel.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text"]
    assert content[2]["text"] == "File notes.txt:\nA note."
