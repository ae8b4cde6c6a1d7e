"""A git worktree of an agent's own, so that agents which change the same project do not meet.

It lies in Newel's folder and not beside the project: nothing appears where a person keeps other things, and no build or
search of theirs walks into it. Newel never removes one: what an agent did there is the user's to take or to throw away. All of it
is done on the host of the project, by its git.
"""

from __future__ import annotations

import posixpath
import re
import shlex

from newel.agent.errors import NewelError
from newel.agent.messages import Wire
from newel.workspace.git import IN_SH
from newel.workspace.port import Completed
from newel.workspace.tracked import TrackedWorkspace

TIMEOUT = 120.0
"""Seconds that git may take: a large repository is written to the disk."""

MAX_OF_A_NAME = 1000

NOT_FOUND = 127
"""What a shell answers where there is no such program."""


class WorktreeError(NewelError):
    """There can be no worktree here; the message says what to do instead."""


class Worktree(Wire, frozen=True, kw_only=True):
    """``folder`` names where the agent works: the place in the worktree that the project's folder has in its repository.
    ``notice`` says in words what was made, and what it lacks.
    """

    path: str
    folder: str
    branch: str
    notice: str


async def make_worktree(project: TrackedWorkspace, root: str, agent: str) -> Worktree:
    """A worktree of the repository that a project is in, at its current commit: ``<root>/<repository>-<agent>`` on the new
    branch ``newel/<agent>``, with a number behind where such a one exists. ``root`` is an absolute path on the project's host.
    Raises ``WorktreeError``, and ``WorkspaceError`` where the host cannot be reached.
    """
    top = await _ask(project, "rev-parse", "--show-toplevel", wrong=_no_repository(project.root))
    commit = await _ask(
        project,
        "rev-parse",
        "--verify",
        "HEAD^{commit}",
        wrong=f"{top} has no commit yet, and a worktree begins with one. Commit something, or start without a worktree.",
    )
    changed = len((await _ask(project.at(top), "status", "--porcelain")).splitlines())
    await _make(project, root)
    path, branch = await _add(project, posixpath.join(root, posixpath.basename(top)), agent, commit)
    notice = f"Works in a git worktree of its own, {path}, on the branch {branch} from commit {commit[:10]}."
    if changed:
        notice += f" {changed} changes in {top} are not committed and so not in it."
    inside = await _ask(project, "rev-parse", "--show-prefix")
    folder = posixpath.join(path, inside).rstrip("/")
    await _make(project, folder)  # the project's folder may hold no committed file
    there = project.at(await project.resolve(folder))
    return Worktree(path=path, folder=there.name, branch=branch, notice=notice)


async def _make(project: TrackedWorkspace, folder: str) -> None:
    """Make a folder, and those above it that are missing, for this user only."""
    done = await project.run(f"umask 077 && mkdir -p -- {shlex.quote(folder)}", timeout=TIMEOUT)
    if done.exit_code != 0:
        raise WorktreeError(f"There can be no worktree in {folder} ({_last_line(done)}).")


async def _add(project: TrackedWorkspace, place: str, agent: str, commit: str) -> tuple[str, str]:
    """The worktree and its branch, under the first name that is free."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", agent).strip("-")[:40] or "agent"
    for number in range(1, MAX_OF_A_NAME):
        numbered = name if number == 1 else f"{name}-{number}"
        path, branch = f"{place}-{numbered}", f"newel/{numbered}"
        if await _is_taken(project, path, branch):
            continue
        done = await _git(project, "worktree", "add", "--quiet", "-b", branch, path, commit)
        if done.exit_code == 0:
            return path, branch
        if not await _is_taken(project, path, branch):  # else another agent has just taken it
            raise WorktreeError(f"The worktree {path} could not be made (git: {_last_line(done)})")
    raise WorktreeError(
        f"There are too many worktrees {place}-{name}. Remove some with `git worktree remove`."
    )


async def _is_taken(project: TrackedWorkspace, path: str, branch: str) -> bool:
    done = await _git(project, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
    return done.exit_code == 0 or await project.stat(path) is not None


def _no_repository(project: str) -> str:
    return (
        f"{project} is in no git repository, so there can be no worktree. "
        "Start without one, or make it a repository with `git init` and a first commit."
    )


async def _ask(project: TrackedWorkspace, *words: str, wrong: str = "git failed") -> str:
    """What git prints. Raises ``WorktreeError`` that says ``wrong``, and the last line of git's own words."""
    done = await _git(project, *words)
    if done.exit_code != 0:
        raise WorktreeError(f"{wrong} (git: {_last_line(done)})")
    return done.stdout.rstrip("\n")


def _last_line(done: Completed) -> str:
    return done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.exit_code}"


async def _git(project: TrackedWorkspace, *words: str) -> Completed:
    """Raises ``WorktreeError`` where there is no git."""
    done = await project.run(f"{IN_SH} {shlex.join(words)}", timeout=TIMEOUT)
    if done.exit_code == NOT_FOUND:
        raise WorktreeError(f"A worktree needs git. {_last_line(done)}")
    return done
