"""A workspace on a real folder, and the tools on it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.agent.ports import Tool, ToolResult
from newel.tools import coding_tools
from newel.workspace.local import LocalWorkspace
from newel.workspace.process import Limits


class Bench:
    """Calls tools as the agent does: by name, with arguments as a model wrote them."""

    def __init__(self, folder: Path, spill: Path) -> None:
        self.folder = folder
        self.workspace = LocalWorkspace(str(folder), limits=Limits(spill_dir=str(spill)))
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in coding_tools(self.workspace)}
        self.shown: list[str] = []

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.tools[name]

        async def on_output(piece: str) -> None:
            self.shown.append(piece)

        return await tool.execute(tool.parse(arguments), on_output)

    async def preview(self, name: str, **arguments: Any) -> str:
        tool = self.tools[name]
        return await tool.preview(tool.parse(arguments))

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "project"
    folder.mkdir()
    return Bench(folder, tmp_path / "spill")


@pytest.fixture
def make_bench(tmp_path: Path) -> Callable[[], Bench]:
    """For properties, which need a fresh folder for each example."""

    def make() -> Bench:
        return Bench(Path(tempfile.mkdtemp(dir=tmp_path)), tmp_path / "spill")

    return make
