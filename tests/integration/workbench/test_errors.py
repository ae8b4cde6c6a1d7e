"""If these fail, an error around a chat stays hidden, or ends the chat."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from mock_llm_server import running
from newel.agent.errors import ConfigError
from newel.agent.events import AgentEnd, ErrorEvent, ToolExecutionEnd
from newel.agent.messages import UserMessage
from newel.runs.chat_turn import read_events
from newel.runs.models import Contract
from newel.runs.run_events import Notice
from newel.workbench.workbench import Workbench
from tests.integration.mcp.rogues import ROGUE
from tests.integration.workbench.conftest import Bench, send_and_wait, texts, until, wait_for_end
from tests.support import BIN, scenario

pytestmark = pytest.mark.anyio

BenchWith = Callable[..., Bench]
Kind = TypeVar("Kind")
TIME = {"command": str(BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"]}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


async def told(workbench: Workbench, run: str, kind: type[Kind]) -> list[Kind]:
    """The events of a type in a run's journal."""
    return [event for event in await read_events(workbench.engine, run) if isinstance(event, kind)]


async def fails(workbench: Workbench, tab: str) -> str:
    """Send a message that fails; returns the events of the tab."""
    run = await workbench.tab(tab).send(UserMessage(content="ping"))
    assert await wait_for_end(workbench, run) == "failed"
    assert workbench.tab(tab).state.status == "idle"
    (error,) = await told(workbench, run, ErrorEvent)
    return error.message


# -- the model's server -------------------------------------------------------------------------------


async def test_an_unreachable_local_model_server_is_reported_at_once_and_used_when_it_runs(
    bench_with: BenchWith,
) -> None:
    with running(scenario("ping", {"content": "pong"})) as gone:
        pass
    bench = bench_with()
    async with bench.open(base_url=f"{gone.url}/v1", api_key="any") as workbench:
        tab = (await workbench.open_chat()).state
        assert str(gone.port) in await fails(workbench, tab.id)
        with running(scenario("ping", {"content": "pong"}), port=gone.port):
            await wait_for_end(workbench, await workbench.tab(tab.id).retry())
            assert (await texts(workbench, tab.id))[-1] == "assistant: pong"


async def test_a_model_server_that_stays_down_ends_the_answer_and_not_the_chat(bench_with: BenchWith) -> None:
    down = {"kind": "status", "status": 503, "headers": {"Retry-After": "0"}, "times": 10}
    bench = bench_with(scenario("ping", {"response": {"content": "pong"}, "fault": down}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        assert "503" in await fails(workbench, tab.id)
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"
        assert [each["role"] for each in bench.newel.requests[-1]["messages"]] == ["system", "user"]


async def test_a_stop_during_a_retry_pause_takes_effect_at_once(bench_with: BenchWith) -> None:
    down = {"kind": "status", "status": 503, "headers": {"Retry-After": "60"}}
    bench = bench_with(scenario("ping", {"response": {"content": ""}, "fault": down}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await workbench.tab(tab.id).send(UserMessage(content="ping"))
        await until(lambda: bench.newel.requests)
        await workbench.tab(tab.id).stop(now=True)
        assert await wait_for_end(workbench, run) == "done"
        assert workbench.tab(tab.id).state.status == "idle"


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 200, "body": "<html>Bad gateway</html>"},
        {"kind": "status", "status": 200, "body": {"choices": "none"}},
    ],
)
async def test_an_invalid_answer_is_reported_and_the_next_one_counts(
    bench_with: BenchWith, fault: dict[str, Any]
) -> None:
    step = {"response": {"content": "pong"}, "fault": fault | {"times": 1}}
    bench = bench_with(scenario("ping", step))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        assert await fails(workbench, tab.id)
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"


# -- what the model asks for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (call("read", {"path_of_file": "a"}), "file_path"),
        (call("edit", '{"file_path": "a'), "JSON"),
        (call("fly", {}), "fly"),
        (call("read", {"file_path": "missing.txt"}), "missing.txt"),
        (call("bash", {"command": "echo no such thing >&2; exit 3"}), "exit code: 3"),
    ],
)
async def test_an_invalid_or_failing_call_is_told_to_the_model_which_continues(
    bench_with: BenchWith, wrong: dict[str, Any], words: str
) -> None:
    bench = bench_with(scenario("work", wrong, {"content": "Another way, then."}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        run = await send_and_wait(workbench, tab.id, "work")
        said = await texts(workbench, tab.id)
        assert words in said[2]
        assert said[-1] == "assistant: Another way, then."
        assert words in bench.newel.requests[1]["messages"][-1]["content"]
        (end,) = await told(workbench, run, AgentEnd)
        assert end.reason == "done"


# -- tool servers -------------------------------------------------------------------------------------


@pytest.mark.slow  # a second of a core
async def test_an_mcp_server_that_does_not_start_is_broken_with_a_reason_and_delays_no_chat(
    bench_with: BenchWith,
) -> None:
    bench = bench_with(
        scenario("what time", call("time__get_current_time", {"timezone": "UTC"}), {"content": "Late."})
    )
    _servers(
        bench,
        away={"command": "/nowhere/server"},
        silent={"command": "sh", "args": ["-c", "cat >/dev/null"]},
        unreachable={"url": "http://127.0.0.1:9/mcp"},
        time=TIME,
    )
    async with bench.open() as workbench:

        def states() -> dict[str, str]:
            return {each.name: each.state for each in workbench.servers.statuses()}

        await until(
            lambda: (
                states()
                == {"away": "broken", "silent": "starting", "unreachable": "broken", "time": "active"}
            )
        )
        reasons = {each.name: each.reason for each in workbench.servers.statuses()}
        assert "/nowhere/server" in reasons["away"]
        assert reasons["unreachable"]
        tab = (await workbench.open_chat()).state
        run = await send_and_wait(workbench, tab.id, "what time is it")
        (result,) = await told(workbench, run, ToolExecutionEnd)
        assert (result.is_error, "UTC" in result.result) == (False, True)


async def test_a_setting_that_cannot_be_saved_is_refused_with_a_message(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    _servers(bench, plain={"command": sys.executable, "args": ["-IS", str(ROGUE), "plain"]})
    (bench.newel.home / ".newel" / "mcp_state.json").mkdir()
    async with bench.open() as workbench:
        await until(lambda: workbench.servers.statuses()[0].state == "active")
        with pytest.raises(ConfigError, match=r"mcp_state\.json"):
            await workbench.servers.set_enabled("plain", False)
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "ping")
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"


def _servers(bench: Bench, **servers: dict[str, Any]) -> None:
    home = bench.newel.home / ".newel"
    home.mkdir()
    (home / "mcp_config.json").write_text(json.dumps({"mcpServers": servers}))


# -- the disk -----------------------------------------------------------------------------------------


async def test_an_unwritable_session_is_reported_and_the_message_is_answered_later(
    bench_with: BenchWith,
) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    sessions = bench.newel.home / ".newel" / "sessions"
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        sessions.write_text("in the way")
        run = await workbench.tab(tab.id).send(UserMessage(content="ping"))
        assert await wait_for_end(workbench, run) == "failed"
        job = await workbench.engine.get(run)
        assert job is not None
        assert "sessions" in job.reason
        sessions.unlink()
        await send_and_wait(workbench, tab.id, "ping again")
        assert (await texts(workbench, tab.id))[-1] == "assistant: pong"


async def test_a_chat_whose_folder_was_missing_continues_when_it_is_back(bench_with: BenchWith) -> None:
    bench = bench_with(scenario("ping", {"content": "pong"}))
    async with bench.open() as workbench:
        tab = (await workbench.open_chat()).state
        await send_and_wait(workbench, tab.id, "ping")
    async with bench.open() as workbench:
        await send_and_wait(workbench, ((await workbench.open_chat()).state).id, "ping")
        away = bench.folder.rename(bench.folder.with_name("away"))
        assert "is not a directory" in await fails(workbench, tab.id)
        away.rename(bench.folder)
        await wait_for_end(workbench, await workbench.tab(tab.id).retry())
        assert (await texts(workbench, tab.id))[-2:] == ["user: ping", "assistant: pong"]


async def test_an_agent_with_an_unwritable_log_says_so_and_runs(bench_with: BenchWith) -> None:
    judge = scenario("After", call("verdict", {"satisfied": True, "why": "It is there.", "missing": ""}))
    work = scenario("Make it", call("bash", {"command": "touch made"}))
    bench = bench_with({"scenarios": judge["scenarios"] + work["scenarios"]})
    async with bench.open() as workbench:
        (bench.newel.home / ".newel" / "logs").write_text("in the way")
        tab = (await workbench.open_agent()).state
        run = await workbench.tab(tab.id).start(Contract(text="Make it"))
        await wait_for_end(workbench, run)
        assert workbench.tab(tab.id).state.status == "completed"
        (notice,) = await told(workbench, run, Notice)
        assert "cannot be written" in notice.message
        assert (bench.folder / "made").exists()


# -- a stop in the midst of a request -----------------------------------------------------------------


async def test_a_stop_during_a_request_keeps_its_answer_and_makes_no_other(bench_with: BenchWith) -> None:
    asked = call("bash", {"command": "touch made"})
    bench = bench_with(scenario("work", asked, {"content": "Never asked for."}))
    with bench.newel.relayed() as wire:
        async with bench.open() as workbench:
            chat, agent = (await workbench.open_chat()).state, (await workbench.open_agent()).state
            with wire.holding(answers_only=True):
                runs = [
                    await workbench.tab(chat.id).send(UserMessage(content="work")),
                    await workbench.tab(agent.id).start(Contract(text="work")),
                ]
                await until(lambda: len(bench.newel.requests) == 2)
                for tab in (chat, agent):
                    await workbench.tab(tab.id).stop()
            for run in runs:
                await wait_for_end(workbench, run)
                (end,) = await told(workbench, run, AgentEnd)
                assert end.reason == "stopped"
                assert len(await told(workbench, run, ToolExecutionEnd)) == 1
            assert (workbench.tab(chat.id).state.status, workbench.tab(agent.id).state.status) == (
                "idle",
                "stopped",
            )
            assert len(bench.newel.requests) == 2
