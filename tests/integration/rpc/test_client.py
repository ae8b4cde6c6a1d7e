"""If these fail, a Python program cannot drive Newel, or is not told when it fails."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.agent.errors import UsageError
from newel.agent.events import AgentEnd, MessageUpdate, TextDelta, ToolExecutionUpdate
from newel.agent.messages import AssistantMessage
from newel.client import (
    BlockingRpcClient,
    ClientEvent,
    CommandFailed,
    CommandTimedOut,
    ProcessEnded,
    RpcClient,
    RpcClientError,
)
from newel.client.streams import OtherEvent, RpcEventStream
from newel.terminal.rpc import protocol as p
from tests.processes import ends, is_alive, read_pids
from tests.support import BIN, Newel

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[3]
Make = Callable[..., RpcClient]


async def test_a_prompt_is_run_and_its_events_are_typed(client: Make) -> None:
    events: list[ClientEvent] = []
    async with client() as newel:
        result = await newel.run("hello there", on_event=events.append)
        assert (result.text, result.end.reason) == ("Hello from the model.", "done")
        assert isinstance(result.messages[-1], AssistantMessage)
        deltas = [
            event.assistant_message_event
            for event in events
            if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta)
        ]
        assert "".join(delta.delta for delta in deltas) == result.text
        assert (await newel.messages()).messages == result.messages


async def test_queued_runs_have_results_of_their_own(client: Make) -> None:
    async with client() as newel:
        results: dict[str, str] = {}

        async def run(text: str) -> None:
            results[text] = (await newel.run(text)).text

        async with anyio.create_task_group() as group:
            for text in ("touch the file", "hello there"):
                group.start_soon(run, text)
    assert results == {"touch the file": "Touched.", "hello there": "Hello from the model."}


async def test_whoever_offers_the_models_can_say_what_they_cost(client: Make, newel: Newel) -> None:
    settings = '[models."mock-model"]\ncontext_window = 64_000\ninput_price = 0.1\noutput_price = 0.4\n'
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "config.toml").write_text(settings)
    async with client() as opened:
        listed = await opened.models()
    (model,) = [each for each in listed.models if each.name == listed.current]
    assert (model.context_window, model.input_price, model.output_price) == (64_000, 0.1, 0.4)


async def test_two_tasks_can_read_one_stream() -> None:
    """Else the first of them waits forever, and the program with it."""
    stream, read = RpcEventStream(lambda _: None), list[ClientEvent]()

    async def reader() -> None:
        read.append(await anext(stream))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(reader)
            group.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            for number in range(2):
                stream.put(OtherEvent("news", {"number": number}))
    assert len(read) == 2


async def test_each_command_has_a_method(client: Make) -> None:
    methods = {p.name_of(command) for command in p.COMMANDS}
    assert {name for name in methods if callable(getattr(RpcClient, name, None))} == methods
    async with client() as newel:
        await newel.run("hello there")
        first = (await newel.state()).session_id
        assert (await newel.model("other")).model == "other"
        assert (await newel.thinking("low")).level == "low"
        assert (await newel.agent_mode("remote")).mode == "remote"
        assert "mock-model" in [model.name for model in (await newel.models()).models]
        assert (await newel.name_session("mine")).name == "mine"
        assert (await newel.compact()).summary
        assert (await newel.fork()).session_id != first
        assert (await newel.new_session()).message_count == 0
        assert (await newel.switch_session(first)).message_count == 3
        assert {session.id for session in (await newel.sessions()).sessions} > {first}
        assert (await newel.stats()).compactions == 1
        assert "Hello from the model." in ((await newel.export()).text or "")
        assert (await newel.changes()).pending == []
        assert (await newel.decide("keep", everything=True)).decided == []
        assert (await newel.steer("now")).message_id
        assert (await newel.follow_up("later")).message_id
        assert not (await newel.stop()).running
        assert not (await newel.abort()).running
        assert (await newel.commands()).commands
        with pytest.raises(CommandFailed, match="nothing to undo") as failed:
            await newel.undo(preview=True)
        assert failed.value.failure.code == "nothing_to_undo"


async def test_an_approval_is_answered(client: Make, newel: Newel) -> None:
    async with client("--approve", "ask") as driven, driven.events() as events:
        await driven.prompt("touch the file")
        async for event in events:
            match event:
                case p.ApprovalAsked():
                    await driven.approve(event.tool_call_id, "once")
                case AgentEnd():
                    break
                case _:
                    pass
    assert (newel.project / "touched").exists()


async def test_a_command_without_a_response_in_time_raises(client: Make) -> None:
    async with client() as newel:
        with pytest.raises(CommandTimedOut, match=r"state: no response within 0\.001 s"):
            await newel.request(p.StateCommand(), timeout=0.001)
        assert (await newel.state()).message_count == 0


async def test_a_run_that_is_cancelled_or_that_the_program_cannot_follow_is_aborted(
    client: Make, newel: Newel
) -> None:
    """As with `newel.aask`. Else a program's timeout leaves the command running, and the next prompt waits for it."""

    def fail(event: ClientEvent) -> None:
        if isinstance(event, ToolExecutionUpdate):
            raise ZeroDivisionError

    async def never_awaited(_: ClientEvent) -> None: ...

    async with client() as driven:
        with anyio.fail_after(30):
            with anyio.CancelScope() as scope:
                await driven.run(
                    "sleep for long",
                    on_event=lambda event: scope.cancel() if isinstance(event, ToolExecutionUpdate) else None,
                )
            assert scope.cancelled_caught
            (tool,) = read_pids(newel.project / "pid")
            assert ends(tool)
            with pytest.raises(ZeroDivisionError):
                await driven.run("sleep for long", on_event=fail)
            (tool,) = read_pids(newel.project / "pid")
            assert ends(tool)
            with pytest.raises(UsageError, match="on_event"):
                await driven.run("hello there", on_event=never_awaited)
            assert (await driven.run("hello there")).text == "Hello from the model."


async def test_a_cancelled_run_that_is_queued_leaves_the_one_before_it_alone(
    client: Make, newel: Newel
) -> None:
    async with client() as driven, driven.events() as events:
        await driven.prompt("wait for go")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(driven.run, "hello there")
                async for event in events:
                    if isinstance(event, ToolExecutionUpdate):
                        break
                while not (await driven.state()).waiting:
                    pass
                scope.cancel()
        (newel.project / "go").touch()
        async for event in events:
            if isinstance(event, AgentEnd):
                assert event.reason == "done"
                break


async def test_leaving_the_client_in_a_run_ends_newel_and_its_tools(client: Make, newel: Newel) -> None:
    async with client() as driven:
        events = driven.events()
        await driven.prompt("sleep for long")
        async for event in events:
            if isinstance(event, ToolExecutionUpdate):
                break
        (tool,) = read_pids(newel.project / "pid")
        server = driven.pid
    assert not is_alive(server)
    assert ends(tool)
    with pytest.raises(RpcClientError, match="closed"):
        await driven.state()


async def test_a_cancelled_client_ends_newel(client: Make) -> None:
    pids: list[int] = []
    with anyio.CancelScope() as scope:
        async with client() as newel:
            await newel.state()
            pids.append(newel.pid)
            scope.cancel()
            await anyio.sleep_forever()
    assert [is_alive(pid) for pid in pids] == [False]


async def test_a_dead_newel_raises_from_commands_and_streams(client: Make) -> None:
    exit_codes: list[int | None] = []
    async with client() as newel:
        await newel.state()
        events = newel.events()

        async def wait() -> None:
            with pytest.raises(ProcessEnded):
                await newel.run("sleep for long")

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            async for event in events:
                if isinstance(event, ToolExecutionUpdate):
                    break
            os.kill(newel.pid, signal.SIGKILL)
            try:
                async for _ in events:
                    pass
            except ProcessEnded as ended:
                exit_codes.append(ended.exit_code)
        assert exit_codes == [-signal.SIGKILL]
        with pytest.raises(ProcessEnded, match="exit code -9"):
            await newel.state()


async def test_a_newel_that_cannot_start_says_why(client: Make, newel: Newel) -> None:
    async with client("--session", "zzzz") as driven:
        with pytest.raises(ProcessEnded, match="No session") as ended:
            await driven.state()
    assert (ended.value.exit_code, ended.value.failure and ended.value.failure.code) == (1, "session_error")
    assert "No session" in ended.value.stderr
    async with client("--nonsense") as driven:
        with pytest.raises(ProcessEnded, match="--nonsense"):
            await driven.state()
    with pytest.raises(RpcClientError, match="cannot be started"):
        async with client(command=["/no/such/newel"]):
            pass
    with pytest.raises(RpcClientError, match="cannot be started: /no/such/folder: No such file"):
        async with RpcClient(cwd="/no/such/folder"):
            pass
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with pytest.raises(RpcClientError, match=r"cannot be started: Too many open files\."):
            async with RpcClient():
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    async with client(command=["sh", "-c", "echo hi; sleep 60"]) as driven:
        with pytest.raises(ProcessEnded, match="It is not Newel: it wrote 'hi'"):
            await driven.state()


async def test_a_command_that_is_too_long_is_refused_before_it_is_sent(client: Make) -> None:
    async with client() as newel:
        with pytest.raises(CommandFailed, match="more than 67,108,864 bytes"):
            await newel.prompt("x" * p.MAX_LINE)
        assert (await newel.state()).message_count == 0


async def test_a_large_message_is_carried_both_ways(client: Make) -> None:
    """Pipes hold 64 KB: a writer that does not read meanwhile would wait forever."""
    text = "hello there " + "x" * 5_000_000
    async with client() as newel:
        result = await newel.run(text)
        assert getattr(result.messages[0], "content", "") == text


async def test_a_projects_folder_offers_no_modules_to_newel(client: Make, newel: Newel) -> None:
    """Else opening a stranger's project would run its code."""
    (newel.project / "anyio.py").write_text("open('hacked', 'w').close()")
    async with client(command=()) as driven:
        await driven.state()
    assert not (newel.project / "hacked").exists()


def test_code_without_an_event_loop_drives_newel(newel: Newel) -> None:
    threads: list[int] = []
    with BlockingRpcClient(
        cwd=newel.project, environ=newel.environ, command=[str(BIN / "newel"), "rpc"]
    ) as driven:
        result = driven.run("hello there", on_event=lambda _: threads.append(threading.get_ident()))
        assert result.text == "Hello from the model."
        assert driven.call(driven.client.messages, limit=1).total == 2
        server = driven.client.pid
    assert threads
    assert not is_alive(server)


def test_the_example_of_the_documentation_runs(newel: Newel) -> None:
    text = (ROOT / "docs" / "rpc.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    code = example.replace("/src/shop", str(newel.project)).replace("Fix the failing test", "touch the file")
    done: Any = subprocess.run(
        [sys.executable, "-c", code], env=newel.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["Touched.", "done"]
    assert (newel.project / "touched").exists()
