"""If these fail, a command of the model turns the editor into its way out of the sandbox: editors open files by their paths, and a process
that the command has left swaps what is at a path for a link, after Newel has checked it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acp_editor import Editor, editing
from tests.integration.cli.test_sandbox_mcp import prepare
from tests.requirements import require_program
from tests.support import Newel, bash, scenario

require_program("bwrap", "bubblewrap")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,  # an editor for each attack; test_files.py has the quick tests
]

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}
SECRET = "PRIVATE-KEY-7f3a"

CALLS = 100
"""Calls of the model while a process swaps. Without protection the editor was misled in ten of them or more."""

FEW_SWAPS = 20
"""Fewer would prove nothing: on a busy machine the model's calls may be over before."""

SWAP = """
import ctypes, os, resource, sys, time
if "escaped" in sys.argv:  # of the marks by which Newel knows a command's processes
    resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 50, resource.RLIM_INFINITY))
    if os.fork(): os._exit(0)
    os.setsid()
    if "again" not in sys.argv: os.execve(sys.executable, [sys.executable, *sys.argv, "again"], {})
libc = ctypes.CDLL(None)
print("swaps", file=open("started", "w"), flush=True)
swaps, until = 0, time.time() + 30
while time.time() < until and not os.path.exists("stop"):
    libc.renameat2(-100, sys.argv[1].encode(), -100, b"lnk", 2)  # RENAME_EXCHANGE
    swaps += 1
    time.sleep(0.0015)
open("swaps", "w").write(f"{swaps}")
"""

BEGIN = "(setsid python3 swap.py {} {} >/dev/null 2>&1 &); until [ -e started ]; do sleep 0.02; done"
END = "touch stop; until [ -s swaps ]; do sleep 0.02; done; sleep 0.2"
LEAVE = "(setsid sleep 30 >/dev/null 2>&1 &)"
KINDS = ("marked", "escaped")


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def calls(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(tools)}


def swapping(name: str, kind: str, *tools: dict[str, Any]) -> dict[str, Any]:
    """A command starts to swap ``name`` and ``lnk`` in the background; then the model makes calls, ten at a time."""
    steps = [calls(*tools[at : at + 10]) for at in range(0, len(tools), 10)]
    return scenario("go", bash(BEGIN.format(name, kind)), *steps, bash(END), DONE)


def confined(newel: Newel) -> Newel:
    newel.environ["NEWEL_SANDBOX"] = ""
    (newel.project / "swap.py").write_text(SWAP)
    (newel.home / ".ssh").mkdir()
    (newel.home / ".ssh/id_ed25519").write_text(SECRET)
    return newel


async def prompt(newel: Newel, editor: Editor, *prompts: str) -> None:
    editor.decide = lambda _: "reject_once"
    async with editing(newel, "--approve", "auto", editor=editor) as ide:
        await ide.new_session()
        for text in prompts or ("go",):
            await ide.prompt(text)


async def attack(
    newel: Newel, editor: Editor, name: str, place: Callable[[], object], elsewhere: Path
) -> int:
    """Prompt until ``name``, which ``place`` makes, was often enough swapped for a link that leads ``elsewhere``; returns how many
    prompts that took.
    """
    prompts = swaps = 0
    while swaps <= FEW_SWAPS:
        for left in (name, "lnk", "started", "stop", "swaps"):
            path = newel.project / left
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        place()
        (newel.project / "lnk").symlink_to(elsewhere)
        await prompt(newel, editor)
        prompts += 1
        swaps += int((newel.project / "swaps").read_text())
    return prompts


def result(newel: Newel, number: int) -> str:
    found = [str(each["content"]) for each in newel.requests[-1]["messages"] if each["role"] == "tool"]
    return found[number]


def notes(editor: Editor) -> int:
    return editor.text("agent_thought_chunk").count("reads and writes files directly")


@pytest.mark.parametrize("kind", KINDS)
async def test_no_byte_of_a_key_reaches_the_model(with_model: WithModel, kind: str) -> None:
    reads = [tool("read", file_path="f", limit=number) for number in range(1, CALLS + 1)]
    newel, editor = confined(with_model(swapping("f", kind, *reads))), Editor()
    file, key = newel.project / "f", newel.home / ".ssh/id_ed25519"
    prompts = await attack(newel, editor, "f", lambda: file.write_text("harmless\n"), key)
    assert SECRET not in json.dumps(newel.server.requests, default=str)
    assert editor.read == []
    assert notes(editor) == prompts


@pytest.mark.parametrize("kind", KINDS)
async def test_no_file_lands_outside(with_model: WithModel, tmp_path: Path, kind: str) -> None:
    writes = [
        tool("write", file_path=f"d/{number}/new.txt" if number % 2 else f"d/{number}.txt", content="new\n")
        for number in range(CALLS)
    ]
    newel, editor = confined(with_model(swapping("d", kind, *writes))), Editor()
    outside = tmp_path / "outside"
    outside.mkdir()
    await attack(newel, editor, "d", (newel.project / "d").mkdir, outside)
    assert list(outside.iterdir()) == []
    assert editor.written == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_editor_is_asked_again_when_the_process_has_ended(with_model: WithModel, kind: str) -> None:
    newel = confined(
        with_model(
            scenario(
                "go",
                calls(tool("read", file_path="a.txt")),
                bash(BEGIN.format("other", kind)),
                calls(tool("read", file_path="a.txt", limit=5)),
                bash(END),
                calls(tool("read", file_path="a.txt", limit=6)),
                calls(tool("write", file_path="b.txt", content="new\n")),
                DONE,
            )
        )
    )
    file, editor = newel.project / "a.txt", Editor()
    file.write_text("saved\n")
    editor.buffers[str(file)] = "not saved yet\n"
    await prompt(newel, editor)
    assert "not saved yet" in result(newel, 0)
    assert "not saved yet" not in result(newel, 2)
    assert "not saved yet" in result(newel, 4)
    assert editor.written == [str(newel.project / "b.txt")]
    assert notes(editor) == 1


async def test_commands_that_leave_nothing_do_not_keep_the_editor_out(with_model: WithModel) -> None:
    steps = [bash(f"echo {number} | cat; git status; true") for number in range(3)]
    newel = confined(
        with_model(
            scenario(
                "go",
                *steps,
                calls(tool("edit", file_path="a.txt", old_string="not saved", new_string="changed")),
                DONE,
            )
        )
    )
    file, editor = newel.project / "a.txt", Editor()
    file.write_text("saved\n")
    editor.buffers[str(file)] = "not saved\n"
    await prompt(newel, editor)
    assert editor.written == [str(file)]
    assert file.read_text() == "changed\n"
    assert notes(editor) == 0


async def test_a_process_that_a_command_has_left_counts_without_a_sandbox(with_model: WithModel) -> None:
    newel = confined(with_model(scenario("go", bash(LEAVE), calls(tool("read", file_path="a.txt")), DONE)))
    newel.environ["NEWEL_SANDBOX"] = "off"
    (newel.project / "a.txt").write_text("saved\n")
    editor = Editor()
    await prompt(newel, editor)
    assert "saved" in result(newel, 1)
    assert editor.read == []
    assert notes(editor) == 1


async def test_a_tool_server_in_the_sandbox_counts_too(with_model: WithModel) -> None:
    """Its scripts are files of the project, which a command may have changed."""
    act = tool("rogue__act")
    newel = confined(with_model(scenario("go", calls(act), calls(tool("read", file_path="a.txt")), DONE)))
    prepare(newel, own=False)
    (newel.project / "a.txt").write_text("saved\n")
    editor = Editor()
    await prompt(newel, editor)
    assert "saved" in result(newel, 1)
    assert editor.read == []
    assert notes(editor) == 1


async def test_a_text_is_dropped_if_its_path_was_another_for_a_moment(with_model: WithModel) -> None:
    """Another Newel's command, for example, of which this one knows nothing."""
    newel = confined(with_model(scenario("go", calls(tool("read", file_path="sub/a.txt")), DONE)))
    file = newel.project / "sub/a.txt"
    file.parent.mkdir()
    file.write_text("harmless\n")
    (newel.home / ".ssh/a.txt").write_text(SECRET)

    class Misled(Editor):
        async def read_text_file(self, session_id: str, path: str, **options: Any) -> Any:
            file.parent.rename(newel.project / "moved")
            file.parent.symlink_to(newel.home / ".ssh")
            answer = await super().read_text_file(session_id, path, **options)
            file.parent.unlink()
            (newel.project / "moved").rename(file.parent)
            return answer

    editor = Misled()
    await prompt(newel, editor)
    assert editor.read == [str(file)]
    assert "harmless" in result(newel, 0)
    assert SECRET not in json.dumps(newel.server.requests, default=str)


async def test_what_an_editor_has_loaded_while_a_command_ran_is_not_read(with_model: WithModel) -> None:
    """The user has the file open, and the editor loads again what it finds at its path, a moment later."""
    swap = "mv a.txt b; ln -s ~/.ssh/id_ed25519 a.txt; sleep 0.5; rm a.txt; mv b a.txt"
    command = bash(swap)["tool_calls"][0]
    newel = confined(with_model(scenario("go", calls(command, tool("read", file_path="a.txt")), DONE)))
    file = newel.project / "a.txt"
    file.write_text("harmless\n")
    seen: list[tuple[float, str]] = []

    class Watching(Editor):
        async def watch(self) -> None:
            while True:
                if file.exists():
                    seen.append((time.monotonic(), file.read_text()))
                    old = [text for at, text in seen if at < time.monotonic() - 0.4]
                    self.buffers[str(file)] = (old or ["harmless\n"])[-1]
                await asyncio.sleep(0.02)

    watching = Watching()
    task = asyncio.create_task(watching.watch())
    await prompt(newel, watching)
    task.cancel()
    assert SECRET in {text for _, text in seen}
    assert "harmless" in result(newel, 1)
    assert watching.read == [str(file)]
    assert SECRET not in json.dumps(newel.server.requests, default=str)


async def test_no_command_starts_while_the_editor_may_still_write(with_model: WithModel) -> None:
    """The user stops the agent while the editor asks whether it may write."""
    newel = confined(
        with_model(
            {
                "scenarios": [
                    *scenario("write", calls(tool("write", file_path="a.txt", content="new\n")))["scenarios"],
                    *scenario("run", bash("ls a.txt; touch ran"), DONE)["scenarios"],
                ]
            }
        )
    )
    answers, asked = asyncio.Event(), asyncio.Event()

    class Slow(Editor):
        async def write_text_file(self, session_id: str, path: str, content: str, **options: Any) -> Any:
            asked.set()
            await answers.wait()
            return await super().write_text_file(session_id, path, content, **options)

    async with editing(newel, "--approve", "auto", editor=Slow()) as ide:
        await ide.new_session()
        writing = asyncio.create_task(ide.prompt("write"))
        await asyncio.wait_for(asked.wait(), 10)
        await ide.agent.cancel(session_id=ide.session)
        assert (await writing).stop_reason == "cancelled"
        running = asyncio.create_task(ide.prompt("run"))
        await ide.editor.until(lambda: len(ide.editor.of_kind("tool_call")) == 2)
        await asyncio.sleep(0.5)
        assert not (newel.project / "ran").exists()
        answers.set()
        await running
    assert (newel.project / "ran").exists()
    assert "a.txt" in result(newel, -1)
