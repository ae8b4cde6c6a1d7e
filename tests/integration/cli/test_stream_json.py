"""If these fail, scripts and SDKs that drive Claude Code cannot drive Newel: a line does not parse, a prompt is lost, or the last
line says something else than what happened.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from claude_agent_sdk._internal.message_parser import parse_message

from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]
Line = dict[str, Any]

LINES = ("--output-format", "stream-json")
BOTH = (*LINES, "--input-format", "stream-json")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

LOOKS = scenario(
    "look",
    {"content": "I look first.", **bash("echo here")},
    {"content": "One fault."},
)
WAITS = {
    "scenarios": [
        *scenario("wait", bash("until [ -e go ]; do sleep 0.02; done; echo went"), {"content": "It came."})[
            "scenarios"
        ],
        *scenario("hello", {"content": "Hello."})["scenarios"],
    ]
}


def said(text: str) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n"


def control(number: int, **request: Any) -> str:
    return json.dumps({"type": "control_request", "request_id": f"r{number}", "request": request}) + "\n"


def lines_of(done: Any) -> list[Line]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def kinds(lines: list[Line]) -> list[str]:
    return [line["type"] for line in lines]


# -- output -------------------------------------------------------------------------------------------


def test_the_sdks_parser_reads_every_line_of_a_run(with_model: Make) -> None:
    """The SDK is the oracle: it raises for a missing field, and returns None for a line that it does not know."""
    done = with_model(LOOKS)(*LINES, "--verbose", "--include-partial-messages", "look at it")
    assert (done.returncode, done.stderr) == (0, "")
    lines = lines_of(done)
    parsed = [parse_message(line) for line in lines]
    assert None not in parsed
    whole = [message for message in parsed if not isinstance(message, StreamEvent)]
    assert [type(message) for message in whole] == [
        SystemMessage,
        AssistantMessage,
        AssistantMessage,
        UserMessage,
        AssistantMessage,
        ResultMessage,
    ]
    init, text, use, result, answer, last = whole
    assert isinstance(init, SystemMessage)
    assert init.data.keys() >= {
        "session_id", "cwd", "model", "tools", "permissionMode", "apiKeySource", "mcp_servers", "slash_commands", "uuid",
    }  # fmt: skip
    assert (init.subtype, init.data["model"], init.data["permissionMode"]) == (
        "init",
        "mock-model",
        "bypassPermissions",
    )
    assert isinstance(text, AssistantMessage)
    assert text.content == [TextBlock("I look first.")]
    assert isinstance(use, AssistantMessage)
    (block,) = use.content
    assert isinstance(block, ToolUseBlock)
    assert (block.name, block.input) == ("bash", {"command": "echo here"})
    assert use.message_id == text.message_id
    assert isinstance(result, UserMessage)
    assert isinstance(result.content, list)
    (returned,) = result.content
    assert isinstance(returned, ToolResultBlock)
    assert (returned.tool_use_id, returned.is_error) == (block.id, False)
    assert "here" in str(returned.content)
    assert isinstance(answer, AssistantMessage)
    assert answer.content == [TextBlock("One fault.")]
    assert isinstance(last, ResultMessage)
    assert (last.subtype, last.is_error, last.result, last.num_turns) == ("success", False, "One fault.", 2)
    assert last.usage is not None
    assert last.usage["input_tokens"] > 0
    assert last.duration_ms >= last.duration_api_ms
    assert {line["session_id"] for line in lines} == {init.data["session_id"]}
    assert len({line["uuid"] for line in lines}) == len(lines)


def test_partial_messages_make_up_the_whole_ones(with_model: Make) -> None:
    lines = lines_of(with_model(LOOKS)(*LINES, "--include-partial-messages", "look at it"))
    events = [line["event"] for line in lines if line["type"] == "stream_event"]
    first = events[: [event["type"] for event in events].index("message_stop") + 1]
    assert (first[0]["type"], first[-2]["delta"]["stop_reason"]) == ("message_start", "tool_use")
    blocks: dict[int, str] = {}
    for event in first:
        match event:
            case {"type": "content_block_start", "index": index}:
                assert index == len(blocks)
                blocks[index] = ""
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                blocks[index] += delta.get("text") or delta.get("partial_json") or ""
            case _:
                pass
    assert blocks[0] == "I look first."
    assert json.loads(blocks[1]) == {"command": "echo here"}
    message = next(line["message"] for line in lines if line["type"] == "assistant")
    assert first[0]["message"]["id"] == message["id"]


def test_json_prints_only_the_result(with_model: Make) -> None:
    newel = with_model(LOOKS)
    done = newel("--output-format", "json", "-q", "-o", "answer.txt", "look at it")
    assert (done.returncode, done.stderr) == (0, "")
    (result,) = lines_of(done)
    assert isinstance(parse_message(result), ResultMessage)
    assert result["result"] == "One fault."
    assert result["modelUsage"]["mock-model"]["inputTokens"] == result["usage"]["input_tokens"]
    assert (newel.project / "answer.txt").read_text() == "One fault.\n"
    assert result["session_id"] in newel.sessions[0].name
    again = newel("--output-format", "json", "--session", result["session_id"], "look at it again")
    assert lines_of(again)[0]["session_id"] == result["session_id"]
    assert "I look first." in again.stderr


def test_text_is_the_answer_alone_whatever_the_settings_say(with_model: Make) -> None:
    newel = with_model(LOOKS)
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text('renderer = "json"\n')
    assert newel("--output-format", "text", "look at it").stdout == "One fault.\n"


def test_the_answer_is_written_to_a_file_beside_the_lines(with_model: Make) -> None:
    newel = with_model(LOOKS)
    done = newel(*LINES, "-o", "answer.txt", "look at it")
    assert kinds(lines_of(done))[-1] == "result"
    assert (newel.project / "answer.txt").read_text() == "One fault.\n"


def test_each_prompt_ends_with_a_result(with_model: Make) -> None:
    lines = lines_of(with_model(LOOKS)(*LINES, "look at it", "--then", "look at it again"))
    assert kinds(lines).count("result") == 2
    assert kinds(lines)[-1] == "result"


def test_the_result_names_why_a_run_failed(with_model: Make) -> None:
    """If this fails, a script takes a run that was cut short for a success."""
    newel = with_model(LOOKS)
    done = newel(*LINES, "--max-turns", "1", "look at it")
    result = lines_of(done)[-1]
    assert (done.returncode, result["subtype"], result["is_error"]) == (1, "error_max_turns", True)
    assert "limit of 1 turn" in result["errors"][0]


def test_the_result_names_the_calls_that_nobody_could_approve(with_model: Make) -> None:
    newel = with_model(scenario("work", bash("touch it"), {"content": "No."}))
    done = newel(*LINES, "--approve", "ask", "work")
    result = lines_of(done)[-1]
    assert (done.returncode, result["subtype"]) == (1, "error_during_execution")
    (denial,) = result["permission_denials"]
    assert (denial["tool_name"], denial["tool_input"]) == ("bash", {"command": "touch it"})
    assert denial["tool_use_id"]


def test_a_failed_request_is_an_error_result(with_model: Make) -> None:
    newel = with_model(scenario("x", {"fault": {"kind": "status", "status": 401}}))
    done = newel(*LINES, "x")
    result = lines_of(done)[-1]
    assert (done.returncode, result["subtype"], result["num_turns"]) == (1, "error_during_execution", 1)
    assert "401" in result["errors"][0]
    assert isinstance(parse_message(result), ResultMessage)


def test_a_budget_that_is_spent_has_its_own_subtype(with_model: Make) -> None:
    newel = with_model(LOOKS)
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(
        '[models."mock-model"]\ninput_price = 1000000.0\noutput_price = 1000000.0\n'
    )
    done = newel(*LINES, "--max-cost", "0.5", "look at it")
    result = lines_of(done)[-1]
    assert result["subtype"] == "error_max_budget_usd"
    assert result["total_cost_usd"] > 0.5
    assert result["modelUsage"]["mock-model"]["costUSD"] == result["total_cost_usd"]


def test_a_signal_ends_the_run_with_a_result(with_model: Make) -> None:
    process = with_model(WAITS).start(*LINES, "wait for it")
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "assistant":
                break
        process.send_signal(signal.SIGTERM)
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert process.wait(10) == 128 + signal.SIGTERM
    assert (last["type"], last["subtype"], last["is_error"]) == ("result", "error_during_execution", True)


# -- input --------------------------------------------------------------------------------------------


def test_prompts_are_answered_in_order_also_those_that_come_during_a_run(with_model: Make) -> None:
    newel = with_model(WAITS)
    process = newel.start(*BOTH, stdin=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(said("wait for it") + said("hello"))
        process.stdin.close()  # before the first is answered
        seen = [json.loads(process.stdout.readline()) for _ in range(2)]
        (newel.project / "go").touch()
        seen += [json.loads(line) for line in process.stdout]
        assert process.wait(10) == 0
    assert kinds(seen)[0] == "system"
    assert [line["result"] for line in seen if line["type"] == "result"] == ["It came.", "Hello."]
    assert kinds(seen)[-1] == "result"


def test_a_signal_gives_every_prompt_a_result(with_model: Make) -> None:
    """Also the queued ones: a program that counts results waits for none in vain."""
    process = with_model(WAITS).start(*BOTH, stdin=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(said("wait for it") + said("hello") + control(1, subtype="initialize"))
        process.stdin.flush()
        for line in process.stdout:
            if json.loads(line)["type"] == "control_response":
                break
        process.send_signal(signal.SIGTERM)
        seen = [json.loads(line) for line in process.stdout]
        assert process.wait(10) == 128 + signal.SIGTERM
    results = [line for line in seen if line["type"] == "result"]
    assert [each["subtype"] for each in results] == ["error_during_execution"] * 2
    assert results[1]["errors"] == ["Newel was stopped before this prompt."]


def test_an_image_reaches_the_model(with_model: Make) -> None:
    newel = with_model(scenario("what", {"content": "A dot."}))
    blocks = [
        {"type": "text", "text": "what is this"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ]
    line = json.dumps({"type": "user", "message": {"role": "user", "content": blocks}, "session_id": "x"})
    done = newel(*BOTH, stdin=line + "\n")
    assert lines_of(done)[-1]["result"] == "A dot."
    content = newel.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert content[1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"


def image(**source: Any) -> str:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG} | source}
    return json.dumps({"type": "user", "message": {"role": "user", "content": [block]}})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("junk", "JSON is malformed"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `type`"),
        ('{"type":"dance"}', "Invalid value 'dance'"),
        ('{"type":"user"}', "missing required field `message`"),
        ('{"type":"user","message":{"role":"user","content":7}}', "$.message.content"),
        ('{"type":"user","message":{"role":"assistant","content":"x"}}', "$.message.role"),
        ('{"type":"user","message":{"role":"user","content":"cut', "it ends too early"),
        ('{"type":"user","message":{"role":"user","content":" "}}', "content is empty"),
        ('{"type":"user","message":{"role":"user","content":[]}}', "content is empty"),
        ('{"type":"user","message":{"role":"user","content":[{"type":"audio"}]}}', "Invalid value 'audio'"),
        (image(data="not base64"), "not base64"),
        (image(data=""), "image is empty"),
        (image(media_type="image/svg+xml"), "image/png, image/jpeg"),
        (image(type="url"), "Invalid value 'url'"),
        ("[" * 5000, "Invalid input"),
        ("\x00\x01", "Invalid input"),
    ],
)
def test_an_invalid_line_is_reported_and_has_no_other_effect(with_model: Make, line: str, words: str) -> None:
    newel = with_model(scenario("hello", {"content": "Hello."}))
    done = newel(*BOTH, stdin=f"{line}\n{said('hello')}")
    assert (done.returncode, done.stderr) == (0, "")
    _, error, *_, result = lines_of(done)
    assert (error["type"], error["subtype"], error["code"]) == ("system", "error", "bad_request")
    assert error["message"].startswith("Line 1: ")
    assert words in error["message"]
    assert result["result"] == "Hello."
    assert len(newel.requests) == 1


def test_a_line_of_100_mb_is_skipped(with_model: Make) -> None:
    newel = with_model(scenario("hello", {"content": "Hello."}))
    done = newel(*BOTH, stdin=f"{said('x' * 100_000_000)}{said('hello')}")
    _, error, *_, result = lines_of(done)
    assert "a line of more than" in error["message"]
    assert result["result"] == "Hello."


def test_control_requests_are_answered_by_their_ids(with_model: Make) -> None:
    newel = with_model(scenario("hello", {"content": "Hello."}))
    given = control(1, subtype="initialize", hooks=None) + control(2, subtype="set_model", model="other")
    given += control(3, subtype="dance") + control(4) + '{"type":"keep_alive"}\n' + said("hello")
    responses = [line["response"] for line in lines_of(newel(*BOTH, stdin=given)) if "response" in line]
    assert [(each["request_id"], each["subtype"]) for each in responses] == [
        ("r1", "success"),
        ("r2", "success"),
        ("r3", "error"),
        ("r4", "error"),
    ]
    assert [command["name"] for command in responses[0]["response"]["commands"]] == ["init", "remember"]
    assert "'dance'" in responses[2]["error"]
    assert newel.requests[0]["model"] == "other"


def test_a_reader_that_has_gone_ends_it_quietly(with_model: Make) -> None:
    newel = with_model(WAITS)
    process = newel.start(*BOTH, stdin=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(said("wait for it"))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        (newel.project / "go").touch()
        assert process.wait(10) == 1
        assert process.stderr.read() == ""


# -- approval -----------------------------------------------------------------------------------------

ASKED = (*BOTH, "--approve", "ask", "--permission-prompt-tool", "stdio")
TOUCHES = scenario("touch", bash("touch made"), {"content": "Over."})


def asked(newel: Newel) -> tuple[Any, Line]:
    """A process that asks whether it may run a command, and its question."""
    process = newel.start(*ASKED, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(said("touch it"))
    process.stdin.flush()
    for line in process.stdout:
        if (question := json.loads(line))["type"] == "control_request":
            return process, question
    raise AssertionError("there was no question")


def respond(question: Line, **response: Any) -> str:
    inner = {"subtype": "success", "request_id": question["request_id"], "response": response}
    return json.dumps({"type": "control_response", "response": inner}) + "\n"


@pytest.mark.parametrize(
    ("response", "ran", "word"),
    [
        ({"behavior": "allow"}, True, ""),
        ({"behavior": "allow", "updatedInput": {"command": "touch made"}}, True, ""),
        ({"behavior": "allow", "updatedInput": {"command": "rm -r ."}}, False, "rm -r ."),
        ({"behavior": "deny", "message": "Not that."}, False, "Not that."),
        ({"behavior": "Allow"}, False, "declined"),
        ({}, False, "declined"),
    ],
)
def test_only_a_clear_yes_lets_a_call_run(
    with_model: Make, response: dict[str, Any], ran: bool, word: str
) -> None:
    newel = with_model(TOUCHES)
    process, question = asked(newel)
    with process:
        request = question["request"]
        assert (request["subtype"], request["tool_name"], request["input"], request["description"]) == (
            "can_use_tool",
            "bash",
            {"command": "touch made"},
            "touch made",
        )
        assert not (newel.project / "made").exists()
        process.stdin.write(respond(question | {"request_id": "other"}, behavior="allow"))
        process.stdin.write(respond(question, **response))
        process.stdin.close()
        rest = [json.loads(line) for line in process.stdout]
        assert process.wait(10) == 0
    assert "No question with this request_id" in rest[0]["message"]
    assert (newel.project / "made").exists() == ran
    assert bool(rest[-1]["permission_denials"]) != ran
    assert word in newel.requests[-1]["messages"][-1]["content"]


def test_the_end_of_input_refuses_a_pending_call(with_model: Make) -> None:
    newel = with_model(TOUCHES)
    process, _ = asked(newel)
    with process:
        process.stdin.close()
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert process.wait(10) == 1
    assert last["type"] == "result"
    assert last["permission_denials"]
    assert not (newel.project / "made").exists()


def test_a_denial_can_stop_the_prompt_and_an_interrupt_takes_the_question_back(with_model: Make) -> None:
    newel = with_model(TOUCHES)
    process, question = asked(newel)
    with process:
        process.stdin.write(respond(question, behavior="deny", message="No.", interrupt=True))
        process.stdin.write(said("touch it again"))
        process.stdin.flush()
        lines: list[Line] = []
        while not lines or lines[-1]["type"] != "control_request":
            lines.append(json.loads(process.stdout.readline()))
        assert [line["errors"] for line in lines if line["type"] == "result"] == [["Stopped."]]
        process.stdin.write(control(1, subtype="interrupt"))
        process.stdin.close()
        rest = [json.loads(line) for line in process.stdout]
    cancelled = next(line for line in rest if line["type"] == "control_cancel_request")
    assert cancelled["request_id"] == lines[-1]["request_id"]
    assert not (newel.project / "made").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([*LINES, "-q", "x"], "--quiet"),
        ([*LINES, "--json", "x"], "--json"),
        ([*LINES, "--renderer", "console", "x"], "--renderer"),
        (["--input-format", "stream-json"], "needs --output-format stream-json"),
        (["--input-format", "stream-json", "--output-format", "json"], "needs --output-format stream-json"),
        ([*BOTH, "a prompt"], "from standard input"),
        ([*BOTH, "-o", "x"], "--output"),
        (["--include-partial-messages", "x"], "needs --output-format stream-json"),
        (["--verbose", "x"], "--renderer console"),
        (["--permission-prompt-tool", "stdio", "x"], "needs --input-format stream-json"),
        (["--output-format", "xml", "x"], "stream-json"),
        ([*LINES], "the prompt is empty"),
    ],
)
def test_options_that_make_no_sense_together_are_usage_errors(
    with_model: Make, words: list[str], problem: str
) -> None:
    newel = with_model()
    done = newel(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert newel.requests == []


# -- the SDK itself -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("default")  # the SDK's own
def test_the_sdk_drives_newel(with_model: Make) -> None:
    """A program with the SDK needs only the path of another command."""
    newel = with_model(WAITS)
    options = ClaudeAgentOptions(
        cli_path=BIN / "newel",
        cwd=newel.project,
        env=newel.environ,
        include_partial_messages=True,
        model="other",
        max_turns=5,
        tools=["read", "bash"],
        system_prompt={"type": "preset", "preset": "claude_code"},
        extra_args={"approve": "auto"},
    )

    stopped: list[Any] = []
    answered: list[Any] = []

    async def drive() -> None:
        async with ClaudeSDKClient(options) as client:
            await client.query("wait for it")
            async for message in client.receive_messages():
                if isinstance(message, AssistantMessage):
                    break
            await client.interrupt()
            stopped.extend([message async for message in client.receive_response()])
            await client.query("hello")
            answered.extend([message async for message in client.receive_response()])

    anyio.run(drive)
    assert isinstance(stopped[-1], ResultMessage)
    assert (stopped[-1].subtype, stopped[-1].is_error) == ("error_during_execution", True)
    assert isinstance(answered[-1], ResultMessage)
    assert answered[-1].result == "Hello."
    request = newel.requests[-1]
    assert request["model"] == "other"
    assert [tool["function"]["name"] for tool in request["tools"]] == ["read", "bash"]
    assert "You are Newel" in request["messages"][0]["content"]


@pytest.mark.filterwarnings("default")  # the SDK's own
def test_the_sdks_callback_decides_about_calls(with_model: Make) -> None:
    newel = with_model(TOUCHES)
    seen: list[Any] = []
    results: list[Any] = []

    async def decide(
        name: str, given: dict[str, Any], _: Any
    ) -> PermissionResultAllow | PermissionResultDeny:
        seen.append((name, given))
        return PermissionResultDeny(message="Not yet.") if len(seen) == 1 else PermissionResultAllow()

    options = ClaudeAgentOptions(
        cli_path=BIN / "newel",
        cwd=newel.project,
        env=newel.environ,
        can_use_tool=decide,
        extra_args={"approve": "ask"},
    )

    async def drive() -> None:
        async with ClaudeSDKClient(options) as client:
            for _ in range(2):
                await client.query("touch it")
                results.extend([message async for message in client.receive_response()])
                results.append((newel.project / "made").exists())

    anyio.run(drive)
    assert seen == [("bash", {"command": "touch made"})] * 2
    assert [each for each in results if isinstance(each, bool)] == [False, True]
    assert "Not yet." in str(newel.requests[1]["messages"])


def test_a_program_sees_whose_message_each_line_is(with_model: Make) -> None:
    task = {"function": {"name": "task", "arguments": {"description": "Look", "prompt": "search it"}}}
    newel = with_model(
        {
            "scenarios": [
                scenario("go", {"tool_calls": [task]}, {"content": "Done."})["scenarios"][0],
                scenario("search it", bash("echo here"), {"content": "It is here."})["scenarios"][0],
            ]
        }
    )
    lines = lines_of(newel(*LINES, "--verbose", "--tools", "read,bash,task", "go"))
    [call] = [
        block["id"]
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use" and block["name"] == "task"
    ]
    said = [parse_message(line) for line in lines]
    of_subagent = [
        each
        for each in said
        if isinstance(each, AssistantMessage | UserMessage) and each.parent_tool_use_id == call
    ]
    texts = [
        block.text
        for each in of_subagent
        if isinstance(each, AssistantMessage)
        for block in each.content
        if isinstance(block, TextBlock)
    ]
    assert texts == ["It is here."]
    others = {line.get("parent_tool_use_id") for line in lines if line["type"] in {"assistant", "user"}}
    assert others == {None, call}
    assert lines[-1]["result"] == "Done."
