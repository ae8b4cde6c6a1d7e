"""If these fail, an agent works on something else than the project, or what it does in its copy reaches the user's files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newel.agent.errors import WorkspaceError
from newel.workspace.mirror import Content, Mirror, MirrorLimits
from tests.properties import examples

Open = Callable[..., Mirror]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def mirrored(tmp_path: Path, project: Path) -> Iterator[Open]:
    opened: list[Mirror] = []

    def open_one(of: Path = project, **limits: int) -> Mirror:
        opened.append(Mirror.open(tmp_path / "copies", str(of), limits=MirrorLimits(**limits)))
        return opened[-1]

    yield open_one
    for mirror in opened:
        mirror.close()


def update(mirror: Mirror, **contents: Content | None) -> None:
    mirror.update({path.replace("__", "/"): content for path, content in contents.items()}, lambda: False)


def tree(folder: Path | str) -> dict[str, tuple[int, bytes] | str]:
    """All that is in a folder, but for git's own: bits and bytes of files, where links lead."""
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
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


NAMES = st.sampled_from(["a", "b", "sub/a", "sub/deep/b", "other/c"])
TEXTS = st.sampled_from([None, b"", b"one\n", b"two\n", b"a long text\n" * 40])


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rounds=st.lists(
        st.tuples(
            st.lists(st.tuples(NAMES, TEXTS), max_size=4),
            st.lists(st.tuples(NAMES, TEXTS), max_size=4),
            st.dictionaries(NAMES, TEXTS, max_size=2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_after_an_update_the_copy_is_the_project_with_what_is_proposed(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[
        tuple[list[tuple[str, bytes | None]], list[tuple[str, bytes | None]], dict[str, bytes | None]]
    ],
) -> None:
    """Whatever the user did in the one and the agent in the other since."""
    folder = tmp_path_factory.mktemp("both")
    project = folder / "project"
    project.mkdir()
    mirror = Mirror.open(folder / "copies", str(project))
    for by_user, by_agent, proposed in rounds:
        for name, text in by_user:
            put(project / name, text)
        for name, text in by_agent:
            put(Path(mirror.root, name), text)
            mirror.touched(name)
        contents = {name: None if text is None else Content(text, 0o644) for name, text in proposed.items()}
        mirror.update(contents, lambda: False)
        wanted = tree(project) | {name: (0o644, text) for name, text in proposed.items() if text is not None}
        gone = {name for name, text in proposed.items() if text is None}
        assert tree(mirror.root) == {name: file for name, file in wanted.items() if name not in gone}
    mirror.close()


def put(path: Path, text: bytes | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def test_bits_times_links_and_strange_names_are_the_same(project: Path, mirrored: Open) -> None:
    script = project / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    os.utime(script, ns=(10**18, 10**18))
    (project / "to").symlink_to("run.sh")
    (project / "nowhere").symlink_to("/nowhere/at/all")
    (project / "a b\n'\"$x").write_text("x")
    Path(os.fsdecode(os.fsencode(str(project)) + b"/\xff")).write_text("bytes")
    os.mkfifo(project / "pipe")
    (project / "empty").mkdir()
    mirror = mirrored()
    update(mirror)
    expected = tree_without(project, "pipe")
    assert tree(mirror.root) == expected
    assert Path(mirror.root, "run.sh").stat().st_mtime_ns == 10**18


def tree_without(folder: Path, name: str) -> dict[str, tuple[int, bytes] | str]:
    (folder / name).unlink()
    return tree(folder)


def test_a_link_that_an_agent_put_in_place_of_a_folder_leads_no_update_out_of_the_copy(
    project: Path, mirrored: Open, tmp_path: Path
) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("mine\n")
    (project / "src" / "b.py").write_text("mine, too\n")
    mirror = mirrored()
    update(mirror)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("precious\n")
    (outside / "b.py").write_text("precious\n")
    subprocess.run(["rm", "-r", f"{mirror.root}/src"], check=True)
    Path(mirror.root, "src").symlink_to(outside)
    for name in ("src", "src/a.py", "src/b.py"):
        mirror.touched(name)
    (project / "src" / "b.py").unlink()
    update(mirror, src__new=Content(b"new\n", 0o644), src__a=None)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {
        "a.py": "precious\n",
        "b.py": "precious\n",
    }
    assert tree(mirror.root) == {"src/a.py": (0o644, b"mine\n"), "src/new": (0o644, b"new\n")}


def test_a_link_to_the_project_itself_does_not_let_an_update_empty_it(project: Path, mirrored: Open) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("mine\n")
    mirror = mirrored()
    update(mirror)
    subprocess.run(["rm", "-r", f"{mirror.root}/src"], check=True)
    Path(mirror.root, "src").symlink_to(project / "src")
    update(mirror, src__a=None, **{"src__a.py": None})
    assert (project / "src" / "a.py").read_text() == "mine\n"


def test_git_works_in_the_copy_and_nothing_of_it_reaches_the_repository(
    project: Path, mirrored: Open
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
    mirror = mirrored()
    update(mirror)
    assert git(mirror.root, "status", "--porcelain") == before[0]
    assert git(mirror.root, "branch", "--show-current") == "trunk\n"
    assert git(mirror.root, "log", "--format=%s", "other") == "first\n"
    assert Path(mirror.root, "made", "dep").exists()
    git(mirror.root, "commit", "-q", "-a", "-m", "in the copy")
    git(mirror.root, "branch", "-D", "other")
    after = (
        git(project, "status", "--porcelain"),
        git(project, "for-each-ref"),
        tree(project / ".git" / "refs"),
    )
    assert after == before
    assert git(mirror.root, "remote") == ""


def test_git_works_in_the_copy_of_a_worktree_and_of_a_folder_in_a_repository(
    tmp_path: Path, mirrored: Open
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
    whole, part = mirrored(tmp_path / "tree"), mirrored(top / "part")
    for mirror, name in ((whole, "part/a"), (part, "a")):
        update(mirror)
        assert git(mirror.root, "status", "--porcelain") == ""
        Path(mirror.root, "x.log").write_text("ignored\n")
        Path(mirror.root, name).write_text("two\n")
        assert git(mirror.root, "status", "--porcelain").split() == ["M", "part/a"]
        git(mirror.root, "commit", "-q", "-a", "-m", "in the copy")
    assert git(tmp_path / "tree", "rev-parse", "HEAD") == tree_head
    assert git(tmp_path / "tree", "status", "--porcelain") == ""


def test_what_git_ignores_is_left_out_of_a_project_that_is_too_large_and_that_is_said(
    project: Path, mirrored: Open
) -> None:
    git(project, "init", "-q")
    (project / ".gitignore").write_text("node_modules/\n")
    (project / "a").write_text("a\n")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "big").write_bytes(bytes(5000))
    mirror = mirrored(size=4000)
    update(mirror)
    assert tree(mirror.root).keys() == {".gitignore", "a"}
    assert ["node_modules" in words for words in mirror.told()] == [True]
    assert mirror.told() == []


def test_a_project_that_is_too_large_all_the_same_is_not_copied(project: Path, mirrored: Open) -> None:
    for number in range(5):
        (project / f"{number}").write_text("x")
    with pytest.raises(WorkspaceError, match="5 files") as raised:
        update(mirrored(files=4))
    assert "max_copy_files" in str(raised.value)


def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(
    project: Path, tmp_path: Path, mirrored: Open
) -> None:
    (project / "a").write_text("a\n")
    mine = mirrored()
    update(mine)
    words = (
        "import sys, os; from pathlib import Path; from newel.workspace.mirror import Mirror\n"
        "m = Mirror.open(Path(sys.argv[1]), sys.argv[2]); m.update({}, lambda: False); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", words, str(tmp_path / "copies"), str(project)], check=False)
    assert len(list((tmp_path / "copies").iterdir())) == 2
    other = mirrored()
    deadline = time.monotonic() + 10
    while len(list((tmp_path / "copies").iterdir())) > 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert {path.name for path in (tmp_path / "copies").iterdir()} == {
        Path(each.root).parent.name for each in (mine, other)
    }
    assert Path(mine.root, "a").read_text() == "a\n"


def test_an_update_that_was_ended_early_is_made_up_for(project: Path, mirrored: Open) -> None:
    for number in range(20):
        (project / f"{number}").write_text("x")
    looks = iter([False] * 8 + [True] * 100)
    mirror = mirrored()
    mirror.update({}, lambda: next(looks))
    update(mirror)
    assert tree(mirror.root) == tree(project)


def test_a_copy_that_was_begun_is_whole_after_the_next_update(project: Path, mirrored: Open) -> None:
    for number in range(300):
        (project / f"{number}").write_text(f"{number}")
    mirror = mirrored()
    mirror.begin()
    mirror.begin()
    update(mirror)
    assert tree(mirror.root) == tree(project)


def test_a_copy_that_is_let_go_while_it_is_begun_leaves_nothing(project: Path, tmp_path: Path) -> None:
    for number in range(2000):
        (project / f"{number}").write_text(f"{number}")
    words = (
        "import sys; from pathlib import Path; from newel.workspace.mirror import Mirror\n"
        "m = Mirror.open(Path(sys.argv[1]), sys.argv[2]); m.begin()"
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


def test_a_repository_that_git_cannot_copy_whole_is_said(project: Path, mirrored: Open) -> None:
    git(project, "init", "-q", "-b", "trunk")
    (project / "a").write_text("one\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    (project / ".git" / "refs" / "heads" / "broken").write_text(f"{'1' * 40}\n")
    mirror = mirrored()
    update(mirror)
    assert ["do not rely on git" in words for words in mirror.told()] == [True]
    assert tree(mirror.root) == {"a": (0o644, b"one\n")}
