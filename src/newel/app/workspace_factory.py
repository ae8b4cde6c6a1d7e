"""The workspaces of an agent: the user's folder, recorded or not, or a copy of it; and the files that its tools may open."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from newel.review.store.retention import RetentionPolicy
from newel.review.tracking.recording_workspace import (
    NullRecorderProvider,
    RecorderRegistry,
    RecordingWorkspace,
)
from newel.storage.temporary_folder import sweep_temporary_folders
from newel.workspace.process.output import OutputLimits

if TYPE_CHECKING:
    from newel.agent.ports import Model
    from newel.config.settings import RetentionSettings, Settings
    from newel.permissions.rules import RuleSet
    from newel.permissions.secret_paths import SecretPaths
    from newel.review.tracking.isolated_workspace import IsolatedWorkspace
    from newel.session.coding_agent import CodingAgent
    from newel.tools.search.files import ListFiles
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.port import Workspace
    from newel.workspace.sandbox.policy import SandboxPolicy
    from newel.workspace.tracked import TrackedWorkspace

    OpenFolder = Callable[[OutputLimits], TrackedWorkspace]
    """Opens the agent's folder, with these limits for the output of commands."""


class WorkspaceFactory(msgspec.Struct, frozen=True):
    """``workspace`` is the user's own. ``recording`` records its changes; in review mode the tools work in ``isolated``, a copy.
    ``attending`` follow the agent's runs. ``list_files`` lists the project's files without ignored ones; None in review mode, whose
    copy has files that the project has not.
    """

    workspace: Workspace
    recording: RecordingWorkspace | None = None
    isolated: IsolatedWorkspace | None = None
    attending: Sequence[RecordingWorkspace | IsolatedWorkspace] = ()
    list_files: ListFiles | None = None

    @property
    def works_in(self) -> Workspace:
        return self.isolated or self.workspace

    @asynccontextmanager
    async def recorded(self) -> AsyncGenerator[Sequence[str]]:
        """Record what the body changes as the agent's doing. Yields the changed files, once it has ended."""
        changed: list[str] = []
        recorded = self.isolated or self.recording
        if recorded is None:
            yield changed
            return
        async with recorded.recording() as operation:
            yield changed
        if operation is not None:
            changed += [change.path for change in operation.changes]

    def attend(self, agent: CodingAgent) -> None:
        """Record the changes of an agent's runs, and report the decisions on them to its model."""
        for workspace in self.attending:
            workspace.attend(agent)
        if self.recording is not None:
            agent.before_prompt.append(self.recording.undo_notice)


async def open_workspaces(
    settings: Settings, model: Model, recorders: RecorderRegistry | None, open_folder: OpenFolder
) -> WorkspaceFactory:
    """The workspaces of the folder that ``open_folder`` opens. Without ``recorders`` nothing is recorded. Raises
    ``WorkspaceError`` if the folder cannot be copied for review mode.
    """
    sweep_leftovers(settings.home)
    sweep_sessions(settings)
    spill_folder = open_folder(_output_limits(model))
    is_reviewed = settings.approve == "review"
    if recorders is None:
        return WorkspaceFactory(spill_folder, list_files=spill_folder.files_by_git)
    if not (settings.record or is_reviewed):
        return WorkspaceFactory(
            spill_folder,
            attending=[RecordingWorkspace(spill_folder, NullRecorderProvider(recorders))],
            list_files=spill_folder.files_by_git,
        )
    recording = RecordingWorkspace(spill_folder, recorders)
    if not is_reviewed:
        return WorkspaceFactory(
            recording, recording, attending=[recording], list_files=spill_folder.files_by_git
        )
    from newel.app.review_limits import copy_limits, hunk_size
    from newel.review.tracking.isolated_workspace import IsolatedWorkspace

    isolated = await IsolatedWorkspace.open(
        spill_folder,
        recording,
        settings.home,
        copied=copy_limits(settings),
        hunks=hunk_size(settings),
        left_out=_secrets_below(settings, spill_folder.name),
    )
    return WorkspaceFactory(recording, recording, isolated, attending=[recording, isolated])


def sweep_leftovers(home: Path) -> None:
    """Remove what killed processes left: temporary folders, and copies of projects, which may contain keys."""
    sweep_temporary_folders()
    copies = home / "copies"
    if copies.is_dir():
        from newel.workspace.mirror.local_disk import sweep

        sweep(copies)


def sweep_sessions(settings: Settings) -> None:
    """Delete the sessions that are older than the user wants, and runs with their logs."""
    if days := settings.retention.session_days:
        from newel.app.stored_conversation import delete_old_runs
        from newel.session.retention import delete_old_sessions

        delete_old_sessions(settings.home / "sessions", days)
        delete_old_runs(settings.home, days)


def open_recorders(settings: Settings, *, ephemeral: bool) -> RecorderRegistry:
    """The recorders of a process."""
    home = settings.home
    return RecorderRegistry(
        None if ephemeral else home,
        noted=home,
        keep=_keep_policy(settings.retention),
        find_left_out=partial(_secrets_below, settings),
        rules=settings.rules,
    )


def _secrets_below(settings: Settings, project: str) -> list[str]:
    """The secret places of this machine in a project, which is then a home folder, or above one."""
    home = os.path.realpath(Path.home())
    root = project.rstrip("/")
    if not (home == root or home.startswith(f"{root}/")):
        return []
    from newel.permissions.secret_paths import existing_moved_places, existing_secret_places

    places = existing_secret_places(home, str(settings.home))
    places += existing_moved_places(os.environ, [home, project], [])
    return [path for path in places if path.startswith(f"{root}/")]


def _keep_policy(wanted: RetentionSettings) -> RetentionPolicy:
    policy = RetentionPolicy()
    return RetentionPolicy(
        runs=policy.runs if wanted.runs is None else wanted.runs,
        days=policy.days if wanted.days is None else wanted.days,
        size=policy.size if wanted.gigabytes is None else round(wanted.gigabytes * (1 << 30)),
    )


def _output_limits(model: Model) -> OutputLimits:
    """Limit the output to a quarter of the context, at about four characters a token."""
    limits = OutputLimits()
    if model.context_window:
        limits = OutputLimits(output=min(limits.output, model.context_window))
    return limits


def secret_paths_of(
    settings: Settings, host: ExecutionHost, workspaces: WorkspaceFactory, rules: Callable[[], RuleSet]
) -> SecretPaths:
    """The secret paths for an agent that works in ``workspaces`` on ``host``, by the ``rules`` as they are now."""
    root, project = workspaces.works_in.root, workspaces.workspace.root
    return project_secret_paths(settings, host, root, project=project, rules=rules)


def project_secret_paths(
    settings: Settings,
    host: ExecutionHost,
    root: str,
    *,
    project: str = "",
    rules: Callable[[], RuleSet] | None = None,
) -> SecretPaths:
    """By the rules of the settings, if no others are given."""
    from newel.app.skills import exposed_folders
    from newel.permissions.secret_paths import SecretPaths
    from newel.workspace.process.output import ON_HOST, is_spill, spill_folder

    rules = rules or (lambda: settings.rules)
    if host.monitor is not None:
        spills = partial(is_spill, f"{host.home}/{ON_HOST}")
        return SecretPaths(root, project=project, home=host.home, is_spill=spills, rules=rules)
    return SecretPaths(
        root,
        project=project,
        home=host.home,
        newel=str(settings.home),
        is_spill=lambda path: is_spill(os.path.realpath(spill_folder()), path),
        environ=os.environ,
        rules=rules,
        skills=exposed_folders(settings.home),
    )


def guard_secrets(
    workspace: Workspace, places: SecretPaths, *, policy: SandboxPolicy | None = None
) -> Workspace:
    """Close secret places to tools, and what the ``policy`` of the sandbox does not let commands change."""
    from newel.permissions.secret_paths import GuardedWorkspace

    return GuardedWorkspace(workspace, places, policy=policy)
