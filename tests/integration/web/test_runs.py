"""If these fail, a client without a socket misses or repeats events of a run."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.agent.events import TextDelta
from newel.agent.messages import AssistantMessage, ToolCall, UserMessage
from newel.agent.ports import ModelRequest, OnDelta
from tests.integration.web.served_workbench import Echo, ServedWorkbench, says, serve_workbench
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio

SSE = {"Accept": "text/event-stream"}


class Halting:
    """A model that stops in the middle of a word until it is told to continue."""

    def __init__(self) -> None:
        self.halfway, self.go_on = anyio.Event(), anyio.Event()

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        await on_delta(TextDelta("Half "))
        self.halfway.set()
        await self.go_on.wait()
        await on_delta(TextDelta("done"))
        return says("Half done")


async def begin(server: ServedWorkbench, text: str = "Go") -> str:
    tab = (await server.board.open_chat()).state
    return await server.board.tab(tab.id).send(UserMessage(text))


async def pages(server: ServedWorkbench, run: str, **options: Any) -> list[dict[str, Any]]:
    """All events of a run, read page by page like a polling client."""
    events: list[dict[str, Any]] = []
    after = 0
    while True:
        answer = await server.client.get(f"/api/runs/{run}/events", params={"after": after, **options})
        page = answer.json()
        events += page["events"]
        if not page["events"] and page["state"] in {"done", "failed", "cancelled"}:
            return events
        after = page["next"]


async def stream(server: ServedWorkbench, path: str, **headers: str) -> AsyncGenerator[dict[str, Any]]:
    """The events of a stream as they arrive: name, data, and id if there is one."""
    async with server.client.stream("GET", path, headers=SSE | headers) as answer:
        assert answer.status_code == 200
        fields: dict[str, Any] = {}
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = json.loads(value) if name == "data" else value
            elif fields:
                yield fields
                fields = {}


async def read(server: ServedWorkbench, run: str, **headers: str) -> list[dict[str, Any]]:
    async with aclosing(stream(server, f"/api/runs/{run}/events", **headers)) as events:
        return [event async for event in events]


async def test_polling_returns_each_event_once(tmp_path: Path) -> None:
    call = ToolCall("1", "bash", {"command": "echo hello"})
    async with serve_workbench(tmp_path, ScriptedProvider([says("See.", call), says("Done.")])) as server:
        run = await begin(server)
        events = await pages(server, run, limit=2, wait=5)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["event"]["type"] == "agent_end"


async def test_a_stream_sends_each_durable_event_once_and_then_the_end(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        run = await begin(server)
        events = await read(server, run)
        polled = await pages(server, run)
    numbered = [event for event in events if "id" in event]
    assert [(int(event["id"]), event["data"]) for event in numbered] == [
        (e["seq"], e["event"]) for e in polled
    ]
    assert (events[-1]["event"], events[-1]["data"]) == ("end", {"state": "done", "reason": ""})


async def test_a_stream_resumes_where_it_broke_off(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        run = await begin(server)
        all_of_it = [event for event in await read(server, run) if "id" in event]
        for last in (0, 1, len(all_of_it)):
            rest = [
                event for event in await read(server, run, **{"Last-Event-ID": str(last)}) if "id" in event
            ]
            assert rest == all_of_it[last:]
        for nonsense in ("x", "-1", "9" * 40):
            rest = [
                event for event in await read(server, run, **{"Last-Event-ID": nonsense}) if "id" in event
            ]
            assert rest == all_of_it


async def test_deltas_have_no_number_and_a_late_reader_gets_them_merged(tmp_path: Path) -> None:
    model = Halting()
    async with serve_workbench(tmp_path, model) as server:
        run = await begin(server)
        await model.halfway.wait()
        events: list[dict[str, Any]] = []
        async with aclosing(stream(server, f"/api/runs/{run}/events")) as come:
            async for event in come:
                events.append(event)
                if event["event"] == "soFar":
                    assert event["data"]["message"]["content"] == [{"type": "text", "text": "Half "}]
                    model.go_on.set()
        pieces = [event for event in events if event["data"].get("type") == "message_update"]
    assert [piece["data"]["assistantMessageEvent"]["delta"] for piece in pieces] == ["done"]
    assert not [piece for piece in pieces if "id" in piece]


async def test_waiting_for_the_next_event_does_not_poll(tmp_path: Path) -> None:
    model = Halting()
    async with serve_workbench(tmp_path, model) as server:
        run = await begin(server)
        await model.halfway.wait()
        known = (await server.client.get(f"/api/runs/{run}/events")).json()
        path = f"/api/runs/{run}/events?after={known['next']}"
        now = (await server.client.get(path)).json()
        assert (now["events"], now["state"]) == ([], "running")
        later: dict[str, Any] = {}

        async def wait() -> None:
            later.update((await server.client.get(f"{path}&wait=10")).json())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            assert not later
            model.go_on.set()
        assert later["events"][0]["seq"] == known["next"] + 1


@pytest.mark.parametrize("headers", [{}, SSE])
async def test_an_unknown_run_is_a_404(headers: dict[str, str], tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        answer = await server.client.get("/api/runs/nothing/events", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "query", ["after=-1", "after=x", "after=1e3", "limit=0", "limit=1001", "wait=31", "wait=nan"]
)
async def test_invalid_numbers_are_refused(query: str, tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        run = await begin(server)
        answer = await server.client.get(f"/api/runs/{run}/events?{query}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "malformed_request")


async def test_the_state_lists_the_tabs(tmp_path: Path) -> None:
    async with serve_workbench(tmp_path, Echo()) as server:
        await begin(server)
        state = (await server.client.get("/api/state")).json()
        assert [tab["kind"] for tab in state["tabs"]] == ["chat"]
        assert state["servers"] == []
        assert (await server.client.get("/health")).json() == {"status": "ok", "newel": "0.1.0"}
