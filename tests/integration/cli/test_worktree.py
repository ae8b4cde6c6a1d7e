"""If these fail, an agent changes the files that the user is working on, or work in a worktree is lost."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def in_repository(newel: Newel) -> Newel:
    (newel.project / "a.txt").write_text("one\n")
    (newel.project / ".gitignore").write_text("*.log\n")
    git(newel.project, "init", "-q")
    git(newel.project, "add", ".")
    git(newel.project, "commit", "-qm", "First")
    return newel


def worktrees(newel: Newel) -> list[Path]:
    return sorted((newel.home / ".newel" / "worktrees").glob("*"))


@pytest.mark.parametrize("sandbox", ["off", "workspace"])
def test_the_agent_works_elsewhere_and_the_user_learns_how_to_merge(with_model: Make, sandbox: str) -> None:
    newel = in_repository(with_model(scenario("", bash("echo two > a.txt"), {"content": "Done."})))
    done = newel("--worktree", "change it", "--sandbox", sandbox)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Done.\n"
    (place,) = worktrees(newel)
    assert place.name == "project-chat"
    assert (place / "a.txt").read_text() == "two\n"
    assert (newel.project / "a.txt").read_text() == "one\n"
    git(place, "commit", "-qam", "Second")
    commands = [line.strip() for line in done.stderr.split("\n") if line.startswith("  git ")]
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=newel.project, check=True, capture_output=True)
    assert (newel.project / "a.txt").read_text() == "two\n"
    assert worktrees(newel) == []


def test_without_changes_nothing_is_left(with_model: Make) -> None:
    newel = in_repository(with_model(scenario("", {"content": "Done."})))
    done = newel("--worktree=login", "look")
    assert "newel/login" in done.stderr
    assert "so it was removed" in done.stderr
    assert worktrees(newel) == []
    assert "newel/" not in git(newel.project, "branch")


def test_who_names_a_worktree_again_learns_where_the_first_one_is(with_model: Make) -> None:
    """Elsewhere the same name leads back to it: here the work seems to be gone."""
    newel = in_repository(with_model(scenario("", bash("echo x >> new.txt"), {"content": "Done."})))
    resume = re.compile(r"resumes the work there: newel (--cwd \S+/project-login --continue)$", re.MULTILINE)
    assert not resume.search(newel("--worktree=login", "go").stderr)
    (words,) = resume.findall(newel("--worktree=login", "go").stderr)
    first, second = worktrees(newel)
    assert (first.name, second.name) == ("project-login", "project-login-2")
    assert newel(*words.split(), "go").returncode == 0
    assert (first / "new.txt").read_text() == "x\nx\n"
    assert not resume.search(newel("--worktree", "go").stderr + newel("--worktree", "go").stderr)


def test_a_file_that_git_ignores_is_not_deleted(with_model: Make) -> None:
    newel = in_repository(with_model(scenario("", bash("echo x > a.log"), {"content": "Done."})))
    assert "git worktree remove" in newel("--worktree", "look").stderr
    assert (worktrees(newel)[0] / "a.log").exists()


def test_what_a_command_leaves_in_a_submodule_runs_nothing_outside_of_the_sandbox(
    with_model: Make, tmp_path: Path
) -> None:
    """Newel itself looks whether anything has changed, outside."""
    commands = (
        "cd lib && git init -q && echo x > f && git add f && git -c user.name=A -c user.email=a@b commit -qm x",
        f"git config filter.x.clean 'touch {tmp_path}/ran; cat' && echo '* filter=x' > .git/info/attributes && touch f",
    )
    newel = in_repository(with_model(scenario("", bash(" && ".join(commands)), {"content": "Done."})))
    commit = git(newel.project, "rev-parse", "HEAD").strip()
    git(newel.project, "update-index", "--add", "--cacheinfo", f"160000,{commit},lib")
    git(newel.project, "commit", "-qm", "Submodule")
    done = newel("--worktree", "look", "--sandbox", "off")  # in which the submodule is closed
    assert done.stdout == "Done.\n", done.stderr
    (place,) = worktrees(newel)
    assert "filter" in (place / "lib" / ".git" / "config").read_text()
    assert not (tmp_path / "ran").exists()


def test_a_conversation_shows_where_it_works(with_model: Make) -> None:
    newel = in_repository(with_model(scenario("", {"content": "Done."})))
    with Tmux([str(BIN / "newel"), "--worktree"], newel.project, newel.environ, columns=140) as screen:
        screen.wait_for("newel/chat · ")
        screen.type("", "C-d")
        screen.wait_for("so it was removed")
        screen.wait_for_end()


def test_without_a_repository_or_with_a_host_it_says_so(with_model: Make) -> None:
    newel = with_model(scenario("", {"content": "Done."}))
    assert "is not in a git repository" in newel("--worktree", "look").stderr
    assert "on this machine only" in newel("--worktree", "--host", "h:/x", "look").stderr
    assert newel("--worktree", "-c", "look").returncode == 2
    assert newel.requests == []


def test_a_conversation_ends_with_the_one_way_to_resume_it(with_model: Make) -> None:
    """``newel -c`` in the folder of the shell would resume another one."""
    newel = in_repository(with_model(scenario("", bash("echo two > a.txt"), {"content": "Done."})))
    words = [str(BIN / "newel"), "--worktree", "--sandbox", "off"]
    with Tmux(words, newel.project, newel.environ, columns=160) as screen:
        screen.wait_for("newel/chat · ")
        screen.type("change it", "Enter")
        screen.wait_for("Done.")
        screen.type("", "C-d")
        screen.wait_for("git worktree remove")
        screen.wait_for_end()
        assert "resumes this conversation" not in screen.text
