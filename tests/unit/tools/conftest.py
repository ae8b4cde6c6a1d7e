"""Fixtures: a workspace on a real folder, and its tools."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newel.agent.ports import Tool, ToolResult
from newel.tools import coding_tools
from newel.tools.search import search_tools
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import Workspace
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.workspace import SshWorkspace
from tests.host_connection import anyio_backend, connection

__all__ = ["anyio_backend", "connection"]


class Bench:
    """Calls tools like the agent does: by name, with arguments as a model wrote them."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = Path(workspace.root)
        self.workspace = workspace
        tools = [*coding_tools(self.workspace), *search_tools(self.workspace)]
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in tools}
        self.shown: list[str] = []

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.tools[name]

        async def on_output(piece: str) -> None:
            self.shown.append(piece)

        return await (await tool.plan(tool.parse(arguments))).execute(on_output)

    async def preview(self, name: str, **arguments: Any) -> str:
        tool = self.tools[name]
        return (await (await tool.plan(tool.parse(arguments))).preview()).text

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def local(folder: Path) -> LocalWorkspace:
    """Long outputs go to a folder beside it."""
    return LocalWorkspace(str(folder), limits=OutputLimits(spill_dir=str(folder.parent / "spill")))


@pytest.fixture(params=["local", "ssh"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """On this machine, and in the same folder over SSH, as the same user."""
    folder = tmp_path / "project"
    folder.mkdir()
    if request.param == "local":
        return Bench(local(folder))
    limits = OutputLimits(spill_dir=str(tmp_path / "spill"))
    return Bench(SshWorkspace(request.getfixturevalue("connection"), root=str(folder), limits=limits))


@pytest.fixture
def local_bench(tmp_path: Path) -> Bench:
    """For tests that do not depend on the host."""
    return Bench(local(tmp_path))


@pytest.fixture
def make_bench(tmp_path: Path) -> Callable[[], Bench]:
    """For property tests, which need a fresh folder per example."""

    def make() -> Bench:
        return Bench(local(Path(tempfile.mkdtemp(dir=tmp_path))))

    return make
