"""If these fail, stopping in the middle of a tool leaves work half done, or lets the rest happen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import FileInfo

pytestmark = pytest.mark.anyio


class Watched(LocalWorkspace):
    """The local workspace; calls ``look`` with a number before each access to a file."""

    def __init__(self, folder: Path, look: Callable[[int], None]) -> None:
        super().__init__(str(folder))
        self.looks = 0
        self._look = look

    async def stat(self, path: str, /) -> FileInfo | None:
        self._count()
        return await super().stat(path)

    async def read_bytes(self, path: str, /, **given: Any) -> bytes:
        self._count()
        return await super().read_bytes(path, **given)

    def _count(self) -> None:
        self.looks += 1
        self._look(self.looks)


async def stopped(folder: Path, at: int, name: str, **arguments: Any) -> int:
    """Run a tool, cancel it at an access to the file; returns the number of accesses."""
    scope = anyio.CancelScope()
    workspace = Watched(folder, lambda look: scope.cancel() if look == at else None)
    tool = next(tool for tool in coding_tools(workspace) if tool.spec.name == name)

    async def shown(_: str) -> None:
        pass

    with scope:
        await (await tool.plan(tool.parse(arguments))).execute(shown)
    assert scope.cancelled_caught
    return workspace.looks


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


async def test_reading_a_large_file_can_be_cancelled(tmp_path: Path) -> None:
    """Otherwise a user waits for gigabytes to be counted after pressing Esc."""
    (tmp_path / "large").write_bytes(b"a line\n" * 2_000_000)
    assert await stopped(tmp_path, 4, "read", file_path="large") == 4


@pytest.mark.parametrize(("more", "at"), [(0, 1), (300_000, 1), (300_000, 2), (300_000, 3)])
async def test_an_edit_cancelled_before_its_write_changes_nothing(tmp_path: Path, more: int, at: int) -> None:
    """A short file is accessed once, a longer one three times."""
    before = "one\n" + "more\n" * more
    (tmp_path / "f").write_text(before)
    await stopped(tmp_path, at, "edit", file_path="f", old_string="one", new_string="two")
    assert contents(tmp_path) == {"f": before}


async def test_a_write_cancelled_before_its_rename_leaves_nothing(tmp_path: Path) -> None:
    await stopped(tmp_path, 1, "write", file_path="deep/er/f", content="x")
    assert contents(tmp_path) == {}
