"""If these fail, an agent in an editor does what nobody has allowed, or asks what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from acp.exceptions import RequestError

from tests.acp_editor import editing
from tests.requirements import require_program
from tests.support import BIN, Newel, bash, scenario

pytestmark = pytest.mark.anyio

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}
TOUCH = bash("touch made.txt")


def writing(content: str) -> dict[str, Any]:
    arguments = {"file_path": "a.txt", "content": content}
    return {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}


async def test_a_change_is_shown_exactly_before_it_is_allowed(with_model: WithModel) -> None:
    newel = with_model(scenario("write", writing("new\n"), DONE))
    (newel.project / "a.txt").write_text("old\n")
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("write")
        (asked,) = ide.editor.asked
        assert [option["kind"] for option in asked["options"]] == [
            "allow_once",
            "allow_always",
            "allow_always",
            "reject_once",
            "reject_always",
        ]
        call = asked["toolCall"]
        assert call["toolCallId"] == ide.editor.call()["toolCallId"]
        assert call["kind"] == "edit"
        (diff,) = [content for content in call["content"] if content["type"] == "diff"]
        assert (diff["path"], diff["oldText"], diff["newText"]) == (
            str(newel.project / "a.txt"),
            "old\n",
            "new\n",
        )
    assert (newel.project / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("name", ["a.txt", "a--- b.txt", "--- b.txt"])
async def test_where_a_link_leads_is_shown_whatever_its_name(with_model: WithModel, name: str) -> None:
    """A hostile repository names its links so that the question would end before their targets."""
    arguments = {"file_path": name, "content": "new\n"}
    call = {"tool_calls": [{"function": {"name": "write", "arguments": arguments}}]}
    newel = with_model(scenario("write", call, DONE))
    outside = newel.home / "outside.txt"
    outside.write_text("old\n")
    (newel.project / name).symlink_to(outside)
    async with editing(newel) as ide:
        ide.editor.decide = lambda _: "reject_once"
        await ide.new_session()
        await ide.prompt("write")
        assert f"{name} → {outside}" in str(ide.editor.asked[0]["toolCall"]["content"])


@pytest.mark.parametrize("kind", ["reject_once", "reject_always", None])
async def test_a_rejected_command_does_not_run(with_model: WithModel, kind: str | None) -> None:
    newel = with_model(scenario("run", TOUCH, DONE))
    async with editing(newel) as ide:
        ide.editor.decide = lambda _: kind
        await ide.new_session()
        await ide.prompt("run")
        assert "touch made.txt" in str(ide.editor.asked[0]["toolCall"]["content"])
        assert ide.editor.call()["status"] == "failed"
    assert not (newel.project / "made.txt").exists()
    assert "declined" in str(newel.requests[-1]["messages"][-1])


@pytest.mark.parametrize(
    ("kind", "asked"), [("allow_once", 2), ("allow_always", 1), ("reject_once", 2), ("reject_always", 1)]
)
async def test_always_holds_for_exactly_the_same_call(with_model: WithModel, kind: str, asked: int) -> None:
    newel = with_model(scenario("run", TOUCH, bash("rm -f made.txt"), TOUCH, DONE))
    async with editing(newel) as ide:
        ide.editor.decide = lambda request: kind if "touch" in str(request) else "allow_once"
        await ide.new_session()
        await ide.prompt("run")
        assert sum("touch" in str(request) for request in ide.editor.asked) == asked
    assert (newel.project / "made.txt").exists() == kind.startswith("allow")


async def test_a_rule_is_allowed_for_the_project(with_model: WithModel) -> None:
    """Also in the next session, and for the same command with other arguments."""
    newel = with_model(scenario("run", bash("touch one"), bash("touch two"), DONE))
    for asked in (1, 0):
        async with editing(newel) as ide:
            ide.editor.decide = lambda _: "rule"
            await ide.new_session()
            await ide.prompt("run")
            assert len(ide.editor.asked) == asked
    assert (newel.project / "two").exists()
    assert "bash(touch *)" in newel("permissions").stdout


@pytest.mark.parametrize("damaged", [False, True])
async def test_a_server_is_asked_about_and_allowed_for_the_project(
    with_model: WithModel, damaged: bool
) -> None:
    """A server that cannot be kept is named, and allowed for the session."""
    require_program("bwrap", "bubblewrap")
    fetch = "python3 -c 'import urllib.request as u; u.urlopen(\"http://nowhere.invalid/\", timeout=9)'"
    newel = with_model(scenario("run", bash(f"{fetch}; {fetch}"), DONE))
    newel.environ["NEWEL_SANDBOX"] = "workspace"
    if damaged:
        (newel.home / ".newel").mkdir()
        (newel.home / ".newel" / "sandbox_servers.json").write_text("{")
    async with editing(newel, "--approve", "auto") as ide:
        ide.editor.decide = lambda _: "rule"
        await ide.new_session()
        await ide.prompt("run")
        (asked,) = ide.editor.asked
        assert [option["name"] for option in asked["options"]] == [
            "Allow for this session",
            "Always allow in this project: the server nowhere.invalid",
            "Reject",
        ]
        assert "nowhere.invalid" in str(asked["toolCall"]["content"])
        assert (
            "Not saved for this project: the server nowhere.invalid" in str(ide.editor.updates)
        ) is damaged
    assert str(newel.requests[-1]["messages"][-1]).count("HTTP Error 502") == 2
    assert ("nowhere.invalid" in newel("permissions").stdout) is not damaged


async def test_a_command_outside_of_the_sandbox_says_so_in_its_title(with_model: WithModel) -> None:
    """Some editors show no more than the title of a call, and its answers."""
    require_program("bwrap", "bubblewrap")
    arguments = {"command": "touch ~/made", "unsandboxed": True}
    step = {"tool_calls": [{"function": {"name": "bash", "arguments": arguments}}]}
    newel = with_model(scenario("run", step, DONE))
    newel.environ["NEWEL_SANDBOX"] = "workspace"
    async with editing(newel, "--approve", "auto") as ide:
        ide.editor.decide = lambda _: "reject_once"
        await ide.new_session()
        await ide.prompt("run")
        (asked,) = ide.editor.asked
        assert ide.editor.call()["title"] == "Outside of the sandbox: touch ~/made"
        assert "outside of the sandbox" in str(asked["toolCall"]["content"])
    assert not (newel.home / "made").exists()


async def test_hidden_characters_of_a_command_are_shown(with_model: WithModel) -> None:
    """A command could look harmless."""
    newel = with_model(scenario("run", bash("echo safe \u202e# mr"), DONE))
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.prompt("run")
        assert "\u202e" not in str(ide.editor.asked[0]["toolCall"]["content"])
        assert "\u202e" not in ide.editor.call()["title"]


async def test_cancelling_takes_a_question_back(with_model: WithModel) -> None:
    newel = with_model(scenario("run", TOUCH, DONE))
    async with editing(newel) as ide:
        ide.editor.hold = asyncio.Event()
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("run"))
        await ide.editor.until(lambda: ide.editor.asked)
        await ide.agent.cancel(session_id=ide.session)
        assert (await running).stop_reason == "cancelled"
        ide.editor.hold.set()  # the late answer concerns nobody
        ide.editor.hold = None
        await asyncio.sleep(0.2)
    assert not (newel.project / "made.txt").exists()


async def test_modes_are_the_approval_modes(with_model: WithModel) -> None:
    newel = with_model(scenario("run", TOUCH, DONE))
    async with editing(newel) as ide:
        answer = await ide.new_session()
        assert [mode.id for mode in answer.modes.available_modes] == [
            "ask",
            "auto",
            "review",
            "plan",
            "read-only",
        ]
        await ide.agent.set_session_mode(session_id=ide.session, mode_id="read-only")
        await ide.prompt("run")
        assert not (newel.project / "made.txt").exists()
        await ide.agent.set_session_mode(session_id=ide.session, mode_id="auto")
        await ide.prompt("run again")
        assert (newel.project / "made.txt").exists()
        assert ide.editor.asked == []
        assert [update["currentModeId"] for update in ide.editor.of_kind("current_mode_update")] == [
            "read-only",
            "auto",
        ]
        with pytest.raises(RequestError, match="read-only"):
            await ide.agent.set_session_mode(session_id=ide.session, mode_id="yolo")


async def test_a_mode_counts_from_the_next_call_of_a_running_prompt(with_model: WithModel) -> None:
    newel = with_model(scenario("run", bash("touch one"), bash("touch two"), DONE))
    async with editing(newel) as ide:
        ide.editor.hold = asyncio.Event()
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("run"))
        await ide.editor.until(lambda: ide.editor.asked)
        await ide.agent.set_session_mode(session_id=ide.session, mode_id="auto")
        ide.editor.hold.set()
        await running
        assert len(ide.editor.asked) == 1


async def test_review_keeps_changes_back_until_they_are_kept(with_model: WithModel) -> None:
    newel = with_model(scenario("write", writing("new\n"), DONE))
    (newel.project / "a.txt").write_text("old\n")
    async with editing(newel) as ide:
        await ide.new_session()
        await ide.agent.set_config_option(session_id=ide.session, config_id="mode", value="review")
        await ide.prompt("write")
        assert (newel.project / "a.txt").read_text() == "old\n"
        await ide.prompt("/keep --all")
        assert (newel.project / "a.txt").read_text() == "new\n"
        await ide.agent.set_session_mode(session_id=ide.session, mode_id="ask")
        await ide.prompt("hello")
        assert len(newel.requests[-1]["messages"]) > 4


async def test_a_command_of_an_asking_session_starts_no_agent_with_more_rights(with_model: WithModel) -> None:
    """Another session of the same editor may run without asking."""
    newel = with_model(scenario("run", bash(f"{BIN}/newel --approve auto -p hi; true"), DONE))
    async with editing(newel) as ide:
        free = await ide.new_session()
        await ide.agent.set_session_mode(session_id=free.session_id, mode_id="auto")
        await ide.new_session()
        await ide.prompt("run")
    assert "cannot run with --approve auto" in str(newel.requests[-1]["messages"][-1])
