"""If these fail, a command that swaps a file for a link makes Newel read any file of the user, and send it to a model."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import pytest

from newel.agent.errors import StaleFile, WorkspaceError
from newel.agent.messages import ToolCall
from newel.agent.ports import ToolResult
from newel.context.attachments import load_attachment
from newel.context.file_reader import read_head
from newel.context.instructions import find_instructions
from newel.context.nested_instructions import NestedInstructions
from newel.review.save import DiskSync
from newel.review.store.ledger import Ledger
from newel.review.tracking.file_states import read_state
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import FileNode, Workspace
from newel.workspace.ssh.workspace import SshWorkspace
from tests.forked import killed
from tests.host_connection import anyio_backend, connection

__all__ = ["anyio_backend", "connection"]

pytestmark = pytest.mark.anyio

SECRET = "the user's secret"


class RestlessFolder(LocalWorkspace):
    """A folder in which another process puts a link in a file's place as soon as Newel has ``looked`` at the file."""

    def __init__(self, root: Path, secret: Path) -> None:
        super().__init__(str(root))
        self.looked: Literal["resolve", "lstat"] = "resolve"
        self._secret = secret

    async def resolve(self, path: str, /) -> str:
        found = await super().resolve(path)
        self._swap(Path(found), "resolve")
        return found

    async def lstat(self, path: str, /) -> FileNode | None:
        found = await super().lstat(path)
        self._swap(Path(path), "lstat")
        return found

    def _swap(self, file: Path, looked: str) -> None:
        if looked == self.looked and file.is_file() and not file.is_symlink():
            file.unlink()
            file.symlink_to(self._secret)


@pytest.fixture
def restless(tmp_path: Path) -> RestlessFolder:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "project" / "src").mkdir(parents=True)
    return RestlessFolder(tmp_path / "project", tmp_path / "secret")


@pytest.fixture(params=["here", "on a host"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    if request.param == "here":
        return LocalWorkspace(str(tmp_path))
    return SshWorkspace(request.getfixturevalue("connection"), root=str(tmp_path))


async def test_a_file_of_a_prompt_is_the_one_that_was_judged(workspace: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    (tmp_path / "a").write_text("a")
    path = await workspace.resolve("a")
    assert (await read_head(workspace, path, 100)).data == b"a"
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to(secret)
    with pytest.raises(StaleFile):
        await read_head(workspace, path, 100)
    with pytest.raises(StaleFile):
        await load_attachment(workspace, path)


SWAPS = """
import os, sys
file, secret = sys.argv[1:]
while os.getppid() == int(os.environ["PARENT"]):
    os.symlink(secret, file + ".link")
    os.rename(file + ".link", file)
    with open(file + ".new", "w") as new:
        new.write("a")
    os.rename(file + ".new", file)
"""


async def test_a_file_that_is_a_link_for_moments_is_not_followed(
    workspace: Workspace, tmp_path: Path
) -> None:
    """On a host a shell looks at the path, and then opens it."""
    secret, file = tmp_path / "secret", tmp_path / "a"
    secret.write_text(SECRET)
    file.write_text("a")
    seen: set[bytes] = set()
    with killed(
        subprocess.Popen(  # noqa: ASYNC220 — it starts at once
            [sys.executable, "-c", SWAPS, str(file), str(secret)],
            env={**os.environ, "PARENT": str(os.getpid())},
            text=True,
        )
    ):
        for _ in range(400):
            with suppress(WorkspaceError):
                seen.add((await read_head(workspace, str(file), 100)).data)
    assert seen == {b"a"}


async def test_the_instructions_of_a_folder_are_those_that_were_judged(restless: RestlessFolder) -> None:
    (Path(restless.root) / "src" / "AGENTS.md").write_text("Use tabs.")

    async def keep(_: ToolCall, result: ToolResult, /) -> ToolResult:
        return result

    nested = NestedInstructions(keep, restless, list, lambda _: False)
    read = ToolResult("content", details={"filePath": "src/a.py"})
    assert (await nested(ToolCall("1", "read", {}), read)).output == "content"


async def test_the_instructions_of_a_project_are_those_that_were_judged(restless: RestlessFolder) -> None:
    (Path(restless.root) / "AGENTS.md").write_text("Use tabs.")
    (found,) = await find_instructions(restless, home=None)
    assert SECRET not in found.text
    assert found.problem


async def test_no_undo_puts_a_file_of_the_user_into_the_project(
    restless: RestlessFolder, tmp_path: Path
) -> None:
    restless.looked = "lstat"
    file = Path(restless.root) / "a"
    with closing(Ledger.open(tmp_path / "ledger")) as ledger:
        file.write_text("a")
        with pytest.raises(StaleFile):
            await read_state(restless, ledger, "a")
        file.unlink()
        file.write_text("a")
        with pytest.raises(StaleFile):
            await DiskSync(ledger, restless).refresh("a")
