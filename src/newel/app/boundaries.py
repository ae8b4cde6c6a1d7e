"""Which files the tools of an agent may open, by the user's settings and the host."""

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


def secret_paths_of(settings: Settings, host: ExecutionHost, workspaces: WorkspaceFactory) -> SecretPaths:
    """The secret paths for an agent that works in ``workspaces`` on ``host``."""
    return project_secret_paths(settings, host, workspaces.works_in.root, project=workspaces.workspace.root)


def project_secret_paths(
    settings: Settings, host: ExecutionHost, root: str, *, project: str = ""
) -> SecretPaths:
    from newel.permissions.secret_paths import SecretPaths
    from newel.workspace.process.output import ON_HOST, is_spill, spill_folder

    if host.monitor is not None:
        spills = partial(is_spill, f"{host.home}/{ON_HOST}")
        return SecretPaths(root, project=project, home=host.home, is_spill=spills, rules=settings.allow)
    return SecretPaths(
        root,
        project=project,
        home=host.home,
        newel=str(settings.home),
        is_spill=partial(is_spill, os.path.realpath(spill_folder())),
        environ=os.environ,
        rules=settings.allow,
    )


def guarded(workspace: Workspace, places: SecretPaths) -> Workspace:
    from newel.permissions.guarded import GuardedWorkspace

    return GuardedWorkspace(workspace, places)
