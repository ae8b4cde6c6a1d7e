"""If these fail, a broken server exhausts memory, blocks the agent or leaves processes behind."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from newel.agent.errors import InvalidArguments, ToolError
from newel.agent.messages import AssistantMessage, TextContent
from newel.mcp.types import ElicitAnswer, ElicitRequest, SampleRequest
from tests.integration.mcp.rogues import ROGUE, SOON, Started, call, rogue, status, until
from tests.processes import is_alive

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]
"""Each test starts processes, some of them slow to end; a busy machine must not fail one."""


def peak() -> int:
    """The peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def test_a_server_that_dies_during_a_call_gives_a_result_with_the_reason(
    started: Started,
) -> None:
    async with started(rogue("die")) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        assert "exit code 3" in result.output
        assert "may have had an effect" in result.output
        assert status(manager).state == "broken"
        assert "the last words" in status(manager).stderr


async def test_a_server_that_refuses_a_call_is_not_taken_for_lost(started: Started) -> None:
    """Its code is the first of those that are free for servers; the SDK has the same one for a lost connection."""
    async with started(rogue("refuse")) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        assert "There is no issue 7." in result.output
        assert "lost" not in result.output
        assert status(manager).state == "active"


async def test_a_lost_server_is_restarted_automatically(started: Started) -> None:
    async with started(rogue("die"), pauses=SOON) as manager:
        await call(manager, "rogue__act")
        await until(lambda: status(manager).state == "active")
        result, _ = await call(manager, "rogue__act")
        assert "exit code 3" in result.output


FLAKY = """
count=$(($(cat starts 2>/dev/null || echo 0) + 1))
echo $count > starts
case $count in 2 | 3) exit 1 ;; esac
exec "$@"
"""
"""Its second and third start fail."""


async def test_a_lost_server_that_does_not_start_at_once_is_tried_again(
    started: Started, tmp_path: Path
) -> None:
    """As while it is being updated. Else its tools are gone until the user restarts it."""
    server = rogue("die", cwd=str(tmp_path))
    flaky = msgspec.structs.replace(
        server, command="sh", args=("-c", FLAKY, "sh", sys.executable, *server.args)
    )
    async with started(flaky, pauses=SOON) as manager:
        await call(manager, "rogue__act")
        await until(lambda: status(manager).state == "active")
        assert (tmp_path / "starts").read_text() == "4\n"


async def test_a_call_to_an_unavailable_server_says_so_and_does_nothing(started: Started) -> None:
    async with started(rogue("die")) as manager:
        (tool,) = manager.tools()
        await call(manager, "rogue__act")

        async def nowhere(_: str) -> None:
            pass

        with pytest.raises(ToolError, match="nothing was done"):
            await (await tool.plan({})).execute(nowhere)


@pytest.mark.parametrize(("way", "words"), [("junk", "too much output"), ("huge", "more than 16 MiB")])
async def test_a_flood_breaks_only_its_server_in_bounded_memory(
    started: Started, way: str, words: str
) -> None:
    async with started(rogue(way), rogue("plain", name="good")) as manager:
        before = peak()
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        assert words in result.output
        assert peak() - before < 120
        result, _ = await call(manager, "good__act")
        assert not result.is_error


async def test_a_server_that_prints_a_greeting_works(started: Started) -> None:
    async with started(rogue("noise")) as manager:
        assert status(manager).state == "active"
        assert "Welcome to this server." in status(manager).stderr


async def test_the_end_of_a_flood_of_errors_is_kept_and_the_call_succeeds(started: Started) -> None:
    async with started(rogue("errors")) as manager:
        before = peak()
        result, _ = await call(manager, "rogue__act")
        assert result.output == "done"
        await until(lambda: status(manager).stderr.endswith("the end\n"))
        assert len(status(manager).stderr) <= 8 * 1024
        assert peak() - before < 30


async def test_progress_faster_than_the_screen_is_dropped(started: Started) -> None:
    async with started(rogue("progress")) as manager:
        result, shown = await call(manager, "rogue__act")
        assert result.output == "done"
        assert shown.startswith("m" * 200)
        assert len(shown) < 200_000


async def test_a_call_without_progress_times_out_and_the_server_is_told(
    started: Started, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    async with started(rogue("sleep", timeout=0.3, env={"NOTES": str(notes)})) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        assert "no progress for 0.3 seconds" in result.output
        await until(lambda: "cancelled" in notes.read_text())
        assert status(manager).state == "active"


async def test_a_call_with_progress_may_exceed_the_timeout(started: Started) -> None:
    async with started(rogue("alive", timeout=0.9)) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.output == "done"


async def test_stopping_a_call_reaches_the_server(started: Started, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with started(rogue("sleep", env={"NOTES": str(notes)})) as manager:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, manager, "rogue__act")
            await until(notes.exists)
            tasks.cancel_scope.cancel()
        await until(lambda: "cancelled" in notes.read_text())


async def test_a_server_that_asks_and_never_reads_is_given_up(started: Started) -> None:
    async with started(rogue("nag")) as manager:
        result, _ = await call(manager, "rogue__act")
        assert result.is_error
        assert "asks faster than it reads" in result.output


async def test_changed_tools_are_offered_under_their_new_names(started: Started) -> None:
    async with started(rogue("many")) as manager:
        await call(manager, "rogue__act")
        await until(lambda: [tool.spec.name for tool in manager.tools()] == ["rogue__other"])


async def test_content_of_an_unknown_kind_costs_only_itself(started: Started) -> None:
    """Else the model loses the whole answer of a server that is newer than Newel, or is slightly wrong."""
    said = {"type": "text", "text": "12 rows", "annotations": {"audience": ["everyone"]}}
    async with started(rogue("answer")) as manager:
        result, _ = await call(manager, "rogue__act", result={"content": [said, {"type": "chart"}]})
        assert result.output == "12 rows\n[content of the unknown type 'chart' left out]"
        assert not result.is_error


async def test_a_faulty_tool_costs_only_itself(started: Started) -> None:
    """Else one tool without a schema leaves the user with none of its server."""
    others = [{"name": "now"}, {"description": "has no name"}]
    async with started(rogue("plain", env={"OTHERS": json.dumps(others)})) as manager:
        assert [tool.spec.name for tool in manager.tools()] == ["rogue__act", "rogue__now"]
        result, _ = await call(manager, "rogue__now")
        assert not result.is_error


async def test_a_tool_that_exceeds_a_limit_is_named(started: Started) -> None:
    """Else a user looks in vain for the reason why it is missing."""
    schema = {"type": "object", "description": "x" * 65_536}
    others = [{"name": "large", "inputSchema": schema}]
    async with started(rogue("plain", env={"OTHERS": json.dumps(others)})) as manager:
        assert [tool.spec.name for tool in manager.tools()] == ["rogue__act"]
        assert status(manager).state == "active"
        assert "64 KiB of a schema" in status(manager).reason
        assert "'large'" in status(manager).reason


async def test_a_server_that_exits_on_an_unknown_protocol_is_retried_with_the_old_one(
    started: Started,
) -> None:
    async with started(rogue("old")) as manager:
        assert status(manager).state == "active"


async def test_a_server_that_cannot_start_is_broken_with_the_reason(started: Started) -> None:
    missing = rogue("plain", name="missing")
    unset = rogue("plain", name="unset", env={"KEY": "${NOT_SET_ANYWHERE}"})
    missing = msgspec.structs.replace(missing, command="/no/such/program")
    async with started(missing, unset) as manager:
        assert "No such file" in status(manager, "missing").reason
        assert "NOT_SET_ANYWHERE is not set" in status(manager, "unset").reason


async def test_arguments_that_are_not_text_are_refused_and_the_server_continues(started: Started) -> None:
    async with started(rogue("plain")) as manager:
        with pytest.raises(InvalidArguments, match="surrogate"):
            await call(manager, "rogue__act", text="\ud800")
        result, _ = await call(manager, "rogue__act", text="a")
        assert not result.is_error


async def test_a_restart_during_a_call_gives_the_model_a_result(started: Started, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with (
        started(rogue("sleep", env={"NOTES": str(notes)})) as manager,
        anyio.create_task_group() as tasks,
    ):

        async def ask() -> None:
            result, _ = await call(manager, "rogue__act")
            assert result.is_error
            assert "restarted" in result.output

        tasks.start_soon(ask)
        await until(notes.exists)
        await manager.restart("rogue")


# -- questions --------------------------------------------------------------------------------------


async def test_a_servers_question_reaches_the_caller(started: Started) -> None:
    async def elicit(request: ElicitRequest) -> ElicitAnswer:
        assert request.server == "rogue"
        assert request.schema is not None
        return ElicitAnswer(action="accept", content={"name": request.message})

    async with started(rogue("ask")) as manager:
        result, _ = await call(manager, "rogue__act", elicit)
        assert json.loads(result.output) == {"action": "accept", "content": {"name": "Who?"}}


async def test_without_a_user_a_question_is_declined_at_once(started: Started) -> None:
    async with started(rogue("ask")) as manager:
        result, _ = await call(manager, "rogue__act")
        assert json.loads(result.output) == {"action": "decline"}


async def test_the_users_thinking_time_does_not_count_against_the_server(started: Started) -> None:
    async def slow(_: ElicitRequest) -> ElicitAnswer:
        await anyio.sleep(0.6)
        return ElicitAnswer(action="decline")

    async with started(rogue("ask", timeout=0.3)) as manager:
        result, _ = await call(manager, "rogue__act", slow)
        assert json.loads(result.output) == {"action": "decline"}


async def test_a_question_disappears_with_its_call(started: Started) -> None:
    asked, gone = anyio.Event(), anyio.Event()

    async def wait(_: ElicitRequest) -> ElicitAnswer:
        asked.set()
        try:
            await anyio.sleep(60)
        finally:
            gone.set()
        return ElicitAnswer(action="cancel")

    async with started(rogue("ask")) as manager:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, manager, "rogue__act", wait)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await gone.wait()


async def test_a_server_may_sample_the_model_only_if_offered(started: Started) -> None:
    async def sample(request: SampleRequest) -> AssistantMessage:
        assert request.max_tokens == 9
        (message,) = request.messages
        return AssistantMessage(content=[TextContent(f"{message.text} = 4")], model="m")  # type: ignore[union-attr]

    async def sample_of_agent(_: SampleRequest) -> AssistantMessage:
        return AssistantMessage(content=[TextContent("4")], model="model of the agent")

    async with started(rogue("wonder"), sample=sample) as manager:
        result, _ = await call(manager, "rogue__act")
        answer: dict[str, Any] = json.loads(result.output)["result"]
        assert answer["content"] == {"type": "text", "text": "2 + 2 = 4"}
        assert answer["stopReason"] == "endTurn"
        result, _ = await call(manager, "rogue__act", None, sample_of_agent)
        assert json.loads(result.output)["result"]["model"] == "model of the agent"
    async with started(rogue("wonder")) as manager:
        result, _ = await call(manager, "rogue__act")
        assert "error" in json.loads(result.output)


# -- processes --------------------------------------------------------------------------------------


async def test_a_server_sees_only_the_secrets_that_its_env_names(started: Started) -> None:
    environ = {**os.environ, "SOME_API_KEY": "secret", "WANTED": "w", "LLM_BASE_URL": "http://x"}
    async with started(rogue("plain", env={"GIVEN": "${WANTED}"}), environ=environ) as manager:
        result, _ = await call(manager, "rogue__act")
        names = json.loads(result.output)
        assert "GIVEN" in names
        assert "PATH" in names
        assert not {"SOME_API_KEY", "WANTED", "LLM_BASE_URL"} & set(names)


async def test_no_process_of_a_server_survives_the_end(started: Started, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with started(rogue("family", env={"NOTES": str(notes)})):
        pids = [int(line) for line in notes.read_text().split()]
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)


async def test_a_server_that_hangs_at_its_start_delays_neither_the_others_nor_the_end(
    started: Started,
) -> None:
    async with started(rogue("hang"), rogue("plain", name="good"), wait=0) as manager:
        assert status(manager).state == "starting"
        await until(lambda: status(manager, "good").state == "active")
        assert status(manager).state == "starting"


PROGRAM = """
import os
import sys
import anyio
from pathlib import Path
from newel.mcp.server_config import ServerConfig
from newel.mcp.manager import McpManager
from newel.mcp.server_connection import ServerContext
from newel.mcp.trust import Trust

async def main():
    here = Path(sys.argv[1])
    config = ServerConfig(
        name="rogue", origin=here, level="user",
        command=sys.executable, args=("-IS", sys.argv[2], "family"), env={"NOTES": str(here / "notes")},
    )
    context = ServerContext(trust=Trust(here), root=here, environ={})
    async with McpManager([config], context) as manager:
        await manager.wait_started(20)
        os.write(1, b"up\\n")
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.slow  # seconds of waiting
async def test_no_process_of_a_server_survives_a_killed_newel(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(ROGUE)]
    async with await anyio.open_process(command, stderr=None) as newel:
        assert newel.stdout is not None
        assert await newel.stdout.receive() == b"up\n"
        pids = [int(line) for line in (tmp_path / "notes").read_text().split()]
        assert len(pids) == 3
        newel.kill()
    await until(lambda: not any(is_alive(pid) for pid in pids))
