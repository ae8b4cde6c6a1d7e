"""If these fail, snapshots ignore a git repository's rules, or change the repository."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from newel.review.store.ledger import Ledger
from newel.workspace.snapshots.local_source import LocalSnapshotSource
from newel.workspace.snapshots.manager import SnapshotManager
from newel.workspace.snapshots.port import SnapshotLimits, WorkspaceChanges
from tests.requirements import require_program
from tests.snapshot_sources import SOURCES, open_sources

pytestmark = pytest.mark.anyio

GIT = "git -c user.name=n -c user.email=e -c commit.gpgsign=false"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    sh(
        folder,
        "git init -q; printf 'build/\\n*.o\\n' > .gitignore; mkdir src build; echo 1 > src/a; echo o > build/out",
    )
    sh(folder, f"git add -A; {GIT} commit -qm one")
    time.sleep(0.03)  # the rules are older than the first snapshot, on the clock of the files
    return folder


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.open(None) as open_sources:
        yield open_sources


@pytest.fixture(params=SOURCES)
def looked(root: Path, ledger: Ledger, request: pytest.FixtureRequest) -> Iterator[SnapshotManager]:
    with open_sources(request.param, root, ledger) as source:
        snapshots = SnapshotManager(source, ledger)
        yield snapshots
        snapshots.close()


def sh(root: Path, command: str) -> None:
    if "git " in command:
        require_program("git")
    subprocess.run(["bash", "-ec", command], cwd=root, check=True, stdout=subprocess.DEVNULL)


def paths(changes: WorkspaceChanges) -> set[str]:
    return {change.path for change in changes.files}


def store(root: Path) -> dict[str, str]:
    """Everything in .git, by the hash of its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() + str(path.stat().st_mtime_ns)
        for path in (root / ".git").rglob("*")
        if path.is_file()
    }


async def test_ignored_files_are_left_out_and_reported_once(root: Path, looked: SnapshotManager) -> None:
    [notice] = await looked.take()
    assert "build/" in notice
    sh(root, "echo 2 > build/out; echo 2 > build/new; echo 2 > src/x.o; echo 2 > src/a")
    changes = await looked.changes()
    assert paths(changes) == {"src/a"}
    assert changes.notices == []


async def test_a_tracked_file_is_covered_even_if_ignored(root: Path, looked: SnapshotManager) -> None:
    sh(root, "echo k > build/kept; git add -f build/kept")
    await looked.take()
    sh(root, "echo 2 > build/kept; echo 2 > build/out")
    assert paths(await looked.changes()) == {"build/kept"}


async def test_files_that_stop_being_ignored_are_not_reported_as_new(
    root: Path, looked: SnapshotManager
) -> None:
    """Otherwise undoing the command deletes files that it never created."""
    await looked.take()
    sh(root, "echo '*.o' > .gitignore")
    assert paths(await looked.changes()) == {".gitignore"}
    await looked.take()
    sh(root, "echo 3 > build/out")
    assert paths(await looked.changes()) == {"build/out"}


async def test_a_file_that_becomes_ignored_and_is_deleted_can_be_restored(
    root: Path, looked: SnapshotManager
) -> None:
    await looked.take()
    sh(root, "git rm -q --cached src/a; echo src/ >> .gitignore; rm src/a")
    assert paths(await looked.changes()) == {".gitignore", "src/a"}


async def test_contents_survive_a_git_that_loses_them(
    root: Path, ledger: Ledger, looked: SnapshotManager
) -> None:
    await looked.take()
    sh(root, "rm -rf .git; git init -q; echo 2 > src/a; git add -A")
    [change] = (await looked.changes()).files
    assert change.before is not None
    assert ledger.blob(change.before.blob) == b"1\n"


async def test_the_repository_itself_is_never_written(root: Path, looked: SnapshotManager) -> None:
    sh(root, "touch src/a; echo u > untracked")
    before = store(root)
    await looked.take()
    sh(root, "echo 2 > src/a; echo o > src/b.o")
    await looked.changes()
    await looked.take()
    assert store(root) == before


async def test_a_program_named_in_the_projects_git_settings_is_not_run(
    root: Path, looked: SnapshotManager, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    (root.parent / "hook").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (root.parent / "hook").chmod(0o755)
    sh(root, f"git config core.fsmonitor {root.parent}/hook; git config core.hooksPath {root.parent}")
    await looked.take()
    sh(root, "echo o > new.o")
    await looked.changes()
    assert not ran.exists()


async def test_a_nested_repository_has_its_own_rules(root: Path, looked: SnapshotManager) -> None:
    sh(
        root,
        "mkdir sub; cd sub; git init -q; echo dist/ > .gitignore; mkdir dist build; echo 1 > dist/f; echo 1 > build/f",
    )
    await looked.take()
    sh(root, "echo 2 > sub/dist/f; echo 2 > sub/build/f")
    assert paths(await looked.changes()) == {"sub/build/f"}


async def test_a_subfolder_of_a_repository_and_an_ignored_one_are_covered(root: Path, ledger: Ledger) -> None:
    """Many users have their whole home in a repository that ignores nearly all of it."""
    for name, expected in (("src", {"a"}), ("build", {"out", "x.o"})):
        snapshots = SnapshotManager(LocalSnapshotSource(str(root / name)), ledger)
        await snapshots.take()
        sh(root / name, "for f in *; do echo 5 > $f; done; echo 5 > x.o")
        assert paths(await snapshots.changes()) == expected
        snapshots.close()


async def test_rules_apply_from_the_moment_the_project_becomes_a_repository(
    tmp_path: Path, ledger: Ledger
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    sh(folder, "mkdir -p src node_modules; echo 1 > src/a; echo 1 > node_modules/x")
    with closing(
        SnapshotManager(LocalSnapshotSource(str(folder)), ledger, limits=SnapshotLimits())
    ) as snapshots:
        [notice] = await snapshots.take()
        assert "node_modules/" in notice
        sh(folder, "git init -q; echo '*.log' > .gitignore")
        assert paths(await snapshots.changes()) == {".gitignore"}
        sh(folder, "echo 1 > src/x.log; echo 1 > src/b")
        # What the rules of this run hide is covered all the same, until the run ends.
        assert paths(await snapshots.last_changes(0)) == {"src/x.log", "src/b"}
        await anyio.sleep(0.03)
        sh(folder, "echo 1 > src/y.log; echo 1 > src/c")
        assert paths(await snapshots.changes()) == {"src/c"}
