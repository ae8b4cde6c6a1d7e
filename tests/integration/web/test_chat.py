"""If these fail, scripts that chat by plain HTTP get no answer, or another conversation's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.agent.errors import RequestRejected
from newel.agent.messages import ToolCall
from newel.workbench.tab_reader import take_snapshot
from tests.integration.web.served_workbench import Echo, ServedWorkbench, says, serve_workbench
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio

Event = tuple[str, dict[str, Any]]


def parse(stream: str) -> list[Event]:
    """The events of a stream, as name and data."""
    found: list[Event] = []
    for block in stream.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":") and line)
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def chat(server: ServedWorkbench, message: str) -> list[Event]:
    answer = await server.client.post("/chat", json={"message": message})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parse(answer.text)


async def test_texts_and_calls_stream_and_done_is_last(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "foo.py").write_text("x = 1\n")
    call = ToolCall("1", "read_file", {"path": "foo.py"})
    script = ScriptedProvider([says("Here's what I do.", call), says("It says x = 1.")])
    async with serve_workbench(tmp_path, script) as server:
        events = await chat(server, "What does foo.py say?")
    assert events == [
        ("text", {"content": "Here's what I do."}),
        ("tool", {"name": "read", "input": {"file_path": "foo.py"}}),
        ("text", {"content": "It says x = 1."}),
        ("done", {}),
    ]


async def test_the_conversation_continues_until_it_is_cleared(tmp_path: Path) -> None:
    script = ScriptedProvider([says("One."), says("Two."), says("Three.")])
    async with serve_workbench(tmp_path, script) as server:
        for message in ("first", "second"):
            await chat(server, message)
        assert len(script.requests[1].messages) == 3
        cleared = await server.client.post("/clear", json={})
        assert (cleared.status_code, cleared.json()) == (200, {"status": "ok"})
        await chat(server, "third")
        assert len(script.requests[2].messages) == 1


async def test_a_failed_run_sends_the_reason_before_done(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, ScriptedProvider([RequestRejected("The key is wrong.")])) as server:
        events = await chat(server, "Hello")
    assert [name for name, _ in events] == ["error", "done"]
    assert events[0][1] == {"code": "request_rejected", "message": "The key is wrong."}


async def test_two_concurrent_requests_are_both_answered(tmp_path: Path) -> None:
    """Otherwise one of them waits forever, or reads the other's answer as its own."""
    async with serve_workbench(tmp_path, Echo()) as server:
        heard: list[list[Event]] = []

        async def speak(text: str) -> None:
            heard.append(await chat(server, text))

        async with anyio.create_task_group() as tasks:
            for n in range(5):
                tasks.start_soon(speak, f"number {n}")
    assert all(events[-1] == ("done", {}) for events in heard)
    texts = [data["content"] for events in heard for name, data in events if name == "text"]
    assert texts
    assert not [data for events in heard for name, data in events if name == "error"]


async def test_a_client_that_disconnects_ends_nothing(tmp_path: Path) -> None:
    is_asked, go_on = anyio.Event(), anyio.Event()

    async def slowly(_: object) -> Any:
        is_asked.set()
        await go_on.wait()
        return says("Done.")

    async with serve_workbench(tmp_path, ScriptedProvider([slowly])) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat, server, "Take your time")
            await is_asked.wait()
            tasks.cancel_scope.cancel()
        go_on.set()
        tab = (await server.board.default_chat()).state
        await server.until(lambda: server.board.tab(tab.id).state.status == "idle")
        said = await take_snapshot(server.board.tab(tab.id))
    assert [getattr(message, "text", "") for message in said.messages] == ["Take your time", "Done."]


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"message": 1}', '{"message": ""}', "[" * 100_000, '"\\ud800"']
)
async def test_an_invalid_body_is_refused_with_a_message(body: str, tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        answer = await server.client.post("/chat", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert answer.json()["error"]["message"].startswith("The body is invalid")
        assert not server.board.tabs
