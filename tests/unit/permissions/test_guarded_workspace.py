"""If these fail, a tool opens another file than the one that was judged, on this machine or on a host."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from newel.agent.errors import StaleFile, WorkspaceError
from newel.permissions.secret_paths import GuardedWorkspace, SecretPaths
from newel.tools.review import project_tools
from newel.workspace.local import LocalWorkspace
from newel.workspace.port import Workspace
from newel.workspace.ssh.workspace import SshWorkspace
from tests.host_connection import anyio_backend, connection

__all__ = ["anyio_backend", "connection"]

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local", "ssh"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    """The same folder, local and on a host."""
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "sub" / "a.txt").write_text("of the project")
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "a.txt").write_text("PRIVATE")
    if request.param == "local":
        return LocalWorkspace(str(project))
    return SshWorkspace(request.getfixturevalue("connection"), root=str(project))


@pytest.fixture
def guarded(inner: Workspace, tmp_path: Path) -> GuardedWorkspace:
    return GuardedWorkspace(inner, SecretPaths(inner.root, home=str(tmp_path / "home")))


async def test_the_judged_file_is_the_opened_one_also_if_a_link_replaces_it(
    guarded: GuardedWorkspace, tmp_path: Path
) -> None:
    file = tmp_path / "project" / "sub" / "a.txt"
    path = await guarded.resolve("sub/a.txt")
    assert await guarded.read_bytes(path) == b"of the project"
    assert await guarded.read_bytes(path, start=3, size=3) == b"the"
    file.unlink()
    file.symlink_to(tmp_path / "home" / ".ssh" / "a.txt")
    with pytest.raises(StaleFile):
        await guarded.read_bytes(path)
    shutil.rmtree(file.parent)
    file.parent.symlink_to(tmp_path / "home" / ".ssh")
    with pytest.raises(StaleFile):
        await guarded.read_bytes(path)
    with pytest.raises(StaleFile):
        await guarded.list(str(file.parent))


async def test_secret_places_are_closed_to_every_operation(
    inner: Workspace, guarded: GuardedWorkspace, tmp_path: Path
) -> None:
    path = str(tmp_path / "home" / ".ssh" / "a.txt")
    for asked in (
        guarded.read_bytes(path),
        guarded.stat(path),
        guarded.list(str(tmp_path / "home" / ".ssh")),
        guarded.write_bytes(path, b"x"),
        guarded.remove(path),
    ):
        with pytest.raises(WorkspaceError, match="holds secrets"):
            await asked
    assert await guarded.stats([path]) == [None]
    assert await inner.read_bytes(path) == b"PRIVATE"


async def test_a_missing_path_gives_the_systems_error(guarded: GuardedWorkspace) -> None:
    with pytest.raises(WorkspaceError, match="No such file"):
        await guarded.read_bytes(f"{guarded.root}/missing/x")
    with pytest.raises(WorkspaceError, match="No such file"):
        await guarded.read_bytes(f"{guarded.root}/missing")
    with pytest.raises(WorkspaceError, match=r"not a regular file|directory"):
        await guarded.read_bytes(f"{guarded.root}/sub")


async def test_a_search_skips_secrets_and_an_unattended_job_skips_what_needs_approval(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ssh").mkdir()
    for name in (".ssh/config", ".env", "plain.txt"):
        (tmp_path / name).write_text("needle")
    own = LocalWorkspace(str(tmp_path))
    judge = SecretPaths(own.root, home=own.root)

    async def found(workspace: Workspace) -> str:
        async def nobody(_: object) -> str:
            return ""

        async def unheard(_: str) -> None:
            pass

        tools = {tool.spec.name: tool for tool in project_tools(workspace, ask=nobody, propose=nobody)}
        search = tools["search_project"]
        planned = await search.plan(search.parse({"query": "needle", "glob": "**/{.ssh/*,.env,plain.txt}"}))
        return (await planned.execute(unheard)).output

    assert "config" in await found(own)
    lenient = await found(GuardedWorkspace(own, judge))
    assert ".ssh/config" not in lenient
    assert ".env" in lenient
    strict = await found(GuardedWorkspace(own, judge, strict=True))
    assert ".env" not in strict
    assert "plain.txt" in strict
