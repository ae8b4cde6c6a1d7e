"""If these fail, an agent overwrites what the user has not saved, or its changes through the editor cannot be undone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acp_editor import Editor, editing, until_written
from tests.processes import ends
from tests.support import Newel, bash, scenario

pytestmark = pytest.mark.anyio

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def replacing(name: str, old: str, new: str) -> dict[str, Any]:
    return tool("edit", file_path=name, old_string=old, new_string=new)


def last_result(newel: Newel) -> str:
    return str(newel.requests[-1]["messages"][-1]["content"])


async def test_an_unsaved_buffer_is_read_and_changed_and_only_that_change_is_undone(
    with_model: WithModel,
) -> None:
    newel = with_model(scenario("fix", tool("read", file_path="a.py"), replacing("a.py", "2", "3"), DONE))
    file = newel.project / "a.py"
    file.write_text("x = 1\n")
    editor = Editor()
    editor.buffers[str(file)] = "x = 1\ny = 2  # not saved yet\n"
    async with editing(newel, "--approve", "auto", editor=editor) as ide:
        await ide.new_session()
        await ide.prompt("fix")
        assert editor.written == [str(file)]
        assert file.read_text() == "x = 1\ny = 3  # not saved yet\n"
        (diff,) = editor.call()["content"]
        assert (diff["oldText"], diff["newText"]) == (
            "x = 1\ny = 2  # not saved yet\n",
            "x = 1\ny = 3  # not saved yet\n",
        )
        assert editor.call()["locations"] == [{"path": str(file), "line": 2}]
    assert newel("undo", "--yes").returncode == 0
    assert file.read_text() == "x = 1\ny = 2  # not saved yet\n"


async def test_undoing_in_the_editor_goes_through_the_editor_and_asks(with_model: WithModel) -> None:
    newel = with_model(scenario("fix", tool("write", file_path="new.txt", content="hello\n"), DONE))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("fix")
        assert (newel.project / "new.txt").read_text() == "hello\n"
        ide.editor.decide = lambda _: "reject_once"
        await ide.prompt("/undo")
        assert (newel.project / "new.txt").exists()
        ide.editor.decide = lambda _: "allow_once"
        await ide.prompt("/undo")
        assert not (newel.project / "new.txt").exists()
        assert "new.txt" in str(ide.editor.asked[-1])


async def test_a_command_that_fails_says_why_and_the_session_goes_on(with_model: WithModel) -> None:
    """Clients take an error response for the end of the agent."""
    async with editing(with_model(scenario("hello", DONE))) as ide:
        await ide.new_session()
        assert (await ide.prompt("/undo")).stop_reason == "end_turn"
        assert "undo" in ide.editor.text()
        assert (await ide.prompt("hello")).stop_reason == "end_turn"


async def test_what_the_editor_formats_as_it_saves_is_recorded_as_it_is(with_model: WithModel) -> None:
    newel = with_model(scenario("write", tool("write", file_path="a.py", content="x=1\n"), DONE))
    file = newel.project / "a.py"
    file.write_text("x = 0\n")
    async with editing(newel, "--approve", "auto") as ide:
        ide.editor.on_save = lambda text: text.replace("=", " = ")
        await ide.new_session()
        await ide.prompt("write")
    assert file.read_text() == "x = 1\n"
    assert "+x = 1" in newel("review").stdout
    assert newel("undo", "--yes").returncode == 0
    assert file.read_text() == "x = 0\n"


async def test_line_ends_and_byte_order_marks_stay(with_model: WithModel) -> None:
    """Editors show neither."""
    newel = with_model(scenario("fix", replacing("a.txt", "two", "three"), DONE))
    file = newel.project / "a.txt"
    file.write_bytes("\ufeffone\r\ntwo\r\n".encode())
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("fix")
    assert file.read_bytes() == "\ufeffone\r\nthree\r\n".encode()


@pytest.mark.parametrize("data", [b"caf\xe9 = 2\n", b"a\0 2\n"])
async def test_files_that_an_editor_would_change_are_written_directly(
    with_model: WithModel, data: bytes
) -> None:
    newel = with_model(scenario("fix", replacing("a.bin", "2", "3"), DONE))
    file = newel.project / "a.bin"
    file.write_bytes(data)
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("fix")
        assert ide.editor.written == []
    assert file.read_bytes() == data.replace(b"2", b"3")


async def test_a_link_that_comes_before_the_write_is_not_followed(
    with_model: WithModel, tmp_path: Path
) -> None:
    """The editor follows links: the file outside would be overwritten."""
    newel = with_model(scenario("fix", replacing("sub/a.txt", "two", "three"), DONE))
    file, outside = newel.project / "sub/a.txt", tmp_path / "outside"
    file.parent.mkdir()
    file.write_text("two\n")
    outside.mkdir()
    (outside / "a.txt").write_text("two\n")

    def swap() -> None:
        if not file.parent.is_symlink():
            file.parent.rename(newel.project / "moved")
            file.parent.symlink_to(outside)

    async with editing(newel, "--approve", "auto") as ide:
        ide.editor.on_read = swap
        await ide.new_session()
        await ide.prompt("fix")
        assert ide.editor.written == []
    assert (outside / "a.txt").read_text() == "two\n"


async def test_a_write_that_the_editor_refuses_is_not_done_behind_its_back(with_model: WithModel) -> None:
    newel = with_model(scenario("write", tool("write", file_path="a.txt", content="hello\n"), DONE))
    async with editing(newel, "--approve", "auto") as ide:
        ide.editor.refuses_writes = True
        await ide.new_session()
        await ide.prompt("write")
        assert ide.editor.call()["status"] == "failed"
    assert not (newel.project / "a.txt").exists()
    assert "the editor refused" in last_result(newel)


async def test_without_the_editors_files_the_disk_is_used(with_model: WithModel) -> None:
    newel = with_model(scenario("write", tool("write", file_path="deep/er/a.txt", content="hello\n"), DONE))
    async with editing(newel, "--approve", "auto", files=False) as ide:
        await ide.new_session()
        await ide.prompt("write")
        assert (ide.editor.read, ide.editor.written) == ([], [])
    assert (newel.project / "deep/er/a.txt").read_text() == "hello\n"


async def test_a_new_file_in_a_new_folder_is_written_by_the_editor_and_undone(with_model: WithModel) -> None:
    newel = with_model(scenario("write", tool("write", file_path="deep/er/a.txt", content="hello\n"), DONE))
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("write")
        assert ide.editor.written == [str(newel.project / "deep/er/a.txt")]
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "deep").exists()


async def test_a_command_runs_in_a_terminal_of_the_editor_and_is_recorded(with_model: WithModel) -> None:
    newel = with_model(scenario("run", bash("echo one; echo two >&2; echo new > made.txt; exit 3"), DONE))
    async with editing(newel, "--approve", "auto", terminals=True) as ide:
        await ide.new_session()
        await ide.prompt("run")
        (shown,) = [content for content in ide.editor.call()["content"] if content["type"] == "terminal"]
        assert shown["terminalId"] in ide.editor.terminals
        assert ide.editor.call()["status"] == "completed"
    assert "one\ntwo" in last_result(newel)
    assert last_result(newel).endswith("exit code: 3"), "nothing is left running"
    assert newel("undo", "--yes").returncode == 0
    assert not (newel.project / "made.txt").exists()


async def test_no_key_reaches_a_command_in_the_editors_terminal(with_model: WithModel) -> None:
    """The shell of an editor may set keys that Newel itself does not have."""
    newel = with_model(scenario("run", bash('echo "<$OPENAI_API_KEY$LLM_AUTH_TOKEN>"'), DONE))
    newel.environ.pop("OPENAI_API_KEY", None)
    async with editing(newel, "--approve", "auto", terminals=True) as ide:
        await ide.new_session()
        await ide.prompt("run")
    assert "<>" in last_result(newel)


async def test_a_command_in_a_terminal_ends_with_its_time_limit(with_model: WithModel) -> None:
    newel = with_model(
        scenario(
            "run", tool("bash", command="echo begun; setsid sleep 300 & echo $! > pid; wait", timeout=1), DONE
        )
    )
    async with editing(newel, "--approve", "auto", terminals=True) as ide:
        await ide.new_session()
        await ide.prompt("run")
    assert "Stopped after 1 seconds" in last_result(newel)
    assert "begun" in last_result(newel)
    assert ends(int((newel.project / "pid").read_text()))


async def test_cancelling_ends_a_command_in_a_terminal(with_model: WithModel) -> None:
    newel = with_model(scenario("run", bash("setsid sleep 300 & echo $! > pid; echo begun; wait")))
    async with editing(newel, "--approve", "auto", terminals=True) as ide:
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("run"))
        await until_written(newel.project / "pid")
        await ide.agent.cancel(session_id=ide.session)
        assert (await running).stop_reason == "cancelled"
    assert ends(int((newel.project / "pid").read_text()))


async def test_a_command_killed_by_a_signal_counts_as_in_a_shell(with_model: WithModel) -> None:
    newel = with_model(scenario("run", bash("kill -KILL $$"), DONE))
    async with editing(newel, "--approve", "auto", terminals=True) as ide:
        await ide.new_session()
        await ide.prompt("run")
    assert f"exit code: {128 + signal.SIGKILL}" in last_result(newel)


async def test_live_output_is_shown_without_terminals(with_model: WithModel) -> None:
    newel = with_model(
        scenario("run", bash("echo early; until [ -e go ]; do sleep 0.02; done; echo late"), DONE)
    )
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        running = asyncio.create_task(ide.prompt("run"))
        await ide.editor.until(lambda: "early" in str(ide.editor.of_kind("tool_call_update")))
        assert "late" not in str(ide.editor.of_kind("tool_call_update"))
        (newel.project / "go").touch()
        await running
        assert "late" in str(ide.editor.call()["content"])


@pytest.mark.parametrize(
    "change", [tool("write", file_path="link", content="new\n"), replacing("link", "old", "new")]
)
async def test_a_file_whose_name_is_no_text_is_changed_without_the_editor(
    with_model: WithModel, change: dict[str, Any]
) -> None:
    """The editor would be told another name, and would change that file."""
    newel = with_model(scenario("change", change, DONE))
    file = newel.project / os.fsdecode(b"bad\xff.txt")
    file.write_text("old\n")
    (newel.project / "link").symlink_to(file.name)
    async with editing(newel, "--approve", "auto") as ide:
        await ide.new_session()
        await ide.prompt("change")
        assert ide.editor.written == []
    assert file.read_text() == "new\n"
