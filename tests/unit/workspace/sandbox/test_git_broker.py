"""If these fail, commands in the sandbox cannot commit, or git is their way out of it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.port import CommandResult
from newel.workspace.sandbox.policy import SandboxPolicy
from newel.workspace.sandbox.repository import find_sandbox_repository
from newel.workspace.sandbox.sandbox import Sandbox
from tests.requirements import require_program

pytestmark = pytest.mark.anyio

require_program("bwrap", "bubblewrap")


class Repository:
    """A home folder with a repository that has a commit, and a sandbox for a folder of it."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.top = self.home / "project"
        self.top.mkdir(parents=True)
        self.folder = self.top
        self.proof = self.top / "proof-of-a-program-that-ran"
        (self.home / ".gitconfig").write_text("[user]\nname = A User\nemail = user@example.org\n")
        self.git("init", "-q", "-b", "main", str(self.top))
        (self.top / "a.txt").write_text("one\n")
        self.git("add", "a.txt")
        self.git("commit", "-q", "-m", "First")
        self.sandbox = Sandbox(self.policy)

    def git(self, *words: str) -> str:
        environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", *words], cwd=self.top, env=environ, capture_output=True, text=True, check=True
        ).stdout

    def use(self) -> None:
        """Use it outside, as a user or an editor does."""
        for words in (
            "status",
            "log -1",
            "rebase --continue",
            "cherry-pick --continue",
            "rebase --abort",
            "diff",
        ):
            environ = os.environ | {"GIT_EDITOR": ":"}
            subprocess.run(
                ["git", *words.split()], cwd=self.top, env=environ, capture_output=True, check=False
            )

    def policy(self) -> SandboxPolicy:
        repository = find_sandbox_repository(str(self.folder), str(self.home))
        places = [] if repository is None else [repository.top, repository.common]
        return SandboxPolicy(
            home=str(self.home),
            writable=[str(self.folder)],
            readable=[sys.base_prefix, sys.prefix, str(self.home / ".gitconfig"), *places],
            protected=[f"{self.folder}/{name}" for name in (".git", ".vscode", ".envrc")],
            repository=repository,
        )

    async def run(self, command: str, *, seconds: float = 20) -> CommandResult:
        workspace = LocalWorkspace(
            str(self.folder),
            environ=dict(os.environ) | {"HOME": str(self.home)},
            find_launcher=lambda _: self.sandbox,
        )
        return await workspace.run(command, timeout=seconds)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("HOME", str(repository.home))
    yield repository
    repository.sandbox.close()


WORK = """
set -e
echo two >> a.txt; echo new > b.txt
git add -A; git commit -q -m 'Second'
git switch -q -c side; echo side > c.txt; git add c.txt; git -c user.name=Other commit -qm 'Side'
git switch -q main; echo three >> a.txt; git commit -qam 'Third'
git merge -q side -m 'Merge'
echo stashed >> a.txt; git stash -q; git stash list | grep -q stash@; git stash pop -q; git checkout -q -- a.txt
git tag v1; git tag -a v2 -m 'Two'; git branch extra; git branch -D -q extra 2>/dev/null
git switch -q -c rebased HEAD~1; echo r > r.txt; git add r.txt; git commit -qm 'Rebased'; git rebase -q main
git mv r.txt s.txt; git rm -q b.txt; git restore --staged --worktree b.txt; git reset -q --hard HEAD
git cherry-pick --no-commit side >/dev/null 2>&1 || git cherry-pick --abort || git reset -q --hard
git switch -q main; git revert --no-edit HEAD~0 -m 1 >/dev/null; git status --porcelain
mkdir -p deep; cd deep; echo d > d.txt; git add d.txt; git commit -qF - <<< 'From standard input'
"""


@pytest.mark.slow  # a story of forty commands; the other tests of this file are quick
@pytest.mark.timeout(120)
async def test_the_daily_work_of_git_runs_as_outside(repository: Repository) -> None:
    done = await repository.run(WORK, seconds=90)
    assert (done.exit_code, done.stderr) == (0, ""), done
    assert repository.git("log", "-1", "--format=%an %s") == "A User From standard input\n"
    assert "Other Side" in repository.git("log", "--format=%an %s")
    assert repository.git("tag") == "v1\nv2\n"
    assert repository.git("branch", "--format=%(refname:short)").split() == ["main", "rebased", "side"]
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("fsck", "--no-dangling") == ""
    assert "newel" not in (repository.top / ".git/config").read_text()


async def test_a_conflict_is_shown_and_solved(repository: Repository) -> None:
    done = await repository.run(
        "git switch -q -c side; echo s > a.txt; git commit -qam s; git switch -q main; echo m > a.txt; git commit -qam m; git merge side"
    )
    assert done.exit_code == 1
    assert "CONFLICT (content): Merge conflict in a.txt" in done.stdout
    done = await repository.run(
        "echo both > a.txt; git add a.txt; git commit -q --no-edit; git log --oneline | wc -l"
    )
    assert done.stdout.strip() == "4", done.stderr


@pytest.mark.parametrize(
    "words", ["-am x", "-qa -m x", "-qam x", "--all --message=x", "-aqFmessage", "--amend -a --no-edit"]
)
async def test_a_commit_of_all_changes_also_names_the_files_that_are_gone(
    repository: Repository, words: str
) -> None:
    (repository.top / "message").write_text("x\n")
    await repository.run("echo b > b.txt; git add b.txt; git commit -qm Second")
    done = await repository.run(f"rm a.txt; echo two >> b.txt; cd /; git -C {repository.top} commit {words}")
    assert done.exit_code == 0, done.stderr
    assert repository.git("ls-tree", "--name-only", "HEAD") == "b.txt\n"
    assert repository.git("show", "HEAD:b.txt") == "b\ntwo\n"
    assert repository.git("status", "--porcelain") == "?? message\n"


async def test_a_commit_that_names_files_says_what_to_do_instead(repository: Repository) -> None:
    done = await repository.run("echo two > a.txt; git commit -m x a.txt")
    assert done.exit_code != 0
    assert "`git add` the files, then `git commit` without them" in done.stderr
    done = await repository.run("git add a.txt && git commit -qm x")
    assert done.exit_code == 0, done.stderr


async def test_a_linked_working_tree_commits(repository: Repository) -> None:
    repository.git("worktree", "add", "-q", str(repository.home / "linked"), "-b", "linked")
    repository.folder = repository.home / "linked"
    done = await repository.run(
        "git status --short; echo l > l.txt && git add l.txt && git commit -qm Linked"
    )
    assert done.exit_code == 0, done.stderr
    assert repository.git("log", "-1", "--format=%s", "linked") == "Linked\n"


async def test_a_folder_of_a_repository_commits_what_is_in_it(repository: Repository) -> None:
    """The rest of the working tree is there too, else git would take it for deleted."""
    repository.folder = repository.top / "sub"
    repository.folder.mkdir()
    done = await repository.run(
        "echo s > s.txt && git add -A && git commit -qm Sub && git status --short; touch ../beside"
    )
    assert "Read-only" in done.stderr
    assert repository.git("show", "--stat", "--format=%s").split()[:3] == ["Sub", "sub/s.txt", "|"]
    assert repository.git("ls-files").split() == ["a.txt", "sub/s.txt"]


async def test_a_git_file_that_names_another_repository_opens_nothing(
    repository: Repository, tmp_path: Path
) -> None:
    """A hostile project may come with any `.git` file."""
    hostile = repository.home / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_text(f"gitdir: {repository.top}/.git\n")
    repository.folder = hostile
    assert repository.policy().repository is None
    done = await repository.run(f"cat {repository.top}/.git/config; echo x > x; git add x")
    assert done.exit_code != 0
    assert "core" not in done.stdout


INSIDE = (
    "git init -q in; git -C in config user.name n; git -C in config user.email e; echo x > in/x; git -C in add x; git -C in commit -qm x; "
    "git -C in config core.fsmonitor 'touch {proof}; false'; "
)
"""Git looks into a repository that the index names, with the settings in there."""

# Each would make a program run: now, where `.git` can be written, or later, when the user uses git.
ATTACKS = {
    "a hook": "echo 'echo ran > {proof}' > .git/hooks/pre-commit; git commit -qam x",
    "a hook elsewhere": "mkdir h; printf '#!/bin/sh\\ntouch {proof}' > h/pre-commit; chmod +x h/pre-commit; "
    "git -c core.hooksPath=h commit --allow-empty -qm x",
    "a setting": "git config core.fsmonitor 'touch {proof}'; git add a.txt",
    "a setting in a call": "git -c core.fsmonitor='touch {proof}' add a.txt",
    "a setting by a variable": "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0='touch {proof}' git add a.txt",
    "an editor": "GIT_EDITOR='touch {proof};' git commit --allow-empty",
    "a filter": "echo '* filter=evil' > .gitattributes; git -c filter.evil.clean='touch {proof}; cat' add -A",
    "a rebase that runs": "git commit -q --allow-empty -m x; git rebase -x 'touch {proof}' HEAD~1",
    "a rebase that runs, abbreviated": "git commit -q --allow-empty -m x; git rebase --ex='touch {proof}' HEAD~1",
    "a rebase that runs, in a cluster": "git commit -q --allow-empty -m x; git rebase -fx'touch {proof}' HEAD~1",
    "a rebase that runs when the user continues": "git switch -qc s; echo s > a.txt; git commit -qam s; git switch -q main; "
    "echo m > a.txt; git commit -qam m; git rebase -x 'touch {proof}' s; echo x > a.txt; git add a.txt",
    "a format of instructions": "git commit -q --allow-empty -m x; "
    "git -c rebase.instructionFormat='%s%nexec touch {proof}' rebase -i HEAD~1",
    "a way to merge": "printf '#!/bin/sh\\ntouch {proof}' > git-merge-evil; chmod +x git-merge-evil; PATH=.:$PATH git merge -s evil HEAD",
    "a signature": "git -c gpg.program='touch {proof}' commit -S --allow-empty -m x",
    "another repository's settings": "mkdir o; git init -q o; git -C o config core.fsmonitor 'touch {proof}'; "
    "git --git-dir=o/.git add a.txt",
    "a file for output": "git stash show -p --output=.git/commondir; git commit -q --allow-empty -m x; test -e .git/commondir && touch {proof}",
    "another working tree": "git --work-tree=.git checkout -f; git -C .git --work-tree=. add config",
    "a link to the folder of git": "ln -s .git g; git mv a.txt g/commondir; git commit -qm x; test -e .git/commondir && touch {proof}",
    "a command that is not passed on": "git remote add x 'ext::touch {proof}'; git fetch 'ext::touch {proof}'",
    "a repository inside": INSIDE + "git add in; git commit -qm y",
    "a repository inside, with all else": INSIDE + "git add -A; git commit -qm y",
    "a repository inside, from a stash": INSIDE
    + "git stash -uq; git cherry-pick stash^3; git stash pop -q; git add -A",
    "a repository inside, by a patch": INSIDE
    + "printf 'diff --git a/in b/in\\nnew file mode 160000\\nindex 0000000..%s\\n--- /dev/null\\n+++ b/in\\n@@ -0,0 +1 @@\\n+Subproject commit %s\\n' "
    "$(git -C in rev-parse HEAD) $(git -C in rev-parse HEAD) > p; git apply --index p; git am p; git commit -qm y",
    "a repository inside, by its parts": INSIDE
    + "git update-index --add --cacheinfo 160000,$(git -C in rev-parse HEAD),in; git commit -qm y",
    "a repository inside, in the place of a file": INSIDE + "rm a.txt; mv in a.txt; git commit -qam y",
    "a repository inside, in the place of a file that the call names": INSIDE
    + "rm a.txt; mv in a.txt; git commit -qm y a.txt; git commit -qm y -i a.txt; git commit -qm y --on -- a.txt; "
    "echo a.txt | git commit -qm y --pathspec-from-file=-; git commit -qmy --al",
    "settings of a branch": "git branch --edit-description; git branch -u HEAD",
}


@pytest.mark.parametrize("act", ATTACKS)
async def test_git_runs_no_program_and_leaves_none(repository: Repository, act: str) -> None:
    git = repository.top / ".git"
    before = {
        name: _tree(git / name)
        for name in ("config", "hooks", "commondir", "config.worktree", "modules", "worktrees")
    }
    await repository.run(ATTACKS[act].format(proof=repository.proof))
    # What a command runs in its own sandbox is no way out, so the proof counts only if git outside makes it.
    repository.proof.unlink(missing_ok=True)
    after = {name: _tree(git / name) for name in before}
    assert after == before
    repository.use()
    assert not repository.proof.exists()


@pytest.mark.slow  # seconds in which two look at the index while it changes
async def test_a_repository_inside_is_in_the_index_at_no_time(repository: Repository, tmp_path: Path) -> None:
    """Editors and prompts ask for the status again and again, and other tabs and tool servers commit."""
    other = Repository.__new__(Repository)
    other.home, other.top, other.folder = repository.home, repository.top, repository.folder
    other.sandbox = Sandbox(other.policy)
    await repository.run(INSIDE.format(proof=repository.proof))
    added: list[CommandResult] = []
    repository.proof.unlink(missing_ok=True)

    async def add() -> None:
        command = "for i in $(seq 12); do git add in; echo $i > a.txt; git add a.txt; done"
        added.append(await repository.run(command))

    async def look() -> None:
        while not added:
            await anyio.to_thread.run_sync(repository.git, "status")

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            tasks.start_soon(look)
            tasks.start_soon(other.run, "for i in $(seq 30); do git commit -q --allow-empty -m x; done")
    finally:
        other.sandbox.close()
    assert not repository.proof.exists()
    assert "160000" not in repository.git("log", "--raw", "--no-abbrev", "--format=")
    assert added[0].stderr.count("not added, as it is a repository of its own: in.") == 12
    assert repository.git("show", ":a.txt") == "12\n"


async def test_no_call_brings_a_submodule(repository: Repository) -> None:
    """``test_git_submodules.py`` has the ways to name its commit."""
    repository.git("switch", "-q", "-c", "evil")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repository.git("commit", "-q", "-m", "Brings it")
    repository.git("switch", "-q", "main")
    done = await repository.run("git switch -q evil")
    assert "it brings a submodule, 'sub'" in done.stderr
    assert "160000" not in repository.git("ls-files", "--stage")


async def test_a_change_of_the_index_outside_is_not_lost(repository: Repository) -> None:
    """The user adds a file while a call of the sandbox works on its copy of the index."""
    (repository.top / "mine.txt").write_text("mine\n")
    (repository.top / "a.txt").write_text("two\n")
    done: list[CommandResult] = []

    async def add() -> None:
        done.append(await repository.run("git add --pathspec-from-file=- < p"))

    os.mkfifo(repository.top / "p")
    pipe = os.open(repository.top / "p", os.O_RDWR)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(add)
        with anyio.fail_after(20):
            while not [*(repository.top / ".git").glob("newel-index-*/index")]:  # noqa: ASYNC110 — no event tells it
                await anyio.sleep(0.01)
        repository.git("add", "mine.txt")
        os.write(pipe, b"a.txt\n")
        os.close(pipe)
    assert "git outside of the sandbox has changed the index meanwhile. Try again." in done[0].stderr
    assert repository.git("ls-files") == "a.txt\nmine.txt\n"
    assert repository.git("show", ":a.txt") == "one\n"
    assert not [*(repository.top / ".git").glob("*.lock"), *(repository.top / ".git").glob("newel-*")]


def _tree(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in [path, *path.rglob("*")] if each.is_file()}


@pytest.mark.slow  # seconds of waiting
async def test_no_program_runs_where_the_repository_can_be_written(repository: Repository) -> None:
    """A hook, a filter, a merge driver and a nested repository that the user has set up: none runs beside a writable `.git`."""
    seen = repository.top / "seen"
    program = repository.top / "tool.sh"
    program.write_text(f"#!/bin/sh\ntouch {seen}\ncat\n")
    program.chmod(0o755)
    (repository.top / ".git/hooks/post-commit").write_text(f"#!/bin/sh\ntouch {seen}\n")
    (repository.top / ".git/hooks/post-commit").chmod(0o755)
    repository.git("config", "filter.mine.clean", str(program))
    done = await repository.run("git add a.txt && git commit -q --allow-empty -m x")
    assert done.exit_code == 0, done.stderr
    assert "note: hooks did not run in the sandbox: post-commit" in done.stderr
    done = await repository.run("echo '*.bin filter=mine' > .gitattributes; echo x > x.bin; git add x.bin")
    assert done.exit_code != 0
    assert "filters do not run here" in done.stderr
    done = await repository.run(
        f"git init -q in && cd in && git config user.email a@b && git config user.name c && echo x > x && git add x && git commit -qm x"
        f" && echo '* filter=own' > .gitattributes && git config filter.own.clean {shlex.quote(str(program))} && rm -f {seen}"
        " && cd .. && git add in && touch in/x && echo y > in/x && git commit --allow-empty -qam y"
    )
    assert done.exit_code == 0, done.stderr
    assert "not added, as it is a repository of its own: in." in done.stderr
    assert not seen.exists()


async def test_settings_that_the_user_changes_meanwhile_stay_protected(repository: Repository) -> None:
    """Git replaces the file, and what is mounted on a file is gone when the file is replaced."""
    await repository.run("git commit -q --allow-empty -m x")
    repository.git("config", "user.name", "Another")
    done = await repository.run("echo '[core]' >> .git/config || git commit -q --allow-empty -m y")
    assert "Read-only" in done.stderr
    assert repository.git("log", "-1", "--format=%an") == "Another\n"


async def test_a_protected_file_is_not_changed_by_git(repository: Repository) -> None:
    """Else a command would check out a task for the editor."""
    repository.git("switch", "-q", "-c", "side")
    (repository.top / ".envrc").write_text("evil\n")
    repository.git("add", ".envrc")
    repository.git("commit", "-q", "-m", "Other settings")
    repository.git("switch", "-q", "main")
    (repository.top / ".envrc").write_text("true\n")
    await repository.run("git checkout -f side -- .envrc; git restore --source side --worktree .envrc")
    assert (repository.top / ".envrc").read_text() == "true\n"


SWAP = """
import ctypes, os
os.symlink(".git", "link")
libc = ctypes.CDLL(None)
while True:  # exchange the folder and the link
    libc.renameat2(-100, b"d", -100, b"link", 2)
"""


async def test_a_branch_with_other_settings_keeps_them_and_says_so(repository: Repository) -> None:
    """The next commit would take the change back."""
    (repository.top / ".envrc").write_text("one\n")
    repository.git("add", ".envrc")
    repository.git("commit", "-q", "-m", "Settings")
    repository.git("switch", "-q", "-c", "side")
    (repository.top / ".envrc").write_text("two\n")
    repository.git("commit", "-q", "-a", "-m", "Other settings")
    done = await repository.run("git switch -q main")
    assert (repository.top / ".envrc").read_text() == "two\n"
    assert "were kept as they were" in done.stderr


@pytest.mark.slow  # three seconds of two programs that race
async def test_a_changing_link_does_not_lead_git_into_its_folder(repository: Repository) -> None:
    """A command swaps a folder for a link to `.git`, again and again, while git writes into the folder."""
    (repository.top / "swap.py").write_text(SWAP)
    done = await repository.run(
        f"""
        mkdir d; for i in $(seq 400); do echo evil > d/landed$i; done; git add d; git commit -qm d
        {sys.executable} swap.py & sleep 0.2
        for i in $(seq 6); do git checkout -q -f HEAD~1; git checkout -q -f main; done; kill %1
        """
    )
    assert list((repository.top / ".git").glob("landed*")) == [], done


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\0",
        b"\xff" * 8,
        (5).to_bytes(8, "big") + b"[1,2]",
        (2).to_bytes(8, "big") + b"{}",
        (9).to_bytes(8, "big") + b'{"argv":1',
    ],
)
async def test_garbage_is_no_request(repository: Repository, request_bytes: bytes) -> None:
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/newel/git.sock'); "
        f"data = {request_bytes!r}; socket.send_fds(s, [data[:8] or b'x'], [0]); s.sendall(data[8:]); s.shutdown(1); print(s.recv(99))"
    )
    done = await repository.run(
        f"{sys.executable} -c {shlex.quote(code)}; git commit -q --allow-empty -m x && echo works"
    )
    assert done.stdout.endswith("works\n"), done


@pytest.mark.parametrize("name", ["rebase-merge/git-rebase-todo", "rebase-apply/strategy", "sequencer/opts"])
async def test_a_pipe_of_the_repository_holds_up_no_call(repository: Repository, name: str) -> None:
    """Newel would wait for it for ever, and with it each later call, also those of other conversations."""
    pipe = repository.top / ".git" / name
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    done = await repository.run("echo b > b.txt; git add b.txt && git tag v1")
    assert done.exit_code == 0, done
    assert repository.git("ls-files") == "a.txt\nb.txt\n"


async def test_variables_that_may_be_paths_of_files_do_not_arrive(repository: Repository) -> None:
    """The C library reads time zones and catalogues of messages, with formats in them, from where they say."""
    done = await repository.run("TZ=UTC-9 GIT_AUTHOR_NAME=Other git commit -q --allow-empty -m x")
    assert done.exit_code == 0, done.stderr
    name, zone = repository.git("log", "-1", "--format=%an %ad", "--date=format:%z").split()
    assert name == "Other"
    assert zone != "+0900"


async def test_wrong_types_are_refused(repository: Repository) -> None:
    requests: list[dict[str, object]] = [
        {"argv": ["commit", 1], "cwd": "/", "env": {}},
        {"argv": ["commit"], "cwd": 3, "env": {}},
        {"argv": ["commit", "a\0b"], "cwd": str(repository.top), "env": {}},
        {"argv": ["commit"], "cwd": "/etc", "env": {}},
        {"argv": ["commit"], "cwd": str(repository.top), "env": {"GIT_AUTHOR_NAME": [1]}},
    ]
    for request in requests:
        data = json.dumps(request).encode()
        code = (
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/newel/git.sock'); "
            f"socket.send_fds(s, [{len(data).to_bytes(8, 'big')!r}], [0]); s.sendall({data!r}); print(s.recv(99))"
        )
        done = await repository.run(f"{sys.executable} -c {shlex.quote(code)}")
        assert done.stdout == "b''\n" or "refused" in done.stdout, (request, done)


async def test_git_ends_with_the_command_that_asked(repository: Repository) -> None:
    """`git commit -F -` waits for input that never comes."""
    done = await repository.run(
        "mkfifo p; exec 3<>p; echo 2 > a.txt; timeout 0.5 git commit -a -F - <&3; "
        "until git commit -q --allow-empty -m x; do sleep 0.1; done; echo works"
    )
    assert done.stdout.endswith("works\n"), done


async def test_what_the_sandbox_does_not_pass_on_is_said(repository: Repository) -> None:
    done = await repository.run("git --exec-path=. commit -m x")
    assert "git in the sandbox: `--exec-path=.` is not allowed" in done.stderr
    done = await repository.run("git rebase -x true HEAD")
    assert "a rebase here only picks commits" in done.stderr
