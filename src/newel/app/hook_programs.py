"""The programs that hooks name: commands in a sandbox must not change them, because hooks run outside of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from newel.hooks import project_files, user_files

if TYPE_CHECKING:
    from newel.config.settings import Settings


def programs_of_hooks(settings: Settings, project: Path, folder: str) -> Sequence[str]:
    """The programs of the project, such as scripts, that hooks name if they run in ``folder``: the user's hooks, and those of files that
    the user has trusted, even if they have changed since. A process could otherwise swap a script between the comparison of its content
    and its start. Never raises.
    """
    own = settings.hooks
    of_user = user_files(home=settings.home, claude_settings=own.claude_settings)
    of_project = project_files(project, of_user=of_user)
    if own.disabled or not (own.entries() or any(os.path.lexists(file) for file in (*of_user, *of_project))):
        return ()
    from newel.app.hooks import hooks_of_settings
    from newel.hooks.hook_files import read_hook_files
    from newel.hooks.hook_trust import HookTrust, programs_of

    trust = HookTrust(settings.home)
    trusted = [file for file in of_project if trust.has_trusted(file)]
    sets = (
        hooks_of_settings(settings),
        read_hook_files(of_user, "user"),
        read_hook_files(trusted, "project"),
    )
    hooks = [hook for each in sets for hook in each.hooks]
    here = [program for hook in hooks for program in programs_of(hook, project, "")]
    there = [program for hook in hooks for program in programs_of(hook, project, folder)]
    # The copy of a review does not exist yet when its policy is asked for.
    expected = [os.path.join(folder, os.path.relpath(program, project)) for program in here]  # noqa: PTH118 — texts
    return list(dict.fromkeys([*here, *there, *expected]))
