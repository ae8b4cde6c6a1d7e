"""A git worktree of an agent's own, so that agents which change the same project do not meet.

It lies in Newel's home and not beside the project: nothing appears where a person keeps other things, and no build or
search of theirs walks into it. Newel never removes one: what an agent did there is the user's to take or to throw away.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from newel.agent.errors import NewelError, WorkspaceError
from newel.agent.messages import Wire
from newel.workspace.environment import child_env
from newel.workspace.port import Completed
from newel.workspace.process import Limits, run_process

TIMEOUT = 120.0
"""Seconds that git may take: a large repository is written to the disk."""

MAX_OF_A_NAME = 1000

INERT = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""A repository's own programs are not run by being looked at."""


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
    except WorkspaceError as error:
        raise WorktreeError(f"A worktree needs git. {error}") from error


def _environment() -> dict[str, str]:
    """Without what makes git look at another repository than the one that the folder is in."""
    return {name: value for name, value in child_env(os.environ).items() if not name.startswith("GIT_")} | {
        "GIT_TERMINAL_PROMPT": "0"
    }
