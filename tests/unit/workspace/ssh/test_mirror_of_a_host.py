"""If these fail, an agent's copy on a host is wrong after an error, slow to make, or never removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.workspace.mirror.mirror import Mirror
from newel.workspace.mirror.port import FileContent
from newel.workspace.ssh.connection import SshConnection, connected
from newel.workspace.ssh.mirror.scripts import LEASE
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.mirror_disks import open_mirrors
from tests.sshd import Sshd, served
from tests.unit.workspace.ssh.hosts import wait_for_condition

pytestmark = pytest.mark.anyio


def fill(folder: Path, *, folders: int, files: int) -> None:
    for one in range(folders):
        inside = folder / f"folder {one}"
        inside.mkdir(parents=True)
        for two in range(files):
            (inside / f"{two}").write_text(f"{one} {two}\n")


def contents(folder: Path | str) -> dict[str, bytes]:
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


async def mirror_on(connection: SshConnection, project: Path) -> Mirror:
    return await SshWorkspace(connection, root=str(project)).mirror(project.parent / "here")


def copies(server: Sshd) -> list[Path]:
    return list((server.home / ".newel" / "copies").iterdir())


async def test_many_files_take_few_requests(tmp_path: Path) -> None:
    fill(tmp_path / "project", folders=8, files=40)
    async with open_mirrors("dash", tmp_path) as disks:
        assert disks.host is not None
        mirror = await disks(tmp_path / "project")
        before = len(disks.host.asked)
        await mirror.update({f"new/{number}": FileContent(b"new", 0o600) for number in range(40)})
        assert len(disks.host.asked) - before < 15
        assert len(contents(mirror.root)) == 360
        await mirror.update({})
        assert contents(mirror.root) == contents(tmp_path / "project")


async def test_a_connection_lost_during_an_update_is_reported_and_made_up_for(
    tmp_path: Path,
) -> None:
    with served() as server:
        project = tmp_path / "project"
        fill(project, folders=3, files=3)
        before = contents(project)
        slow = server.bin / "cp"
        slow.parent.mkdir(exist_ok=True)
        slow.write_text(
            f'#!/bin/sh\n: >"$HOME/copying"\nuntil [ -e "$HOME/on" ]; do sleep 0.05; done\nexec {shutil.which("cp")} "$@"\n'
        )
        slow.chmod(0o755)
        async with connected(Target("own"), config=str(server.config)) as connection:
            mirror = await mirror_on(connection, project)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drop_while_copying, server)
                with pytest.raises(ConnectionLost, match="The project is unchanged"):
                    await mirror.update({})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(mirror.update, {"new": FileContent(b"new\n", 0o644)})
                # Earlier work goes on there, and must not collide with this.
                stopping = next(server.home.glob(".newel/copies/*")) / ".newel-ending"
                await wait_for_condition(stopping.exists, "the first one to be told to stop")
                (server.home / "on").touch()
            assert contents(project) == before
            assert contents(mirror.root) == before | {"new": b"new\n"}
        await wait_for_condition(lambda: copies(server) == [], "the copy to be removed")


async def _drop_while_copying(server: Sshd) -> None:
    await wait_for_condition((server.home / "copying").exists, "the copying to begin")
    server.drop()


@pytest.mark.parametrize("end", ["the block ends", "cancelled", "let go of"])
async def test_no_copy_stays_on_a_host(tmp_path: Path, end: str) -> None:
    """Folders without write permission are no obstacle; not every tool leaves others."""
    with served() as server:
        project = tmp_path / "project"
        fill(project, folders=2, files=2)
        with anyio.CancelScope() as scope:
            async with connected(Target("own"), config=str(server.config)) as connection:
                mirror = await mirror_on(connection, project)
                await mirror.update({})
                (Path(mirror.root) / "folder 0").chmod(0o500)
                if end == "cancelled":
                    scope.cancel()
                    await anyio.sleep_forever()
                if end == "let go of":
                    del mirror
                    await wait_for_condition(lambda: copies(server) == [], "the copy to be removed")
        await wait_for_condition(lambda: copies(server) == [], "the copy to be removed")


async def test_a_copy_that_was_removed_as_abandoned_is_created_again(tmp_path: Path) -> None:
    """A laptop that slept for a day: its Newel is alive, but the host cannot know."""
    project = tmp_path / "project"
    fill(project, folders=2, files=2)
    async with open_mirrors("dash", tmp_path) as disks:
        slept = await disks(project)
        await slept.update({})
        os.utime(Path(slept.root).parent / LEASE, (0, 0))
        await disks(project)
        assert not (disks.copies / slept.root).exists()
        await slept.update({})
        assert contents(slept.root) == contents(project)


async def test_an_unreadable_file_is_reported_and_the_others_are_copied(sshd: Sshd, tmp_path: Path) -> None:
    project = sshd.project("unreadable")
    for name in ("a", "secret", "z"):
        (project / name).write_text(name)
        sshd.give(project / name)
    (project / "secret").chmod(0)
    async with connected(Target("host", path=str(project)), config=str(sshd.config)) as connection:
        mirror = await SshWorkspace(connection).mirror(tmp_path)
        await mirror.update({})
        assert mirror.drain_notices() == ["The copy lacks secret, which is not readable."]
        assert contents(mirror.root) == {"a": b"a", "z": b"z"}
        await mirror.update({})
        assert mirror.drain_notices() == []


async def test_unwritable_entries_of_an_agent_in_the_copy_are_repaired(sshd: Sshd, tmp_path: Path) -> None:
    project = sshd.project("unwritable")
    for name in ("kept", "gone"):
        (project / name / "below").mkdir(parents=True)
        (project / name / "below" / "a").write_text("a")
    async with connected(Target("host", path=str(project)), config=str(sshd.config)) as connection:
        workspace = SshWorkspace(connection)
        mirror = await workspace.mirror(tmp_path)
        await mirror.update({})
        done = await workspace.at(mirror.root).run(
            "echo b >kept/below/a; rm kept/below/a; chmod 500 kept/below kept gone"
        )
        assert done.exit_code == 0
        for name in ("kept/below/a", "gone/below/a"):
            mirror.invalidate(name)
        shutil.rmtree(project / "gone")
        (project / "gone").write_text("now a file")
        await mirror.update({})
        assert contents(mirror.root) == contents(project)


async def test_a_missing_folder_cannot_be_copied_and_is_reported(tmp_path: Path) -> None:
    async with open_mirrors("dash", tmp_path) as disks:
        with pytest.raises(WorkspaceError, match="No such file or directory"):
            await disks(tmp_path / "gone")


async def test_the_home_itself_can_be_the_project(tmp_path: Path) -> None:
    """And its copy contains no copies."""
    (tmp_path / "a").write_text("a")
    with served() as server:
        (server.home / "a").write_text("a")
        async with connected(Target("own"), config=str(server.config)) as connection:
            mirror = await SshWorkspace(connection).mirror(tmp_path)
            await mirror.update({})
            assert contents(mirror.root) == {"a": b"a"}
