"""If these fail, a command that starts a program, writes, or shows a secret runs without a question."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tomllib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from newel.permissions.commands.judge import judge_command
from newel.permissions.commands.project_view import LocalViewedFiles, WorkspaceView
from newel.permissions.rules import RuleSet, parse_rule
from newel.permissions.secret_paths import SecretPaths
from newel.workspace.git import LocalGit, copy_repository
from newel.workspace.local import LocalWorkspace
from newel.workspace.ssh.connection import connected
from newel.workspace.ssh.host_project import HostViewedFiles
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.sshd import Sshd

pytestmark = pytest.mark.anyio

DATA: Final = tomllib.loads(Path(__file__).with_name("hostile_commands.toml").read_text())

STARTS: Final = [
    *(carrier.replace("BASE", base) for carrier in DATA["carriers"] for base in DATA["bases"]),
    *DATA["starts"],
]

NARROW: Final = RuleSet(
    allow=tuple(
        map(
            parse_rule,
            ["bash(git status)", "bash(git log)", "bash(ls *)", "bash(npm run test)", "bash(echo *)"],
        )
    )
)

SECRET: Final = "SECRET-4711"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project, a repository in it, programs, and secrets."""
    base = tmp_path_factory.mktemp("hostile")
    project = base / "project"
    for folder in ("sub", "bin", "folder", "deep/deep"):
        (project / folder).mkdir(parents=True)
    for name, text in {
        "a.txt": "one\ntwo\n",
        "b.txt": "b\na\n",
        "sub/c.txt": "c\n",
        "run.sh": "pwn\n",
        "Makefile.pwn": "all:\n\tpwn\n",
        "hex.txt": "00000000: 6162\n",
        "p.diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n",
        "big.txt": "line of some length\n" * 5_000,
        "packed.lz": f"LZIP\1{'x' * 40}",
        ".env": f"X={SECRET}\n",
        "../outside": f"{SECRET}\n",
    }.items():
        (project / name).write_text(text)
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("../outside")
    (project / "folder/link").symlink_to("../.env")
    (project / "deep/deep/link").symlink_to("../../../outside")
    (project / "way").symlink_to("deep/deep")
    for option in ("-b", "-v"):  # a file for programs whose options end at the first file
        (project / option).symlink_to(".env")
    for place in ("bin/pwn", "bin/git-ls-pwn", "../bin/pwn", "../bin/gpg", "../bin/lzip"):
        path = project / place
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\n: > "${MARK:-../mark}"\n')  # `file` starts programs without variables
        path.chmod(0o755)
    git = "git -c user.name=a -c user.email=a@b"
    _sh(
        project,
        f"git init -q -b main && echo '*' > .git/info/exclude && git add -f a.txt b.txt sub && {git} commit -qm 1 "
        f"&& git branch other && git tag v1 && echo three >> a.txt && {git} commit -qam 2 && git remote add origin /nowhere "
        "&& git config user.name a && git config user.email a@b && git config diff.external pwn && echo changed >> b.txt "
        "&& git config --unset diff.external "
        r"&& git tag signed $(git cat-file commit HEAD | sed 's/^committer .*/&\ngpgsig -----BEGIN PGP SIGNATURE-----\n =x\n -----END PGP SIGNATURE-----/' "
        "| git hash-object -t commit -w --stdin) && cd deep/deep && git init -q && git config core.fsmonitor pwn",
    )
    return base


def _sh(project: Path, command: str) -> None:
    subprocess.run(["bash", "-ec", command], cwd=project, check=True, stdout=subprocess.DEVNULL)


def view_of(project: Path, home: Path) -> WorkspaceView:
    root = os.path.realpath(project)
    places = SecretPaths(root, home=str(home), environ={})
    return WorkspaceView(LocalWorkspace(root), places, LocalViewedFiles())


@asynccontextmanager
async def host_view_of(project: Path, home: Path, sshd: Sshd) -> AsyncGenerator[WorkspaceView]:
    root = os.path.realpath(project)  # noqa: ASYNC240 — once
    async with connected(Target("own", path=root), config=str(sshd.config)) as connection:
        places = SecretPaths(root, home=str(home))
        yield WorkspaceView(SshWorkspace(connection), places, HostViewedFiles(connection))


@pytest.fixture(params=["here", "on a host"])
async def view(request: pytest.FixtureRequest, template: Path, sshd: Sshd) -> AsyncGenerator[WorkspaceView]:
    """That of a project here, or of the same one over SSH."""
    if request.param == "here":
        yield view_of(template / "project", template / "home")
        return
    async with host_view_of(template / "project", template / "home", sshd) as on_host:
        yield on_host


def test_there_are_five_hundred() -> None:
    assert len({*STARTS, *DATA["writes"], *DATA["reads"]}) >= 500


@pytest.mark.parametrize("kind", ["starts", "writes", "reads", "unproven"])
async def test_no_hostile_command_runs_unasked(view: WorkspaceView, kind: str) -> None:
    commands = STARTS if kind == "starts" else DATA[kind]
    passed = [
        command
        for command in commands
        if (await judge_command(command, NARROW, view)).effect in {"reads", "allow"}
    ]
    assert passed == []


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("git status", "reads"),  # also where a rule allows it: a plan runs what reads
        ("cd ./sub && git status && cat c.txt", "reads"),
        ("touch x | head -3 && pwd", "allow"),
        ("cat a.txt && touch x", "allow"),
        ("grep -n -- one a.txt && git log -- a.txt && find -H sub -name c.txt", "reads"),
        ("touch x && cat link", "none"),
        ("touch x && cat a.txt", "none"),
        ("touch x && git diff", "none"),
        ("touch x && grep -r one sub", "none"),
        ("cd deep/deep && git log", "allow"),
        ("cd deep/deep && git diff", "none"),
        ("cd deep && cat deep/link", "none"),
        ("cd ../ && cat a.txt", "none"),
    ],
)
async def test_what_is_read_after_an_allowed_command_is_not_known(
    view: WorkspaceView, command: str, effect: str
) -> None:
    """It may have led to another folder, or put a link in place of a file."""
    rules = RuleSet(
        allow=tuple(map(parse_rule, ["bash(cd *)", "bash(touch *)", "bash(git status)", "bash(git log)"]))
    )
    assert (await judge_command(command, rules, view)).effect == effect


@pytest.mark.parametrize("link", ["file", "symbolic", "worktree of another", "worktree"])
async def test_a_repository_elsewhere_is_not_read_unasked(tmp_path: Path, link: str) -> None:
    """The `.git` of an unpacked project may name any repository of the user; one that names the project in turn is its own."""
    other, project = tmp_path / "other", tmp_path / "project"
    other.mkdir()
    git = "git -c user.name=a -c user.email=a@b"
    _sh(other, f"git init -q -b main && echo {SECRET} > a.txt && git add a.txt && {git} commit -qm 1")
    if "worktree" in link:
        _sh(other, f"git worktree add -q {project if link == 'worktree' else tmp_path / 'third'}")
    if link != "worktree":
        project.mkdir()
    match link:
        case "symbolic":
            (project / ".git").symlink_to(other / ".git")
        case "file":
            (project / ".git").write_text(f"gitdir: {other}/.git\n")
        case "worktree of another":
            shutil.copy(tmp_path / "third/.git", project / ".git")
        case _:
            pass
    shown = await judge_command("git show HEAD:a.txt", RuleSet(), view_of(project, tmp_path / "home"))
    assert shown.effect == ("reads" if link == "worktree" else "none")


def _repository(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    git = "git -c user.name=a -c user.email=a@b"
    _sh(folder, f"git init -q -b main && echo {text} > a.txt && git add a.txt && {git} commit -qm {text}")


LEADING_OUT: Final = {
    "commondir": "echo ../../other/.git > .git/commondir",
    "a full path": 'echo "$PWD/../other/.git" > .git/commondir',
    "objects": "rm -r .git/objects .git/refs; ln -s ../../other/.git/objects ../../other/.git/refs .git",
    "pack": "rm -r .git/objects/pack; ln -s ../../../other/.git/objects/pack .git/objects",
    "branches": "rm -r .git/refs/heads; ln -s ../../../other/.git/refs/heads .git/refs",
    "packed branches": "ln -s ../../other/.env .git/packed-refs",
    "a rebase": "mkdir .git/rebase-merge; ln -s ../../../other/.env .git/rebase-merge/done",
    "alternates": "echo ../../../other/.git/objects > .git/objects/info/alternates",
    "alternates by a link": "ln -s ../other/.git/objects o; echo ../../o > .git/objects/info/alternates",
    "alternates of alternates": "mkdir -p o/info; echo ../../other/.git/objects > o/info/alternates; echo ../../o > .git/objects/info/alternates",
    "false repository": "mkdir -p f/worktrees/x; mv .git/* f; ln -sfn ../../other/.git/objects f/objects; rmdir .git; "
    'echo "gitdir: f/worktrees/x" > .git; echo ../.. > f/worktrees/x/commondir; echo "$PWD/.git" > f/worktrees/x/gitdir; '
    "cp f/HEAD f/worktrees/x",
}


@pytest.mark.parametrize("how", LEADING_OUT)
@pytest.mark.parametrize("place", ["here", "on a host", "a copy"])
async def test_a_repository_that_leads_elsewhere_is_not_read_unasked(
    tmp_path: Path, sshd: Sshd, how: str, place: str
) -> None:
    """`git log --all` would print the commits of any other one."""
    project = tmp_path / "project"
    _repository(tmp_path / "other", SECRET)
    (tmp_path / "other/.env").write_text(f"{SECRET}\n")
    _repository(project, "own")
    _sh(project, LEADING_OUT[how])
    if place == "on a host":
        async with connected(Target("own", path=str(project)), config=str(sshd.config)) as connection:
            places = SecretPaths(str(project), home=str(tmp_path / "home"))
            view = WorkspaceView(SshWorkspace(connection), places, HostViewedFiles(connection))
            assert (await judge_command("git log -p --all", RuleSet(), view)).effect == "none"
        return
    if place == "a copy" and how in {"branches", "packed branches", "a rebase"}:
        return  # git copies no reference without its object, and the copy has none of the rest
    view = view_of(project, tmp_path / "home") if place == "here" else _view_of_copy(project, tmp_path)
    assert (await judge_command("git log -p --all", RuleSet(), view)).effect == "none"


def _view_of_copy(project: Path, folder: Path) -> WorkspaceView:
    """That of a copy of the project, as review mode makes one."""
    copy = folder / "copy"
    copy.mkdir()
    copy_repository(LocalGit(), str(project), str(copy), inside="")
    places = SecretPaths(str(copy), project=str(project), home=str(folder / "home"), environ={})
    return WorkspaceView(LocalWorkspace(str(copy)), places, LocalViewedFiles())


OWN: Final = {
    "plain": ":",
    "a link to a hook": "ln -s ../../a.txt .git/hooks/pre-commit",
    "a link within": "git pack-refs --all; mv .git/packed-refs .git/p; ln -s p .git/packed-refs",
    "alternates": "cp -r .git/objects o; echo ../../o > .git/objects/info/alternates",
    "below": "mkdir below",
    "packed": "git gc -q",
}


@pytest.mark.parametrize("how", OWN)
@pytest.mark.parametrize("place", ["here", "on a host", "a copy", "a worktree", "a copy of a worktree"])
async def test_a_repository_of_the_project_is_read_unasked(
    tmp_path: Path, sshd: Sshd, how: str, place: str
) -> None:
    project = tmp_path / "project"
    _repository(project, "own")
    _sh(project, OWN[how])
    command = f"{'cd ./below && ' * (how == 'below' and place in {'here', 'on a host'})}git log -p --all"
    if place == "on a host":
        async with connected(Target("own", path=str(project)), config=str(sshd.config)) as connection:
            places = SecretPaths(str(project), home=str(tmp_path / "home"))
            view = WorkspaceView(SshWorkspace(connection), places, HostViewedFiles(connection))
            assert (await judge_command(command, RuleSet(), view)).effect == "reads"
        return
    if "worktree" in place:
        _sh(project, "git worktree add -q ../tree")
        project = tmp_path / "tree"
    view = _view_of_copy(project, tmp_path) if "copy" in place else view_of(project, tmp_path / "home")
    asks = how == "alternates" and "worktree" in place  # then they are not in the folder of the user
    assert (await judge_command(command, RuleSet(), view)).effect == ("none" if asks else "reads")


@pytest.mark.parametrize("place", ["here", "on a host"])
async def test_git_is_not_asked_about_where_there_is_no_repository(
    tmp_path: Path, sshd: Sshd, place: str
) -> None:
    """Otherwise an agent's first `git status` in a folder without one needs an answer. What git reads without one does, too."""
    (tmp_path / "project" / "sub").mkdir(parents=True)
    project = tmp_path / "project"
    async with AsyncExitStack() as stack:
        view = view_of(project, tmp_path)
        if place == "on a host":
            view = await stack.enter_async_context(host_view_of(project, tmp_path, sshd))
        for command in ("git status", "git log --oneline", "cd ./sub && git branch --show-current"):
            assert (await judge_command(command, RuleSet(), view)).effect == "reads", command
        for command in ("git diff sub .", "git diff", "git grep one", "git shortlog", "git init"):
            assert (await judge_command(command, RuleSet(), view)).effect == "none", command


async def test_git_is_asked_about_if_the_environment_names_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a tool does that sets variables for a project."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    (tmp_path / "project").mkdir()
    view = view_of(tmp_path / "project", tmp_path)
    assert (await judge_command("git status", RuleSet(), view)).effect == "none"


@pytest.mark.parametrize("setting", ["format.pretty", "pretty.short"])
async def test_git_is_asked_about_if_the_repository_has_a_format(tmp_path: Path, setting: str) -> None:
    """One that checks signatures starts a program."""
    _repository(tmp_path / "project", "own")
    _sh(tmp_path / "project", f"git config {setting} %G?")
    view = view_of(tmp_path / "project", tmp_path / "home")
    assert (await judge_command("git log", RuleSet(), view)).effect == "none"


BARE: Final = "git init -q --bare {} && git -C {} config core.bare false && git -C {} config core.worktree ."

IN_THE_WAY: Final = {
    "a repository above": "git init -q .. && git -C .. config core.fsmonitor pwn",
    "a file that names one": "git init -q ../other && git -C ../other config core.fsmonitor pwn && echo 'gitdir: ../other/.git' > .git",
    "a folder of git": BARE.format(".", ".", "."),
    "a folder of git above": BARE.format("..", "..", ".."),
    "a broken one": "mkdir .git",
}


@pytest.mark.parametrize("how", IN_THE_WAY)
async def test_git_is_asked_about_wherever_it_may_find_a_repository(tmp_path: Path, how: str) -> None:
    """Its settings may start any program."""
    project = tmp_path / "above" / "project"
    project.mkdir(parents=True)
    _sh(project, IN_THE_WAY[how])
    assert (await judge_command("git status", RuleSet(), view_of(project, tmp_path))).effect == "none"


@pytest.mark.parametrize("subcommand", ["blame", "diff", "log", "show", "status"])
async def test_an_answer_about_git_that_reads_lets_it_write_nowhere(
    view: WorkspaceView, subcommand: str
) -> None:
    """All of them read without a question; only what is not known to read is asked about."""
    offered = (await judge_command(f"git {subcommand} --unknown", RuleSet(), view)).rules
    assert offered
    kept = RuleSet(allow=tuple(map(parse_rule, offered)))
    for option in ("--output=../new", "--ext-diff", "--textconv"):
        assert (await judge_command(f"git {subcommand} {option}", kept, view)).effect == "none"


@pytest.mark.slow
@pytest.mark.timeout(180)  # runs each of them
def test_the_hostile_commands_do_what_they_are_here_for(template: Path, tmp_path: Path) -> None:
    """Otherwise the test above would be about commands that harm nobody."""
    harmless: list[str] = []
    bases = itertools.cycle(DATA["bases"])
    starts = [
        *(carrier.replace("BASE", base) for carrier, base in zip(DATA["carriers"], bases, strict=False))
    ]
    starts += DATA["starts"]
    for kind, commands in {"starts": starts, "writes": DATA["writes"], "reads": DATA["reads"]}.items():
        for number, command in enumerate(commands):
            base = tmp_path / f"{kind}-{number}"
            shutil.copytree(template, base, symlinks=True)
            before = _tree(base / "project")
            done = _run(base, command)
            hostile = {
                "starts": (base / "mark").exists(),
                "writes": _tree(base / "project") != before,
                "reads": SECRET in done or SECRET[::-1] in done,
            }[kind]
            if not hostile:
                harmless.append(f"{kind}: {command}")
            shutil.rmtree(base)
    assert not harmless, "\n".join(harmless)


def _run(base: Path, command: str) -> str:
    environ = {
        "PATH": f"{base}/bin:{os.environ['PATH']}",
        "HOME": str(base),
        "MARK": str(base / "mark"),
        "HOOK": "pwn",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=base / "project",
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=20,
        check=False,
    )
    return done.stdout.decode(errors="replace")


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Modes and contents. Git's index and objects may change by reading."""
    return {
        str(path): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in folder.rglob("*")
        if path.name != "index" and "objects" not in path.parts
    }
