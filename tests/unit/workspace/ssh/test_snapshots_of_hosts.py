"""If these fail, changes on a slow or minimal host go unnoticed, or existing files are reported deleted."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.review.store.ledger import Ledger
from newel.workspace.snapshots.index import load
from newel.workspace.snapshots.manager import SnapshotManager
from newel.workspace.snapshots.port import WorkspaceChanges
from newel.workspace.ssh.port import HostAnswer
from newel.workspace.ssh.snapshots.rooted_shell import STAT_VARIANTS, parse_capabilities, records
from newel.workspace.ssh.snapshots.source import SshSnapshotSource
from newel.workspace.ssh.target import Target
from tests.opened_host import open_host
from tests.requirements import require_program
from tests.shell_host import ShellHost, link_busybox
from tests.sshd import Sshd

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.open(None) as opened:
        yield opened


@pytest.fixture
def host() -> Iterator[ShellHost]:
    host = ShellHost()
    yield host
    host.close()


def paths(changes: WorkspaceChanges) -> set[str]:
    return {change.path for change in changes.files}


class Watched:
    """A host that runs a question before, or instead of, each request."""

    def __init__(self, host: ShellHost) -> None:
        self.host = host
        self.before: dict[str, str] = {}
        self.answers: dict[str, bytes] = {}
        self.is_gone_at = ""

    async def ask(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        for part, done in list(self.before.items()):
            if part in script:
                del self.before[part]
                await anyio.run_process(["sh", "-c", done])
        if self.is_gone_at and self.is_gone_at in script:
            raise ConnectionLost("gone")
        for part, data in self.answers.items():
            if part in script:
                return HostAnswer(0, data)
        return await self.host.ask(script, stdin=stdin)

    async def change(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
        raise AssertionError(f"a look changes nothing: {script}, stdin {len(stdin)} bytes")


@pytest.mark.slow  # seconds of waiting
async def test_scanning_an_unchanged_host_sends_one_request_and_copies_nothing(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    (root / "f").write_bytes(b"x")
    looked = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    await looked.take()
    asked = len(host.asked)
    await anyio.sleep(2.1)  # before that, the file may be written again with the same times
    await looked.take()
    host.asked.clear()
    assert await looked.changes() == WorkspaceChanges([], [], [])
    assert (len(host.asked), asked > 1) == (1, True)


@pytest.mark.parametrize("folders", ["", "node_modules/"])
async def test_too_many_files_are_reported_with_a_remedy(
    folders: str, root: Path, ledger: Ledger, host: ShellHost
) -> None:
    """Also in a folder that is listed separately. Further down everything is recorded."""
    (root / "deep" / folders).mkdir(parents=True)
    for number in range(200):
        (root / "deep" / f"{folders}{number:0200}").touch()
    (root / "shop").mkdir()
    await anyio.run_process(
        [require_program("git"), "init", "-q", str(root)]
    )  # so that nothing is skipped for its name
    with pytest.raises(WorkspaceError, match=f"too many files below {root} .* Work in a subfolder"):
        await SnapshotManager(SshSnapshotSource(host, str(root), ledger, listing=8192), ledger).take()
    looked = SnapshotManager(SshSnapshotSource(host, str(root / "shop"), ledger, listing=8192), ledger)
    await looked.take()
    (root / "shop" / "f").write_bytes(b"x")
    assert paths(await looked.changes()) == {"f"}


async def test_known_content_is_not_copied_again(root: Path, ledger: Ledger, host: ShellHost) -> None:
    (root / "f").write_bytes(b"x" * 5000)
    looked = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    await looked.take()
    host.asked.clear()
    (root / "f").rename(root / "g")
    assert paths(await looked.changes()) == {"f", "g"}
    assert not any("cat " in each.replace("cat >/dev/null", "") for each in host.asked)


async def test_a_file_written_during_its_read_is_consistent_in_the_store(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    """Otherwise the following files of the same answer are mixed up."""
    for name in ("a", "b", "c"):
        (root / name).write_bytes(name.encode() * 1000)
    watched = Watched(host)
    watched.before['cat "$@"'] = f"printf longer >> '{root}/b'"
    looked = SnapshotManager(SshSnapshotSource(watched, str(root), ledger), ledger)
    await looked.take()
    for name in ("a", "b", "c"):
        (root / name).unlink()
    before = {
        each.path: ledger.blob(each.before.blob) for each in (await looked.changes()).files if each.before
    }
    assert before == {"a": b"a" * 1000, "b": b"b" * 1000 + b"longer", "c": b"c" * 1000}
    assert not watched.before


async def test_a_link_in_the_place_of_a_file_is_not_followed(
    root: Path, ledger: Ledger, host: ShellHost, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"key!")
    (root / "f").write_bytes(b"mine")
    watched = Watched(host)
    watched.before['cat "$@"'] = f"ln -sf '{tmp_path}/secret' '{root}/f'"
    looked = SnapshotManager(SshSnapshotSource(watched, str(root), ledger), ledger)
    await looked.take()
    (root / "f").unlink()
    for change in (await looked.changes()).files:
        assert change.before is None or ledger.blob(change.before.blob) != b"key!"


async def test_a_tracked_folder_with_the_name_of_a_build_folder_is_covered(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    """The host lists such folders without their content, unless asked."""
    (root / "target/deep/venv").mkdir(parents=True)
    (root / "target/deep/venv/f").write_bytes(b"1")
    await anyio.run_process([require_program("git"), "init", "-q"], cwd=root)
    looked = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    assert await looked.take() == []
    (root / "target/deep/venv/f").write_bytes(b"2")
    (root / "target/g").write_bytes(b"2")
    assert paths(await looked.changes()) == {"target/deep/venv/f", "target/g"}


async def test_without_git_on_the_host_its_rules_are_unknown_and_that_is_reported_once(
    root: Path, ledger: Ledger, tmp_path: Path
) -> None:
    require_program("busybox")
    (programs := tmp_path / "programs").mkdir()
    link_busybox(programs)
    await anyio.run_process([require_program("git"), "init", "-q"], cwd=root)
    (root / ".gitignore").write_text("*.o\n")
    (root / "venv").mkdir()
    for name in ("a.o", "venv/x", "b"):
        (root / name).write_bytes(b"1")
    host = ShellHost(("busybox", "sh"), path=str(programs))
    looked = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    notices = await looked.take()
    assert any("Git did not answer" in notice for notice in notices)
    for name in ("a.o", "venv/x", "b", "c"):
        (root / name).write_bytes(b"2")
    changes = await looked.changes()
    assert (paths(changes), changes.notices) == ({"a.o", "b", "c"}, [])
    host.close()


async def test_a_host_without_the_required_programs_names_them(
    root: Path, ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    host = ShellHost(("/bin/sh",), path=str(tmp_path / "none"))
    with pytest.raises(WorkspaceError, match="the host needs"):
        await SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger).take()
    host.close()


@pytest.mark.parametrize("cut", [1, 40, -30, -1])
@pytest.mark.parametrize("packed", [True, False])
async def test_a_truncated_answer_is_an_error_and_not_an_empty_project(
    root: Path, ledger: Ledger, tmp_path: Path, cut: int, *, packed: bool
) -> None:
    require_program("busybox")
    (programs := tmp_path / "programs").mkdir()
    link_busybox(programs)
    if not packed:
        (programs / "gzip").unlink()
    for n in range(5):
        (root / f"f{n}").write_bytes(b"x")
    host = ShellHost(("/bin/sh",), path=str(programs))
    watched = Watched(host)
    looked = SnapshotManager(SshSnapshotSource(watched, str(root), ledger), ledger)
    await looked.take()
    listing = next(each for each in host.asked if "-mindepth" in each)
    watched.answers["-mindepth"] = (await host.ask(listing)).data[:cut]
    with pytest.raises(WorkspaceError):
        await looked.changes()
    watched.answers.clear()
    assert await looked.changes() == WorkspaceChanges([], [], [])
    host.close()


async def test_an_unreadable_folder_on_a_host_does_not_count_as_empty(sshd: Sshd, ledger: Ledger) -> None:
    """As the host's ordinary user, because root can read everything."""
    project = sshd.project("shut")
    async with open_host(Target("host", path=str(project)), config=str(sshd.config)) as workspace:
        await workspace.run("mkdir -p a/b c; echo 1 > a/b/f; echo 1 > c/f; echo 1 > g")
        looked = SnapshotManager(workspace.snapshot_source(ledger), ledger)
        await looked.take()
        await workspace.run("chmod 000 a; chmod 400 c; chmod 000 g; echo 1 > h")
        changes = await looked.changes()
        assert paths(changes) == {"a", "c", "h"}  # the folders by their modes
        assert {"a/", "c/", "g"} <= set(re.split(r"[ .,]", " ".join(changes.notices)))
        await workspace.run("chmod 755 a c; chmod 644 g")
        assert paths(await looked.changes()) == {"a", "c"}  # their modes are restored
        looked.close()


async def test_changes_since_a_saved_tree_are_found_on_a_host(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    """Otherwise what a killed Newel's command did on a host cannot be undone."""
    (root / "sub").mkdir()
    for name in ("old", "gone", "sub/old"):
        (root / name).write_bytes(b"x")
    before = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    await before.take()
    (root / "saved").write_bytes(await before.export_index(whole=True))
    since = time.time_ns()
    (root / "gone").unlink()
    for name in ("sub/new", "old"):
        (root / name).write_bytes(b"y")
    after = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    changes = await after.resume(load(root / "saved", str(root)), since)
    assert paths(changes) == {"old", "gone", "sub/new", "saved"}


async def test_closing_does_not_wait_for_an_unresponsive_host(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    """All front ends run in the thread that would wait."""

    class Silent(Watched):
        async def ask(self, script: str, /, *, stdin: bytes = b"") -> HostAnswer:
            asked.set()
            await anyio.sleep_forever()
            return await super().ask(script, stdin=stdin)

    asked = anyio.Event()
    looked = SnapshotManager(SshSnapshotSource(Silent(host), str(root), ledger), ledger)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(looked.take)
        await asked.wait()
        looked.close()
        tasks.cancel_scope.cancel()


async def test_a_host_that_disconnects_during_a_scan_loses_no_change(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    (root / "f").write_bytes(b"1")
    watched = Watched(host)
    looked = SnapshotManager(SshSnapshotSource(watched, str(root), ledger), ledger)
    await looked.take()
    (root / "f").write_bytes(b"2")
    for watched.is_gone_at in ("-mindepth", 'sha256sum "$@"', 'cat "$@"'):
        with pytest.raises(ConnectionLost):
            await looked.changes()
    watched.is_gone_at = ""
    [change] = (await looked.changes()).files
    assert change.before is not None
    assert ledger.blob(change.before.blob) == b"1"


names = st.binary(min_size=1, max_size=12).map(
    lambda name: name.replace(b"/", b"f644 1 ").replace(b"\0", b"\n")
)


@given(st.lists(st.tuples(names, names), max_size=6))
def test_no_name_can_pass_for_another_files_record(parts: list[tuple[bytes, bytes]]) -> None:
    listed = [(b"f644 5 1.5 2.5 3 1", folder + b"/" + name) for folder, name in parts]
    answer = b"".join(facts + b" .//" + path + b"\n" for facts, path in listed)
    assert list(records(answer)) == listed


def test_each_kind_of_stat_is_read_to_the_nanosecond() -> None:
    """Those of macOS from its manual: %Xp %z %Fm %Fc %i %l."""
    of = {
        "find": b"f755 5 1700000000.1234567890 1700000001.5000000000 77 2",
        "stat": b"81ed 5 1700000000 1700000001 77 2",
        "bsd": b"81ED 5 1700000000.123456789 1700000001.500000000 77 2",
    }
    seen = {name: STAT_VARIANTS[name].seen(facts) for name, facts in of.items()}
    assert {each.st_mode for each in seen.values()} == {0o100755}
    assert seen["find"] == seen["bsd"]
    assert seen["bsd"].st_mtime_ns == 1_700_000_000_123_456_789
    assert seen["stat"].st_ctime_ns == 1_700_000_001_000_000_000
    said = b"41ed 5 1 1 1 2 .//.\nbsd .//\nsums shasum -a 256 .//\ngzip .//\nxargs a .//\n"
    assert parse_capabilities(said, "/") == ("bsd", "shasum -a 256", True, 0o22)


async def test_a_file_with_an_impossible_year_is_recorded(
    root: Path, ledger: Ledger, host: ShellHost
) -> None:
    (root / "f").write_bytes(b"1")
    os.utime(root / "f", (13_000_000_000, 13_000_000_000))  # 2381: more than 63 bits of nanoseconds
    looked = SnapshotManager(SshSnapshotSource(host, str(root), ledger), ledger)
    await looked.take()
    (root / "f").write_bytes(b"2")
    assert paths(await looked.changes()) == {"f"}
