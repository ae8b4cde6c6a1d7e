"""If these fail, an agent's copy differs from the project, or changes in it reach the user's files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.errors import WorkspaceError
from newel.workspace.mirror.mirror import Mirror
from newel.workspace.mirror.port import FileContent
from newel.workspace.ssh.mirror.scripts import LEASE
from tests.mirror_disks import DISKS, Disks, open_mirrors
from tests.processes import COMMAND_SECONDS
from tests.properties import examples
from tests.requirements import require_program

ROOT = Path(__file__).resolve().parents[4]

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture(params=["local", "dash"])
async def mirrored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Disks]:
    async with open_mirrors(request.param, tmp_path) as disks:
        yield disks


async def update(mirror: Mirror, **contents: FileContent | None) -> None:
    await mirror.update({path.replace("__", "/"): content for path, content in contents.items()})


def copy_in(mirror: Mirror) -> Path:
    return Path(mirror.root)


def tree(folder: Path | str) -> dict[str, tuple[int, bytes] | str]:
    """The content of a folder without git's own: modes and bytes of files, targets of links."""
    found: dict[str, tuple[int, bytes] | str] = {}
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if ".git" in path.parts or (path.is_dir() and not path.is_symlink()):
            continue
        linked = path.is_symlink()
        found[name] = str(path.readlink()) if linked else (path.stat().st_mode & 0o777, path.read_bytes())
    return found


def git(folder: Path | str, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        [require_program("git"), *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


NAMES = st.sampled_from(["a", "b", "sub/a", "sub/deep/b", "other/c", "-n\n o/'q'"])
TEXTS = st.sampled_from([None, b"", b"one\n", b"two\n", b"a long text\n" * 40])
PLACES = st.sampled_from(["a", "sub", "sub/deep", "other"])
Round = tuple[
    list[tuple[str, bytes | None]], list[tuple[str, bytes | None]], list[str], dict[str, bytes | None]
]
ROUNDS = st.lists(
    st.tuples(
        st.lists(st.tuples(NAMES, TEXTS), max_size=4),
        st.lists(st.tuples(NAMES, TEXTS), max_size=4),
        st.lists(PLACES, max_size=1),
        st.dictionaries(NAMES, TEXTS, max_size=2),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("disk", DISKS)
def test_after_an_update_the_copy_equals_the_project_with_its_proposals(
    disk: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the user changed in the project and the agent in the copy; and no planted link led out."""

    @settings(
        max_examples=examples(25 if disk == "local" else 5),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(rounds=ROUNDS)
    def check(rounds: list[Round]) -> None:
        anyio.run(_live_through, disk, tmp_path_factory.mktemp("both"), rounds)

    check()


async def _live_through(disk: str, folder: Path, rounds: list[Round]) -> None:
    project, outside = folder / "project", folder / "outside"
    for name in ("project", "outside/deep"):
        (folder / name).mkdir(parents=True)
    for name in ("a", "b", "c", "deep/b"):
        put(outside / name, b"precious")
    precious = tree(outside)
    async with open_mirrors(disk, folder) as disks:
        mirror = await disks(project)
        for by_user, by_agent, linked, proposed in rounds:
            for name, text in by_user:
                put(project / name, text)
            for name, text in by_agent:
                put(Path(mirror.root, name), text)
                mirror.invalidate(name)
            for name in linked:
                _link(mirror, name, outside)
            contents = {
                name: None if text is None else FileContent(text, 0o644) for name, text in proposed.items()
            }
            await mirror.update(contents)
            wanted = tree(project) | {
                name: (0o644, text) for name, text in proposed.items() if text is not None
            }
            gone = {name for name, text in proposed.items() if text is None}
            assert tree(mirror.root) == {name: file for name, file in wanted.items() if name not in gone}
            assert tree(outside) == precious


def _link(mirror: Mirror, name: str, outside: Path) -> None:
    """The actions of a command; the deleted files are known then, and so is the name itself."""
    place = Path(mirror.root, name)
    for path in [place, *place.rglob("*")]:
        mirror.invalidate(str(path.relative_to(mirror.root)))
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside)


def put(path: Path, text: bytes | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


@pytest.mark.parametrize("mirrored", DISKS, indirect=True)
async def test_modes_times_links_and_unusual_names_are_copied(project: Path, mirrored: Disks) -> None:
    script = project / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    os.utime(script, ns=(10**18, 10**18))
    (project / "to").symlink_to("run.sh")
    (project / "nowhere").symlink_to("/nowhere/at/all")
    (project / "a b\n'\"$x").write_text("x")
    (project / os.fsdecode(b"\xff")).write_text("bytes")
    os.mkfifo(project / "pipe")
    (project / "empty").mkdir()
    mirror = await mirrored(project)
    await update(mirror)
    expected = tree_without(project, "pipe")
    assert tree(mirror.root) == expected
    assert (copy_in(mirror) / "run.sh").stat().st_mtime_ns == 10**18


def tree_without(folder: Path, name: str) -> dict[str, tuple[int, bytes] | str]:
    (folder / name).unlink()
    return tree(folder)


async def test_a_link_in_place_of_a_folder_leads_no_update_out_of_the_copy(
    project: Path, mirrored: Disks, tmp_path: Path
) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("mine\n")
    (project / "src" / "b.py").write_text("mine, too\n")
    mirror = await mirrored(project)
    await update(mirror)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("precious\n")
    (outside / "b.py").write_text("precious\n")
    shutil.rmtree(f"{mirror.root}/src")
    (copy_in(mirror) / "src").symlink_to(outside)
    for name in ("src", "src/a.py", "src/b.py"):
        mirror.invalidate(name)
    (project / "src" / "b.py").unlink()
    await update(mirror, src__new=FileContent(b"new\n", 0o644), src__a=None)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {
        "a.py": "precious\n",
        "b.py": "precious\n",
    }
    assert tree(mirror.root) == {"src/a.py": (0o644, b"mine\n"), "src/new": (0o644, b"new\n")}


async def test_a_link_in_place_of_a_file_is_not_written_through(
    project: Path, mirrored: Disks, tmp_path: Path
) -> None:
    for name in ("copied", "proposed"):
        (project / name).write_text("mine\n")
        (tmp_path / name).write_text("precious\n")
    mirror = await mirrored(project)
    await update(mirror)
    for name in ("copied", "proposed"):
        (copy_in(mirror) / name).unlink()
        (copy_in(mirror) / name).symlink_to(tmp_path / name)
        mirror.invalidate(name)
    await update(mirror, proposed=FileContent(b"new\n", 0o644))
    assert [(tmp_path / name).read_text() for name in ("copied", "proposed")] == ["precious\n"] * 2
    assert tree(mirror.root) == {"copied": (0o644, b"mine\n"), "proposed": (0o644, b"new\n")}


async def test_a_link_to_the_project_does_not_let_an_update_empty_it(project: Path, mirrored: Disks) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("mine\n")
    mirror = await mirrored(project)
    await update(mirror)
    shutil.rmtree(f"{mirror.root}/src")
    (copy_in(mirror) / "src").symlink_to(project / "src")
    await update(mirror, src__a=None, **{"src__a.py": None})
    assert (project / "src" / "a.py").read_text() == "mine\n"


async def test_git_works_in_the_copy_and_the_repository_is_not_affected(
    project: Path, mirrored: Disks
) -> None:
    git(project, "init", "-q", "-b", "trunk")
    (project / "a").write_text("one\n")
    (project / ".gitignore").write_text("made/\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    git(project, "branch", "other")
    (project / "a").write_text("two\n")
    (project / "staged").write_text("staged\n")
    git(project, "add", "staged")
    (project / "made").mkdir()
    (project / "made" / "dep").write_text("dep\n")
    before = (
        git(project, "status", "--porcelain"),
        git(project, "for-each-ref"),
        tree(project / ".git" / "refs"),
    )
    mirror = await mirrored(project)
    await update(mirror)
    assert git(mirror.root, "status", "--porcelain") == before[0]
    assert git(mirror.root, "branch", "--show-current") == "trunk\n"
    assert git(mirror.root, "log", "--format=%s", "other") == "first\n"
    assert (copy_in(mirror) / "made" / "dep").exists()
    git(mirror.root, "commit", "-q", "-a", "-m", "in the copy")
    git(mirror.root, "branch", "-D", "other")
    after = (
        git(project, "status", "--porcelain"),
        git(project, "for-each-ref"),
        tree(project / ".git" / "refs"),
    )
    assert after == before
    assert git(mirror.root, "remote") == ""


@pytest.mark.parametrize("name", ["info/exclude", "shallow", "info"])
async def test_a_link_in_a_repository_brings_no_secret_into_the_copy(
    mirrored: Disks, project: Path, tmp_path: Path, name: str
) -> None:
    """Commands in a sandbox read the copy, and not what the link of a hostile repository leads to."""
    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "one")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "exclude").write_text("SECRET\n")
    link = project / ".git" / name
    shutil.rmtree(link) if link.is_dir() else link.unlink(missing_ok=True)
    link.symlink_to(secret if name == "info" else secret / "exclude")
    mirror = await mirrored(project)
    await update(mirror)
    texts = [path.read_bytes() for path in copy_in(mirror).rglob("*") if path.is_file()]
    assert not any(b"SECRET" in text for text in texts)


async def test_git_works_in_the_copy_of_a_worktree_and_of_a_folder_in_a_repository(
    tmp_path: Path, mirrored: Disks
) -> None:
    top = tmp_path / "top"
    (top / "part").mkdir(parents=True)
    (top / "part" / "a").write_text("one\n")
    (top / "elsewhere").write_text("not there\n")
    (top / ".gitignore").write_text("*.log\n")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    git(top, "worktree", "add", "-q", str(tmp_path / "tree"))
    tree_head = git(tmp_path / "tree", "rev-parse", "HEAD")
    whole, part = await mirrored(tmp_path / "tree"), await mirrored(top / "part")
    for mirror, name in ((whole, "part/a"), (part, "a")):
        await update(mirror)
        assert git(mirror.root, "status", "--porcelain") == ""
        (copy_in(mirror) / "x.log").write_text("ignored\n")
        (copy_in(mirror) / name).write_text("two\n")
        assert git(mirror.root, "status", "--porcelain").split() == ["M", "part/a"]
        git(mirror.root, "commit", "-q", "-a", "-m", "in the copy")
    assert git(tmp_path / "tree", "rev-parse", "HEAD") == tree_head
    assert git(tmp_path / "tree", "status", "--porcelain") == ""


async def test_ignored_files_are_left_out_of_a_large_project_with_a_notice(
    project: Path, mirrored: Disks
) -> None:
    git(project, "init", "-q")
    (project / ".gitignore").write_text("node_modules/\n")
    (project / "a").write_text("a\n")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "big").write_bytes(bytes(5000))
    mirror = await mirrored(project, size=4000)
    await update(mirror)
    assert tree(mirror.root).keys() == {".gitignore", "a"}
    assert ["node_modules" in words for words in mirror.drain_notices()] == [True]
    assert mirror.drain_notices() == []


async def test_a_project_that_is_still_too_large_is_not_copied(project: Path, mirrored: Disks) -> None:
    for number in range(5):
        (project / f"{number}").write_text("x")
    with pytest.raises(WorkspaceError, match="5 files") as raised:
        await update(await mirrored(project, files=4))
    assert "max_copy_files" in str(raised.value)


KILLED = """
import anyio, os, signal, subprocess, sys
from pathlib import Path
from tests.mirror_disks import open_mirrors

async def main():
    async with open_mirrors(sys.argv[1], Path(sys.argv[2])) as disks:
        mirror = await disks(Path(sys.argv[3]))
        await mirror.update({})
        keeper = []
        if sys.argv[1] == "local":
            ask = ["pgrep", "-P", str(os.getpid()), "-f", "newel-copy"]
            keeper = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.split()
            os.kill(int(keeper[0]), signal.SIGSTOP)
        print(mirror.root, *keeper, sep="\\n", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


@pytest.mark.parametrize("disk", ["local", "dash"])
async def test_leftovers_of_a_killed_process_are_removed_and_copies_in_use_stay(
    disk: str, project: Path, tmp_path: Path
) -> None:
    """Otherwise copies of a project, its keys included, accumulate on disk, or an agent loses its own. The process
    that removes a copy when its owner dies is stopped here, as if it had died too: the next copy's process must find
    it.
    """
    require_program("pgrep", "procps")
    (project / "a").write_text("a\n")
    (project / ".hidden").mkdir()
    async with open_mirrors(disk, tmp_path) as disks:
        mine, hidden = await disks(project), await disks(project / ".hidden")
        await update(mine)
        words = [sys.executable, "-c", KILLED, disk, str(tmp_path), str(project)]
        killed = await anyio.run_process(words, cwd=ROOT, check=False)
        assert killed.stdout, killed.stderr
        root, *keepers = killed.stdout.decode().splitlines()
        left = tmp_path / root
        try:
            assert (left / "a").read_text() == "a\n"
            for lease in left.parent.glob(LEASE):
                os.utime(lease, (0, 0))  # as if that had been long ago
            other = await disks(project)
            await until_gone(left)
        finally:
            for keeper in keepers:
                os.kill(int(keeper), signal.SIGCONT)
        kept = {Path(each.root).parent.name for each in (mine, hidden, other)}
        assert {path.name for path in disks.copies.iterdir()} == kept
        assert (copy_in(mine) / "a").read_text() == "a\n"


async def until_gone(path: Path) -> None:
    """A removal in the background sends no notification."""
    with anyio.fail_after(10):
        while path.parent.exists() or list(path.parent.parent.glob(".*.gone")):  # noqa: ASYNC110 — as above
            await anyio.sleep(0.01)


async def test_a_cancelled_update_is_made_up_for(project: Path, mirrored: Disks) -> None:
    for number in range(200):
        (project / f"{number}").write_text("x")
    mirror = await mirrored(project)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(update, mirror)
        with anyio.fail_after(10):
            while not list(copy_in(mirror).iterdir()):  # noqa: ASYNC110 — an update tells of no step
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    await update(mirror)
    assert tree(mirror.root) == tree(project)


async def test_an_interrupted_copy_is_complete_after_the_next_update(project: Path, mirrored: Disks) -> None:
    for number in range(300):
        (project / f"{number}").write_text(f"{number}")
    mirror = await mirrored(project)
    mirror.start()
    mirror.start()
    await update(mirror)
    assert tree(mirror.root) == tree(project)


def test_a_copy_released_during_its_creation_leaves_nothing(project: Path, tmp_path: Path) -> None:
    for number in range(2000):
        (project / f"{number}").write_text(f"{number}")
    words = (
        "import sys, anyio; from pathlib import Path; from newel.workspace.local import LocalWorkspace\n"
        "m = anyio.run(LocalWorkspace(sys.argv[2]).mirror, Path(sys.argv[1])); m.start()"
    )
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", words, str(tmp_path / "copies"), str(project)],
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
    assert list((tmp_path / "copies").iterdir()) == []


@pytest.mark.parametrize("name", ["lock", "-rf", "a\nb", ".hidden"])
async def test_a_project_may_have_any_name(name: str, tmp_path: Path, mirrored: Disks) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "a").write_text("a\n")
    mirror = await mirrored(tmp_path / name)
    await update(mirror)
    assert tree(mirror.root) == {"a": (0o644, b"a\n")}
    assert copy_in(mirror).name == name


@pytest.mark.parametrize(("name", "text"), [("refs/heads/broken", "1" * 40), ("packed-refs", "garbage")])
async def test_a_repository_that_git_cannot_copy_completely_is_reported(
    project: Path, mirrored: Disks, name: str, text: str
) -> None:
    git(project, "init", "-q", "-b", "trunk")
    (project / "a").write_text("one\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    (project / ".git" / name).write_text(f"{text}\n")
    mirror = await mirrored(project)
    await update(mirror)
    assert ["do not rely on git" in words for words in mirror.drain_notices()] == [True]
    assert tree(mirror.root) == {"a": (0o644, b"one\n")}


SHUT = """
import os, sys, tempfile, anyio
from pathlib import Path
# Before it is somebody else, who may not be let into the folder that this is read from.
import newel.workspace.mirror.mirror, newel.workspace.mirror.local_disk
from newel.workspace.local import LocalWorkspace
from newel.workspace.mirror.port import FileContent

def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in Path(folder).rglob("*") if path.is_file()}

async def main():
    if os.geteuid() == 0:  # root may write anywhere, so be someone else
        os.seteuid(65534)
    with tempfile.TemporaryDirectory() as folder:
        project, copies = Path(folder, "project"), Path(folder, "copies")
        (project / "sub/deep").mkdir(parents=True)
        for name in ("sub/a", "sub/deep/b"):
            (project / name).write_text("one")
        mirror = await LocalWorkspace(str(project)).mirror(copies)
        for bits in (0o500, 0o000):
            await mirror.update({})
            shut = Path(mirror.root, "sub")
            (shut / "a").write_text("two")
            (shut / "deep/b").unlink()
            (shut / "deep/new/more").mkdir(parents=True)
            (shut / "deep/new/more/file").write_text("two")
            for each in ("deep/new/more", "deep/new", "deep", ""):
                (shut / each).chmod(bits)
            for each in ("sub/a", "sub/deep/b", "sub/deep/new/more/file"):
                mirror.invalidate(each)
            await mirror.update({"sub/deep/new": FileContent(b"wanted", 0o644)})
            print(contents(mirror.root) == contents(project) | {"sub/deep/new": "wanted"})
        for each in ("deep", ""):
            (shut / each).chmod(bits)
        mirror.close()
        with anyio.fail_after(5):
            while list(copies.iterdir()):
                await anyio.sleep(0.01)
        print("nothing is left")

anyio.run(main)
"""


def test_unreadable_folders_of_an_agent_are_repaired_and_removed_for_an_ordinary_user() -> None:
    """Otherwise each of its calls fails from then on, and the copy stays on disk forever."""
    done = subprocess.run(
        [sys.executable, "-c", SHUT], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )
    assert done.stdout.splitlines() == ["True", "True", "nothing is left"], done.stderr
