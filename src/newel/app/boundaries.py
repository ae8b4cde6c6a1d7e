"""Which files the tools of an agent may open: the user's settings and the ground, as the judge needs them."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.app.workspace_factory import WorkspaceFactory
    from newel.config.settings import Settings
    from newel.permissions.secret_paths import SecretPaths
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.port import Workspace


def places_of(settings: Settings, ground: ExecutionHost, workspaces: WorkspaceFactory) -> SecretPaths:
    """The judge of an agent that works in ``workspaces`` on ``ground``."""
    return judge_of(settings, ground, workspaces.works_in.root, project=workspaces.workspace.root)


def judge_of(settings: Settings, ground: ExecutionHost, root: str, *, project: str = "") -> SecretPaths:
    from newel.permissions.secret_paths import SecretPaths
    from newel.workspace.process.output import ON_HOST, is_spill, spill_folder

    if ground.line is not None:
        spills = partial(is_spill, f"{ground.home}/{ON_HOST}")
        return SecretPaths(root, project=project, home=ground.home, is_spill=spills, rules=settings.allow)
    return SecretPaths(
        root,
        project=project,
        home=ground.home,
        newel=str(settings.home),
        is_spill=partial(is_spill, os.path.realpath(spill_folder())),
        environ=os.environ,
        rules=settings.allow,
    )


def guarded(workspace: Workspace, places: SecretPaths) -> Workspace:
    from newel.permissions.guarded import GuardedWorkspace

    return GuardedWorkspace(workspace, places)
