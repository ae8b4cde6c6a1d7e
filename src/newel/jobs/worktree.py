"""A git worktree of an agent's own, so that agents which change the same project do not meet.

It lies in Newel's home and not beside the project: nothing appears where a person keeps other things, and no build or
search of theirs walks into it. Newel never removes one: what an agent did there is the user's to take or to throw away.
"""

from __future__ import annotations

import re
from pathlib import Path

import anyio

from newel.agent.errors import NewelError, WorkspaceError
from newel.agent.messages import Wire
from newel.session.locate import make_private
from newel.workspace.git import INERT, git_environment
from newel.workspace.port import Completed
from newel.workspace.process import Limits, run_process

TIMEOUT = 120.0
"""Seconds that git may take: a large repository is written to the disk."""

MAX_OF_A_NAME = 1000


class WorktreeError(NewelError):
    """There can be no worktree here; the message says what to do instead."""


class Worktree(Wire, frozen=True, kw_only=True):
    """``folder`` is where the agent works: the place in the worktree that the project's folder has in its repository.
    ``notice`` says in words what was made, and what it lacks.
    """

    path: str
    folder: str
    branch: str
    notice: str


async def make_worktree(project: Path, home: Path, agent: str) -> Worktree:
    """A worktree of the repository that ``project`` is in, at its current commit: ``<home>/worktrees/<repository>-<agent>``
    on the new branch ``newel/<agent>``, with a number behind where such a one exists. Raises ``WorktreeError``.
    """
    top = Path(await _ask(project, "rev-parse", "--show-toplevel", wrong=_no_repository(project)))
    commit = await _ask(
        top,
        "rev-parse",
        "--verify",
        "HEAD^{commit}",
        wrong=f"{top} has no commit yet, and a worktree begins with one. Commit something, or start without a worktree.",
    )
    changed = len((await _ask(top, "status", "--porcelain")).splitlines())
    path, branch = await _add(top, home / "worktrees", agent, commit)
    notice = f"Works in a git worktree of its own, {path}, on the branch {branch} from commit {commit[:10]}."
    if changed:
        notice += f" {changed} changes in {top} are not committed and so not in it."
    inside = await _ask(project, "rev-parse", "--show-prefix")
    folder = path / inside
    folder.mkdir(parents=True, exist_ok=True)  # the project's folder may hold no committed file
    return Worktree(path=str(path), folder=str(folder), branch=branch, notice=notice)


async def _add(top: Path, root: Path, agent: str, commit: str) -> tuple[Path, str]:
    """The worktree and its branch, under the first name that is free."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", agent).strip("-")[:40] or "agent"
    make_private(root)
    for number in range(1, MAX_OF_A_NAME):
        numbered = name if number == 1 else f"{name}-{number}"
        path, branch = root / f"{top.name}-{numbered}", f"newel/{numbered}"
        if await _is_taken(top, path, branch):
            continue
        done = await _git(top, "worktree", "add", "--quiet", "-b", branch, str(path), commit)
        if done.exit_code == 0:
            return path, branch
        if not await _is_taken(top, path, branch):  # else another agent has just taken it
            raise WorktreeError(f"The worktree {path} could not be made (git: {_last_line(done)})")
    raise WorktreeError(
        f"{root} holds too many worktrees named {name}. Remove some with `git worktree remove`."
    )


async def _is_taken(top: Path, path: Path, branch: str) -> bool:
    done = await _git(top, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
    return done.exit_code == 0 or await anyio.Path(path).exists()


def _no_repository(project: Path) -> str:
    return (
        f"{project} is in no git repository, so there can be no worktree. "
        "Start without one, or make it a repository with `git init` and a first commit."
    )


async def _ask(folder: Path, *words: str, wrong: str = "git failed") -> str:
    """What git prints. Raises ``WorktreeError`` that says ``wrong``, and the last line of git's own words."""
    done = await _git(folder, *words)
    if done.exit_code != 0:
        raise WorktreeError(f"{wrong} (git: {_last_line(done)})")
    return done.stdout.rstrip("\n")


def _last_line(done: Completed) -> str:
    return done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.exit_code}"


async def _git(folder: Path, *words: str) -> Completed:
    """Raises ``WorktreeError`` where there is no git."""
    try:
        return await run_process(
            ["git", *INERT, *words],
            cwd=str(folder),
            env=git_environment(),
            limits=Limits(),
            timeout=TIMEOUT,
        )
    except WorkspaceError as error:
        raise WorktreeError(f"A worktree needs git. {error}") from error
