"""Git worktrees for agents, so that several can change the same project without conflicts.

A worktree lies in Newel's folder, not beside the project, so that the user's builds and searches do not walk into it. Newel
removes none that has changes: the agent's work there is the user's to merge or discard. Everything is done by git on the project's host.
"""

from __future__ import annotations

import posixpath
import re
import shlex

from newel.agent.errors import NewelError
from newel.agent.formatting import pluralize
from newel.agent.messages import Wire
from newel.text.sanitize import escape_line
from newel.workspace.git import SAFE_GIT
from newel.workspace.port import CommandResult
from newel.workspace.tracked import TrackedWorkspace

TIMEOUT = 120.0
"""Seconds for git, which may have to write a large repository to the disk."""

MAX_NUMBER = 1000

_PROGRAMS = (
    r"^(filter\..*\.(clean|smudge|process)|lfs\.(extension|customtransfer)\..*|lfs\.standalonetransferagent)$"
)
"""Names of settings: filters, and what Git LFS, as a filter of the user's own, would start for a repository."""

_TAKEN = "already exists"
"""What git says, in English, about a branch or a folder of that name. After other failures, too, a new branch may be there."""

NOT_SET = 1
"""The exit code of `git config` if there is no such setting."""

NOT_FOUND = 127
"""The shell's exit code for a missing program."""


class WorktreeError(NewelError):
    """No worktree can be created; the message says what to do instead."""


class Worktree(Wire, frozen=True, kw_only=True):
    """``folder`` is the workspace's name: the project's folder within the worktree. ``notice`` tells the user what was created,
    and what it lacks. ``commit`` is the one that the branch begins at.
    """

    path: str
    folder: str
    branch: str
    notice: str
    commit: str


async def make_worktree(project: TrackedWorkspace, root: str, agent: str) -> Worktree:
    """Create a worktree of the project's repository at its current commit: ``<root>/<repository>-<agent>`` on the new
    branch ``newel/<agent>``, with a number appended if these exist. ``root`` is an absolute path on the project's host.
    Raises ``WorktreeError``, and ``WorkspaceError`` where the host cannot be reached.
    """
    top = await _ask(project, "rev-parse", "--show-toplevel", message=_no_repository(project.root))
    commit = await _ask(
        project,
        "rev-parse",
        "--verify",
        "HEAD^{commit}",
        message=f"{top} has no commits yet, so no worktree can be created. Commit something, or start without a worktree.",
    )
    await _refuse_programs(project)
    # Without repositories inside: git would start programs that their settings name.
    status = await _ask(project.at(top), "status", "--porcelain", "--ignore-submodules=all")
    changed = len(status.splitlines())
    await _make(project, root)
    path, branch = await _add(project, posixpath.join(root, posixpath.basename(top)), agent, commit)
    notice = f"Works in its own git worktree, {path}, on branch {branch} from commit {commit[:10]}."
    if changed:
        notice += f" It lacks {pluralize(changed, 'uncommitted change')} in {top}."
    inside = await _ask(project, "rev-parse", "--show-prefix")
    folder = posixpath.join(path, inside).rstrip("/")
    await _make(project, folder)  # the project's folder may contain no committed file
    subfolder = project.at(await project.resolve(folder))
    return Worktree(path=path, folder=subfolder.name, branch=branch, notice=notice, commit=commit)


def worktree_name(agent: str) -> str:
    """The name as it is in the folder and the branch, without a number."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", agent).strip("-")[:40] or "agent"


async def remove_if_unchanged(project: TrackedWorkspace, worktree: Worktree) -> bool:
    """Remove a worktree and its branch if it has no commit and no file that the commit has not, ignored ones included. Git refuses, too, if
    there is something, and wherever there are submodules. Returns whether it is gone.
    """
    place = project.at(worktree.path)
    head = await _git(place, "rev-parse", "HEAD")
    # The agent may have left settings there, above all in a submodule.
    if head.exit_code or head.stdout.strip() != worktree.commit or await _find_program(place):
        return False
    status = await _git(place, "status", "--porcelain", "--ignored", "--ignore-submodules=all")
    if status.exit_code or status.stdout.strip():
        return False
    if (await _git(project, "worktree", "remove", worktree.path)).exit_code:
        return False
    # Its commit is the one that the user had checked out, so nothing is lost with the name.
    return (await _git(project, "branch", "-D", "--quiet", worktree.branch)).exit_code == 0


async def _refuse_programs(project: TrackedWorkspace) -> None:
    """Raises ``WorktreeError`` if git would run a program that the repository's own settings name."""
    if found := await _find_program(project):
        raise WorktreeError(
            f"No worktree is created, as the settings of the repository itself {found}, which Newel does not run. "
            "Start without one, or create it with `git worktree add` and start in it."
        )


async def _find_program(project: TrackedWorkspace) -> str:
    """What says that the repository's own settings name a program that git would run for files that it writes or compares; empty if they
    name none. The user's own, such as Git LFS, may run.
    """
    done = await _git(project, "config", "--show-scope", "--name-only", "--get-regexp", _PROGRAMS)
    settings = (line.partition("\t") for line in done.stdout.splitlines())
    own = [name for scope, _, name in settings if scope not in {"system", "global", "command"}]
    if own:
        return f"name a program for that ({escape_line(own[0], 80)})"
    return "" if done.exit_code in (0, NOT_SET) else "cannot be read"


async def _make(project: TrackedWorkspace, folder: str) -> None:
    """Create a folder and its missing parents, for this user only."""
    done = await project.run(f"umask 077 && mkdir -p -- {shlex.quote(folder)}", timeout=TIMEOUT)
    if done.exit_code != 0:
        raise WorktreeError(f"Cannot create a worktree in {folder} ({_last_line(done)}).")


async def _add(project: TrackedWorkspace, place: str, agent: str, commit: str) -> tuple[str, str]:
    """Add the worktree and its branch under the first free name."""
    name = worktree_name(agent)
    for number in range(1, MAX_NUMBER):
        numbered = name if number == 1 else f"{name}-{number}"
        path, branch = f"{place}-{numbered}", f"newel/{numbered}"
        if await _is_taken(project, path, branch):
            continue
        done = await _git(project, "worktree", "add", "--quiet", "-b", branch, path, commit)
        if done.exit_code == 0:
            return path, branch
        if _TAKEN not in done.stderr:  # else another agent has just taken it
            raise WorktreeError(f"Cannot create the worktree {path} (git: {_last_line(done)})")
    raise WorktreeError(f"Too many worktrees named {place}-{name}. Remove some with `git worktree remove`.")


async def _is_taken(project: TrackedWorkspace, path: str, branch: str) -> bool:
    done = await _git(project, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
    return done.exit_code == 0 or await project.stat(path) is not None


def _no_repository(project: str) -> str:
    return (
        f"{project} is not in a git repository, so no worktree can be created. "
        "Start without one, or run `git init` and make a first commit."
    )


async def _ask(project: TrackedWorkspace, *args: str, message: str = "git failed") -> str:
    """Git's output. Raises ``WorktreeError`` with the message ``message`` and the last line of git's error."""
    done = await _git(project, *args)
    if done.exit_code != 0:
        raise WorktreeError(f"{message} (git: {_last_line(done)})")
    return done.stdout.rstrip("\n")


def _last_line(done: CommandResult) -> str:
    return done.stderr.strip().rpartition("\n")[2] or f"exit code {done.exit_code}"


async def _git(project: TrackedWorkspace, *args: str) -> CommandResult:
    """Raises ``WorktreeError`` if git is missing."""
    done = await project.run(f"export LC_ALL=C; {SAFE_GIT} {shlex.join(args)}", timeout=TIMEOUT)
    if done.exit_code == NOT_FOUND:
        raise WorktreeError(f"A worktree requires git. {_last_line(done)}")
    return done
