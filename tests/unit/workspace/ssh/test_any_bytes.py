"""If these fail, some remote shell corrupts unusual file names or contents."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.agent.errors import StaleFile
from newel.workspace.port import ABSENT, DirectoryEntry
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.opened_host import open_host
from tests.requirements import require_program
from tests.sshd import Sshd

pytestmark = pytest.mark.anyio

SHELLS = ("dash", "bash", "zsh", "busybox")
APPLETS = [
    "sh",
    "cat",
    "chmod",
    "cp",
    "env",
    "find",
    "head",
    "id",
    "ls",
    "ln",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "sha256sum",
    "stat",
    "sync",
    "tail",
    "uname",
    "date",
]

ALL = bytes(range(256))
NAMES = [
    *(
        os.fsdecode(bytes(byte for byte in ALL[start : start + 32] if byte not in b"\0/"))
        for start in range(0, 256, 32)
    ),
    *(
        "-rf",
        "--",
        "*",
        "~",
        "[",
        "a b",
        " ",
        "\n",
        "a\n",
        "\\",
        "\\n",
        "$(touch x)",
        "`x`",
        "'",
        '"',
        "${n}",
        "!!",
        "%s",
        "#",
    ),
    *(".hidden", "..two", "...", "\udc81", "\udc88\udc82", "é", "newel_o=", ";", "n" * 255),
]
"""Each byte that a name can hold, and names that mean something to a shell or to a program."""


def host_with(sshd: Sshd, shell: str) -> Target:
    """A host with another ``sh``; busybox also brings the other programs."""
    folder = sshd.folder / f"bin-{shell}"
    if not folder.exists():
        program = require_program(shell)
        folder.mkdir()
        for name in APPLETS if shell == "busybox" else ["sh"]:
            (folder / name).symlink_to(program)
    words = f'PATH={folder}:$PATH; export PATH; eval "$SSH_ORIGINAL_COMMAND"'
    return Target(sshd.login(f"with-{shell}", words))


async def shell_of(workspace: SshWorkspace) -> str:
    """The program that answers requests."""
    program = (
        (await workspace.connection.ask("readlink /proc/$$/exe || ps -o comm= -p $$")).data.decode().strip()
    )
    return program.rpartition("/")[2]


@pytest.mark.slow  # a campaign: every byte in every shell
@pytest.mark.parametrize("shell", SHELLS)
async def test_every_name_and_every_content_passes_through_every_shell(
    sshd: Sshd, shell: str, tmp_path: Path
) -> None:
    target = Target(host_with(sshd, shell).host, path=str(tmp_path))
    async with open_host(target, config=str(sshd.config)) as workspace:
        assert await shell_of(workspace) == shell
        for number, name in enumerate(NAMES):
            path = await workspace.resolve(f"./{name}")
            assert path == f"{tmp_path}/{name}"
            await workspace.write_bytes(path, ALL + bytes([number]), expect=ABSENT)
        assert await workspace.list(str(tmp_path)) == [DirectoryEntry(name, "file") for name in sorted(NAMES)]
        for number, name in enumerate(NAMES):
            assert (tmp_path / name).read_bytes() == ALL + bytes([number])
            assert await workspace.read_bytes(f"{tmp_path}/{name}", start=250) == ALL[250:] + bytes([number])
        sizes = [
            info and info.size for info in await workspace.stats([f"{tmp_path}/{name}" for name in NAMES])
        ]
        assert sizes == [257] * len(NAMES)


@pytest.mark.parametrize("shell", SHELLS)
async def test_every_shell_links_refuses_and_removes_alike(sshd: Sshd, shell: str, tmp_path: Path) -> None:
    target = Target(host_with(sshd, shell).host, path=str(tmp_path))
    async with open_host(target, config=str(sshd.config)) as workspace:
        odd = "a 'b'\n\udc81"
        (tmp_path / odd).mkdir()
        (tmp_path / "link").symlink_to(odd)
        path = await workspace.resolve("link/new/f")
        assert path == f"{tmp_path}/{odd}/new/f"
        await workspace.write_bytes(path, b"", expect=ABSENT, mode=0o640)
        assert (tmp_path / odd / "new/f").stat().st_mode & 0o7777 == 0o640
        with pytest.raises(StaleFile, match="created by another program"):
            await workspace.write_bytes(path, b"x" * 100_000, expect=ABSENT)
        with pytest.raises(StaleFile, match="leads elsewhere"):
            await workspace.write_bytes(f"{tmp_path}/link/new/f", b"x", expect=ABSENT)
        assert await workspace.list(str(tmp_path)) == [
            DirectoryEntry(odd, "directory"),
            DirectoryEntry("link", "directory", is_link=True),
        ]
        await workspace.remove(path)
        assert await workspace.stat(path) is None
        found = await workspace.stat(f"{tmp_path}/link")
        assert found is not None
        assert found.kind == "directory"


CommandFormatter = tuple[SshWorkspace, BlockingPortal]


@pytest.fixture(scope="module")
def called(sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Generator[CommandFormatter]:
    """One connection for all examples."""
    target = Target("own", path=str(tmp_path_factory.mktemp("examples")))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_host(target, config=str(sshd.config))) as workspace,
    ):
        yield workspace, portal


part = st.binary(min_size=1, max_size=20).filter(
    lambda name: not {0, ord("/")} & set(name) and name not in {b".", b".."}
)


@settings(max_examples=40)
@given(name=part.map(os.fsdecode), data=st.binary(max_size=300) | st.just(ALL * 600))
def test_written_content_is_read_back(called: CommandFormatter, name: str, data: bytes) -> None:
    workspace, portal = called
    path = f"{workspace.root}/{name}"
    portal.call(workspace.write_bytes, path, data)
    assert Path(path).read_bytes() == data
    assert portal.call(workspace.read_bytes, path) == data
    assert portal.call(workspace.resolve, path) == path
    assert [entry.name for entry in portal.call(workspace.list, workspace.root)] == [name]
    portal.call(workspace.remove, path)


PARTS = ["a", "b", "c", "..", ".", "gone", ""]
paths = (
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=6)
    .map("/".join)
    .filter(lambda path: path.strip("/"))
)
targets = paths | st.sampled_from(["/", "{root}/a", "{root}/b/c"])


@settings(max_examples=60)
@given(
    links=st.dictionaries(st.sampled_from(["a", "b", "a/b", "a/c", "b/a", "c"]), targets, max_size=5),
    path=paths,
)
@example(links={"a": "/", "b/a": "a/.."}, path="b/b/../a")
def test_paths_resolve_like_on_this_machine(
    called: CommandFormatter, links: dict[str, str], path: str
) -> None:
    """Otherwise two names of one file are two files for locks and reviews."""
    workspace, portal = called
    root = Path(workspace.root) / "paths"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("a", "b"):
        (root / folder).mkdir(parents=True)
    for name, target in links.items():
        place = root / name
        if not Path(os.path.realpath(place.parent)).is_relative_to(root):
            continue  # an earlier link leads out, and what is out there is not the test's
        with contextlib.suppress(OSError):  # the effect of another link on that place
            place.rmdir() if place.is_dir() else None
            place.symlink_to(target.format(root=root))
    there = f"{root}/{path}"
    found = portal.call(workspace.resolve, there)
    for name in (there, os.path.realpath(there), found):  # `c/..` of a missing `c` hides a loop behind it
        try:
            Path(name).stat()
        except OSError as error:
            if error.errno == errno.ELOOP:
                return  # it leads nowhere under any name
    assert found == os.path.realpath(there)
