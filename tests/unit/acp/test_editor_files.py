"""If these fail, an editor is given a path while a command can change where it leads, or a session stands still."""

from __future__ import annotations

import os
import time
from pathlib import Path

import anyio
import pytest

from newel.acp import editor_files
from newel.acp.editor_files import EditorGate, path_state, settled_state
from newel.agent.errors import WorkspaceError

pytestmark = pytest.mark.anyio


async def test_a_command_waits_for_the_editor_and_the_editor_is_not_asked_meanwhile() -> None:
    gate, order = EditorGate(lambda: False), list[str]()

    async def run() -> None:
        async with gate.command():
            order.append("command")
            assert await gate.hold("/p/b") is None

    first, second = await gate.hold("/p/a"), await gate.hold("/p/a")
    assert first is not None
    assert second is not None, "several files at a time"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.sleep(0.05)
        first()
        first()  # once is enough
        await anyio.sleep(0.05)
        assert order == []
        second()
    assert order == ["command"]
    assert await gate.hold("/p/b") is not None


async def test_a_process_that_may_run_keeps_the_editor_out_and_commands_start() -> None:
    gate = EditorGate(lambda: True)
    assert await gate.hold("/p/a") is None
    async with gate.command():
        pass


async def test_a_command_names_the_file_that_the_editor_does_not_answer_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(editor_files, "ANSWER_S", 0.05)
    gate = EditorGate(lambda: False)
    await gate.hold("/p/a.txt")
    with pytest.raises(WorkspaceError, match=r"has not answered yet whether it has written /p/a\.txt"):
        async with gate.command():
            pass


async def test_a_swap_shows_although_it_was_swapped_back(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    file = tmp_path / "d/f"
    file.write_text("x")
    for part, other in ((file, tmp_path / "d/g"), (file.parent, tmp_path / "e")):
        before = await settled_state(str(tmp_path), str(file))
        assert before is not None
        assert path_state(str(tmp_path), str(file)) == before
        part.rename(other)
        other.rename(part)
        assert path_state(str(tmp_path), str(file)) != before


async def test_the_editor_gets_time_to_notice_what_a_command_has_changed(tmp_path: Path) -> None:
    gate, file = EditorGate(lambda: False), tmp_path / "f"
    for by_command in (True, False):
        file.write_text("x")
        if by_command:
            async with gate.command():
                await anyio.sleep(0.02)
        release = await gate.hold(str(file))
        assert release is not None
        release()
        if not by_command:
            file.write_text("y")
        began = time.monotonic()
        assert await settled_state(str(tmp_path), str(file), gate.free_since_ns) is not None
        assert (time.monotonic() - began > 0.5) is by_command


async def test_a_path_with_a_link_or_without_rest_has_no_state(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("x")
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "d/link").symlink_to("f")
    for name in ("link/f", "d/link", "none/f", "d/f/g", "d"):
        assert path_state(str(tmp_path), str(tmp_path / name)) is None, name
    assert await settled_state(str(tmp_path), str(tmp_path / "d/new")) is not None
    ahead = time.time() + 60
    os.utime(tmp_path / "d", (ahead, ahead))  # a time of change cannot be set
    assert await settled_state(str(tmp_path), str(tmp_path / "d/f")) is not None
