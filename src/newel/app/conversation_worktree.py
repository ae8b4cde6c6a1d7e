"""``--worktree``: a conversation or task in a git worktree of its own, so that the user's files stay as they are meanwhile."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec

from newel.agent.errors import NewelError, UsageError
from newel.config.settings import Settings
from newel.text.sanitize import sanitize
from newel.workspace.git_worktree import Worktree, make_worktree, remove_if_unchanged, worktree_name

DEFAULT_NAME = "chat"


@contextmanager
def in_worktree(settings: Settings, name: str) -> Generator[Settings]:
    """Inside, agents work in a new worktree. Afterwards it is removed if nothing was changed there; else the user learns how to merge it.
    Raises ``UsageError`` with a host, ``WorktreeError``.

    Use it outside of an event loop.
    """
    if settings.host is not None:
        raise UsageError("--worktree works on this machine only, not with --host.")
    worktree = anyio.run(_make, settings, name or DEFAULT_NAME)
    _say(worktree.notice)
    if name and (taken := _taken(worktree, worktree_name(name))):
        _say(taken)
    try:
        yield msgspec.structs.replace(settings, cwd=Path(worktree.folder))
    finally:
        # Held-back changes of a review belong to the folder.
        is_kept = settings.approve == "review"
        if not is_kept and anyio.run(_remove, settings, worktree):
            _say(f"Nothing was changed in the worktree {worktree.path}, so it was removed.")
        else:
            _say(how_to_merge(worktree))


def _taken(worktree: Worktree, name: str) -> str:
    """Where the work in an earlier worktree of this name is; empty if there is none."""
    made = worktree.branch.rpartition("/")[2]
    place = worktree.path.removesuffix(made) + name
    if made == name or not Path(place).is_dir():
        return ""
    folder = place + worktree.folder.removeprefix(worktree.path)
    return f"The name {name} was taken. This resumes the work there: newel --cwd {shlex.quote(folder)} --continue"


def how_to_merge(worktree: Worktree) -> str:
    place, branch = shlex.quote(worktree.path), shlex.quote(worktree.branch)
    return (
        f"The work is in {worktree.path}, on branch {worktree.branch}. To resume: newel --cwd {shlex.quote(worktree.folder)} --continue\n"
        "To merge it, commit it there; then here:\n"
        f"  git merge {branch}\n"
        f"  git worktree remove {place} && git branch -d {branch}"
    )


async def _make(settings: Settings, name: str) -> Worktree:
    from newel.app.hosts import open_host

    async with open_host(settings.cwd, None) as host:
        return await make_worktree(host.own_workspace(), host.worktrees(settings.home), name)


async def _remove(settings: Settings, worktree: Worktree) -> bool:
    from newel.app.hosts import open_host

    async with open_host(settings.cwd, None) as host:
        try:
            return await remove_if_unchanged(host.own_workspace(), worktree)
        except NewelError:
            return False


def _say(text: str) -> None:
    sys.stderr.write(f"newel: {sanitize(text)}\n")
