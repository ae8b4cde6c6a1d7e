"""If these fail, an editor cannot hold a conversation with Newel, or finds another one than it left."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from acp import schema
from acp.exceptions import RequestError
from acp.helpers import embedded_text_resource, image_block, resource_block, resource_link_block

from newel.session.manager import SessionManager
from tests.acp_editor import editing, until_written
from tests.forked import proxy
from tests.processes import ends
from tests.support import Newel, bash, scenario

pytestmark = pytest.mark.anyio

WithModel = Callable[..., Newel]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def writing(name: str, content: str) -> dict[str, Any]:
    arguments = {"file_path": name, "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


async def test_a_prompt_is_answered_with_title_and_usage(with_model: WithModel) -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 7}
    newel = with_model(scenario("hello", {"content": "Good morning.", "usage": usage}))
    async with editing(newel) as ide:
        answer = await ide.new_session()
        assert answer.modes.current_mode_id == "ask"
        done = await ide.prompt("hello")
        assert done.stop_reason == "end_turn"
        assert ide.editor.text() == "Good morning."
        assert (done.usage.input_tokens, done.usage.output_tokens) == (50, 7)
        (info,) = ide.editor.of_kind("session_info_update")
        assert info["title"] == "hello"


async def test_thoughts_are_apart_from_the_answer(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", {"reasoning_content": "They greet me.", "content": "Hello!"}))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("hello")
        assert ide.editor.text("agent_thought_chunk") == "They greet me."
        assert ide.editor.text() == "Hello!"


async def test_a_prompt_may_hold_images_files_and_embedded_texts(with_model: WithModel) -> None:
    newel = with_model(scenario("Compare", {"content": "Done."}))
    linked = newel.project / "linked.txt"
    linked.write_text("the linked text")
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt(
            "Compare ",
            resource_link_block("linked.txt", linked.as_uri()),
            " with ",
            resource_block(embedded_text_resource(f"file://{newel.project}/open.txt", "the unsaved text")),
            image_block(PIXEL, "image/png"),
        )
    sent = str(newel.requests[0]["messages"][-1])
    assert f"Compare {linked} with {newel.project}/open.txt" in sent
    assert "the linked text" in sent
    assert "the unsaved text" in sent
    assert PIXEL in sent


async def test_private_files_are_not_attached_by_a_link(with_model: WithModel) -> None:
    """A page or a prompt of somebody else can hold the link."""
    newel = with_model(scenario("Look at", {"content": "Done."}))
    secret = newel.home / ".ssh" / "id_rsa"
    secret.parent.mkdir()
    secret.write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("Look at ", resource_link_block("key", secret.as_uri()))
        assert "id_rsa" in ide.editor.text("agent_thought_chunk")
    assert "BEGIN OPENSSH" not in str(newel.requests)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (image_block("no base64!", "image/png"), "not base64"),
        (image_block(PIXEL, "image/tiff"), "image/tiff"),
        (schema.AudioContentBlock(type="audio", data="AA==", mime_type="audio/wav"), "audio"),
    ],
)
async def test_content_that_no_model_takes_is_refused_and_not_remembered(
    with_model: WithModel, block: Any, why: str
) -> None:
    """Once in the conversation, it would fail every later request."""
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    async with editing(newel) as ide:
        await ide.new_session()
        with pytest.raises(RequestError, match=why):
            await ide.prompt("hello", block)
        assert (await ide.prompt("hello")).stop_reason == "end_turn"


async def test_cancelling_answers_the_prompt_and_the_session_goes_on(with_model: WithModel) -> None:
    newel = with_model(
        {
            "scenarios": [
                {"name": "a", "trigger": "wait", "steps": [{"response": bash("echo begun; sleep 60")}]},
                {"name": "b", "trigger": "again", "steps": [{"response": {"content": "Here."}}]},
            ]
        }
    )
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("wait"))
        await ide.editor.until(lambda: "begun" in str(ide.editor.updates))
        await ide.agent.cancel(session_id=ide.session)
        assert (await running).stop_reason == "cancelled"
        assert ide.editor.call()["status"] == "failed"
        assert (await ide.prompt("again")).stop_reason == "end_turn"


async def test_a_cancellation_right_behind_its_prompt_counts(with_model: WithModel) -> None:
    """Else the user's Stop is lost, and the model works on."""
    newel = with_model(scenario("wait", bash("sleep 60")))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("wait"))
        await ide.editor.until(lambda: "session/prompt" in ide.editor.sent)
        await ide.agent.cancel(session_id=ide.session)
        assert (await running).stop_reason == "cancelled"


async def test_a_second_prompt_waits_for_the_first(with_model: WithModel) -> None:
    scenarios = [
        {"name": name, "trigger": name, "steps": [{"response": {"content": f"{name} done. "}}]}
        for name in ("first", "second")
    ]
    newel = with_model({"scenarios": scenarios})
    async with editing(newel) as ide:
        await ide.new_session()
        done = await asyncio.gather(ide.prompt("first"), ide.prompt("second"))
        assert [answer.stop_reason for answer in done] == ["end_turn", "end_turn"]
        assert ide.editor.text() == "first done. second done. "


async def test_a_session_goes_on_in_another_process(with_model: WithModel) -> None:
    """Editors restart their agents; the agent may also crash."""
    newel = with_model(scenario("make it", writing("a.txt", "one\n"), {"content": "Made it."}))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("make it")
        session = ide.session
        ide.process.kill()
        await ide.process.wait()
    async with editing(newel) as ide:
        state = await ide.agent.load_session(cwd=str(newel.project), session_id=session, mcp_servers=[])
        assert state.modes
        assert state.modes.current_mode_id == "ask"
        assert ide.editor.text("user_message_chunk") == "make it"
        assert ide.editor.text() == "Made it."
        call = ide.editor.call()
        assert (call["kind"], call["status"]) == ("edit", "completed")
        assert call["content"][0]["newText"] == "one\n"
        ide.session = session
        await ide.prompt("make it")
        assert len(newel.requests[-1]["messages"]) > 5


async def test_what_newel_told_the_model_is_not_shown_as_words_of_the_user(with_model: WithModel) -> None:
    newel = with_model(scenario("make it", writing("a.txt", "one\n"), {"content": "Made it."}))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("make it")
        assert newel("undo", "--yes").returncode == 0
        await ide.prompt("make it")
        session = ide.session
    async with editing(newel) as ide:
        await ide.agent.load_session(cwd=str(newel.project), session_id=session, mcp_servers=[])
        assert ide.editor.text("user_message_chunk") == "make itmake it"
        assert "Newel told the model: I have reviewed your changes." in ide.editor.text("agent_thought_chunk")


async def test_resuming_does_not_repeat_the_conversation(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("hello")
        session = ide.session
    async with editing(newel) as ide:
        await ide.agent.resume_session(cwd=str(newel.project), session_id=session)
        assert ide.editor.text() == ""
        ide.session = session
        await ide.prompt("hello")
        assert ide.editor.text() == "Hello!"
    assert "Hello!" in str(newel.requests[-1]["messages"])


async def test_a_fork_begins_with_the_same_messages_and_leaves_the_first(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("hello")
        first = ide.session
        forked = await ide.agent.fork_session(cwd=str(newel.project), session_id=first)
        ide.session = forked.session_id
        await ide.prompt("hello again")
        assert len(newel.requests[-1]["messages"]) == 4
        ide.session = first
        await ide.prompt("hello")
        assert "hello again" not in str(newel.requests[-1]["messages"])


async def test_sessions_are_listed_closed_and_deleted(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    async with editing(newel) as ide:
        sessions: list[str] = []
        for _ in range(2):
            await ide.new_session()
            await ide.prompt("hello there")
            sessions.append(ide.session)
        listed = await ide.agent.list_sessions(cwd=str(newel.project))
        assert {each.session_id for each in listed.sessions} == {*sessions}
        assert {each.title for each in listed.sessions} == {"hello there"}
        assert {each.cwd for each in listed.sessions} == {str(newel.project)}
        assert (await ide.agent.list_sessions(cwd="/elsewhere")).sessions == []
        await ide.agent.close_session(session_id=sessions[0])
        with pytest.raises(RequestError, match="is open"):
            await ide.prompt_in(sessions[0], "hello")
        await ide.request("session/delete", {"sessionId": sessions[0]})
        await ide.request("session/delete", {"sessionId": sessions[1]})
        assert (await ide.agent.list_sessions(cwd=str(newel.project))).sessions == []
    assert newel.sessions == []


async def test_a_deleted_session_leaves_none_of_its_subagents(with_model: WithModel) -> None:
    task = {"description": "count", "prompt": "count the lines"}
    start = {"tool_calls": [{"function": {"name": "task", "arguments": task}}]}
    scenarios = [
        scenario("look around", start, {"content": "Done."}),
        scenario("count the lines", {"content": "2."}),
    ]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in scenarios]})
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("look around")
        assert len(newel.sessions) == 2
        await ide.request("session/delete", {"sessionId": ide.session})
    assert newel.sessions == []


async def test_a_prompt_in_a_session_that_is_open_elsewhere_says_where(with_model: WithModel) -> None:
    """Some editors do not show the message of an error response."""
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("hello")
        folder = newel.sessions[0].parent.parent
        with (
            SessionManager(directory=folder, cwd=str(newel.project), session=ide.session),
            pytest.raises(RequestError, match="is open"),
        ):
            await ide.prompt("hello again")
        assert "is open in another Newel (pid" in ide.editor.text()
        assert (await ide.prompt("hello")).stop_reason == "end_turn"


async def test_a_session_continues_in_a_terminal_while_the_editor_is_open(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("hello from the editor")
        assert newel("--session", ide.session, "hello from the terminal").returncode == 0
        await ide.prompt("hello again")
    sent = str(newel.requests[-1]["messages"])
    assert "hello from the editor" in sent
    assert "hello from the terminal" in sent


@pytest.mark.slow  # seconds of waiting
async def test_a_session_with_a_running_prompt_is_refused_to_others(with_model: WithModel) -> None:
    newel = with_model(scenario("wait", bash("echo $$ > pid; exec sleep 300")))
    async with editing(newel, "--approve", "auto") as first, editing(newel) as second:
        await first.new_session()
        running = asyncio.create_task(first.prompt("wait"))
        await until_written(newel.project / "pid")
        with pytest.raises(RequestError, match="open in"):
            await second.agent.load_session(cwd=str(newel.project), session_id=first.session, mcp_servers=[])
        await first.agent.cancel(session_id=first.session)
        assert (await running).stop_reason == "cancelled"


async def test_a_vanished_editor_ends_the_commands_and_loses_no_message(with_model: WithModel) -> None:
    newel = with_model(scenario("wait", bash("echo $$ > pid; exec sleep 300")))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("wait"))
        pid = newel.project / "pid"
        await until_written(pid)
        assert ide.process.stdin is not None
        ide.process.stdin.close()
        assert await asyncio.wait_for(ide.process.wait(), 10) == 0
        await asyncio.gather(running, return_exceptions=True)
    assert ends(int(pid.read_text()))
    (saved,) = newel.sessions
    assert '"wait"' in saved.read_text()
    assert saved.read_text().count('"toolResult"') == 1


async def test_a_killed_agent_leaves_no_command_behind(with_model: WithModel) -> None:
    newel = with_model(scenario("wait", bash("echo $$ > pid; exec sleep 300")))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("wait"))
        pid = newel.project / "pid"
        await until_written(pid)
        ide.process.kill()
        await ide.process.wait()
        await asyncio.gather(running, return_exceptions=True)
    assert ends(int(pid.read_text()))


async def test_the_models_of_the_server_and_thinking_can_be_chosen(with_model: WithModel) -> None:
    newel = with_model({"models": ["thrifty"], **scenario("hello", {"content": "Hello!"})})
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel" / "config.toml").write_text(
        '[models."thrifty"]\ncontext_window = 64_000\ninput_price = 0.1\noutput_price = 0.4\n'
    )
    async with editing(newel) as ide:
        answer = await ide.new_session()
        assert [option.id for option in answer.config_options] == ["mode", "model", "thinking"]
        await ide.editor.until(lambda: ide.editor.of_kind("config_option_update"))
        model = ide.editor.of_kind("config_option_update")[-1]["configOptions"][1]
        assert {each["name"]: each.get("description") for each in model["options"]} == {
            "mock-model": None,
            "thrifty": "64k · $0.1 / $0.4 per M",
        }
        options = await ide.agent.set_config_option(
            session_id=ide.session, config_id="model", value="another-model"
        )
        assert {option.id: option.current_value for option in options.config_options}[
            "model"
        ] == "another-model"
        await ide.agent.set_config_option(session_id=ide.session, config_id="thinking", value="high")
        await ide.prompt("hello")
        assert newel.requests[-1]["model"] == "another-model"
        assert newel.requests[-1]["reasoning_effort"] == "high"
        with pytest.raises(RequestError, match="minimal, low"):
            await ide.agent.set_config_option(session_id=ide.session, config_id="thinking", value="extreme")


async def test_commands_and_templates_are_offered_and_run(with_model: WithModel) -> None:
    newel = with_model(scenario("Explain", {"content": "It adds."}))
    prompts = newel.project / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "explain.md").write_text("Explain $ARGUMENTS in one sentence.")
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.editor.until(lambda: ide.editor.of_kind("available_commands_update"))
        (offered,) = ide.editor.of_kind("available_commands_update")
        names = [command["name"] for command in offered["availableCommands"]]
        assert {"explain", "undo", "review", "compact"} <= {*names}
        await ide.prompt("/explain add.py")
        assert "Explain add.py in one sentence." in str(newel.requests[-1]["messages"])
        await ide.prompt("/tools")
        assert "bash" in ide.editor.text()
        assert len(newel.requests) == 1


async def test_the_plan_of_the_model_is_shown(with_model: WithModel) -> None:
    plan = [{"step": "Read", "status": "completed"}, {"step": "Write", "status": "in_progress"}]
    call = {"function": {"name": "update_plan", "arguments": {"plan": plan}}}
    newel = with_model(scenario("work", {"tool_calls": [call]}, {"content": "Done."}))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("work")
        (shown,) = ide.editor.of_kind("plan")
        assert [(entry["content"], entry["status"]) for entry in shown["entries"]] == [
            ("Read", "completed"),
            ("Write", "in_progress"),
        ]
        assert ide.editor.asked == []


async def test_a_failing_server_fails_the_prompt_and_not_the_session(with_model: WithModel) -> None:
    newel = with_model(
        {
            "scenarios": [
                {"name": "a", "trigger": "fail", "steps": [{"fault": {"kind": "status", "status": 401}}]},
                {"name": "b", "trigger": "hello", "steps": [{"response": {"content": "Hello!"}}]},
            ]
        }
    )
    async with editing(newel) as ide:
        await ide.new_session()
        with pytest.raises(RequestError, match=r"401|key"):
            await ide.prompt("fail")
        assert "key" in ide.editor.text(), "some clients show no error responses"
        assert (await ide.prompt("hello")).stop_reason == "end_turn"


async def test_a_limit_of_turns_is_a_stop_reason(with_model: WithModel) -> None:
    newel = with_model(scenario("loop", *[bash(f"echo {number}") for number in range(200)]))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text("[limits]\nmaxTurns = 2\n")
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        assert (await ide.prompt("loop")).stop_reason == "max_turn_requests"


async def test_without_a_model_the_editor_is_told_how_to_sign_in(with_model: WithModel) -> None:
    newel = with_model()
    for name in [name for name in newel.environ if name.startswith("LLM_")]:
        del newel.environ[name]
    async with editing(newel) as ide:
        with pytest.raises(RequestError, match="No model is configured") as raised:
            await ide.new_session()
        assert raised.value.code == -32000


async def test_a_folder_that_is_missing_is_named(with_model: WithModel) -> None:
    newel = with_model()
    async with editing(newel) as ide:
        for folder in ("relative", "/no/such/folder", "/proc/1/root/no"):
            with pytest.raises(RequestError, match=folder):
                await ide.agent.new_session(cwd=folder, mcp_servers=[])


async def test_the_tools_of_the_editors_servers_are_offered(with_model: WithModel) -> None:
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    command, *words = proxy([sys.executable, "-m", "mcp_server_time"])
    server = schema.McpServerStdio(name="clock", command=command, args=words, env=[])
    broken = schema.McpServerStdio(name="lost", command="/no/such/program", args=[], env=[])
    async with editing(newel) as ide:
        await ide.new_session(server, broken)
        async with asyncio.timeout(8):
            while "get_current_time" not in str(newel.requests[-1:]):
                await ide.prompt("hello")
                await asyncio.sleep(0.1)
        assert "MCP server 'lost': It could not be started" in ide.editor.text("agent_thought_chunk")


async def test_a_session_that_fails_ends_alone(with_model: WithModel) -> None:
    """Its folder may be removed. The others of the same editor must go on."""
    newel = with_model(scenario("hello", {"content": "Hello!"}))
    other = newel.project / "other"
    other.mkdir()
    async with editing(newel) as ide:
        await ide.new_session()
        lost = await ide.agent.new_session(cwd=str(other), mcp_servers=[])
        other.rmdir()
        with pytest.raises(RequestError, match="is not a directory"):
            await ide.agent.set_session_mode(session_id=lost.session_id, mode_id="review")
        with pytest.raises(RequestError, match="is open"):
            await ide.prompt_in(lost.session_id, "hello")
        assert (await ide.prompt("hello")).stop_reason == "end_turn"


async def test_many_sessions_share_one_process(with_model: WithModel) -> None:
    newel = with_model(scenario("write", bash("pwd > where.txt"), {"content": "Done."}))
    async with editing(newel, "--approve", "auto") as ide:
        folders = [newel.project / str(number) for number in range(4)]
        sessions: list[str] = []
        for folder in folders:
            folder.mkdir()
            answer = await ide.agent.new_session(cwd=str(folder), mcp_servers=[])
            sessions.append(answer.session_id)
        await asyncio.gather(*(ide.prompt_in(session, "write") for session in sessions))
        assert [(folder / "where.txt").read_text().strip() for folder in folders] == [*map(str, folders)]


async def test_the_plan_is_there_again_when_a_session_is_loaded(with_model: WithModel) -> None:
    items = [{"text": "Read", "status": "done"}, {"text": "Write", "status": "pending"}]
    call = {"function": {"name": "todo", "arguments": {"items": items}}}
    newel = with_model(scenario("work", {"tool_calls": [call]}, {"content": "Done."}))
    async with editing(newel) as ide:
        session = await ide.new_session()
        await ide.prompt("work")
        (first,) = ide.editor.of_kind("plan")
    async with editing(newel) as again:
        await again.agent.load_session(cwd=str(newel.project), session_id=session.session_id, mcp_servers=[])
        await again.editor.until(lambda: again.editor.of_kind("plan"))
        assert again.editor.of_kind("plan") == [first]


async def test_what_a_subagent_does_is_shown_in_its_call(with_model: WithModel) -> None:
    """Its last calls while it works, and all of them beside its answer; a question names it, and that call ends, too."""
    arguments = {"description": "Make a file", "prompt": "make it", "can_write": True}
    task = {"tool_calls": [{"function": {"name": "task", "arguments": arguments}}]}
    made = {"tool_calls": [{"function": {"name": "bash", "arguments": {"command": "touch made"}}}]}
    newel = with_model(
        {
            "scenarios": [
                scenario("go", task, {"content": "All done."})["scenarios"][0],
                scenario("make it", made, {"content": "It is made."})["scenarios"][0],
            ]
        }
    )
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("go")
        (asked,) = ide.editor.asked
        assert asked["toolCall"]["title"] == "Subagent “Make a file”: touch made"
        call = ide.editor.call()
        assert (call["title"], call["kind"], call["status"]) == ("task Make a file", "think", "completed")
        activity, answer = (each["content"]["text"] for each in call["content"])
        assert "bash touch made" in activity
        assert "It is made." in answer
        updates = [
            update
            for update in ide.editor.of_kind("tool_call_update")
            if update["toolCallId"] == asked["toolCall"]["toolCallId"]
        ]
        assert [update["status"] for update in updates] == ["completed"]
        assert "It is made." not in ide.editor.text()
    assert (newel.project / "made").exists()
