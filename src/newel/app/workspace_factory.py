"""Where an agent works: the user's folder, with or without a record of what is done there, or a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from newel.review.tracking.recording_workspace import RecordingWorkspace, Unrecorded
from newel.workspace.process.runner import OutputLimits

if TYPE_CHECKING:
    from pathlib import Path

    from newel.agent.ports import Model
    from newel.config.settings import Settings
    from newel.review.tracking.isolated_workspace import IsolatedWorkspace
    from newel.review.tracking.recording_workspace import RecorderRegistry
    from newel.session.coding_agent import CodingAgent
    from newel.workspace.port import Workspace
    from newel.workspace.tracked import TrackedWorkspace

    OpenFolder = Callable[[OutputLimits], TrackedWorkspace]
    """Opens the folder that an agent works in; its commands' output has these limits."""


class WorkspaceFactory(NamedTuple):
    """``workspace`` is the user's own. ``recording`` records what is done there, and in ``isolated``, if it is to be reviewed,
    the tools work instead. ``attending`` are to learn of the agent's runs.
    """

    workspace: Workspace
    recording: RecordingWorkspace | None = None
    isolated: IsolatedWorkspace | None = None
    attending: Sequence[RecordingWorkspace | IsolatedWorkspace] = ()

    @property
    def works_in(self) -> Workspace:
        return self.isolated or self.workspace

    def attend(self, agent: CodingAgent) -> None:
        """Record the changes of an agent's runs, and report the decisions on them to its model."""
        for each in self.attending:
            each.attend(agent)
        if self.recording is not None:
            agent.news = self.recording.undo_notice


async def open_workspaces(
    settings: Settings, model: Model, recorders: RecorderRegistry | None, open_folder: OpenFolder
) -> WorkspaceFactory:
    """The folder that ``open_folder`` opens. ``recorders`` is None where nothing is recorded. Raises ``WorkspaceError`` where there can be
    no copy to work in.
    """
    sweep_copies(settings.home)
    own = open_folder(_output_limits(model))
    is_reviewed = settings.approve == "review"
    if recorders is None:
        return WorkspaceFactory(own)
    if not (settings.record or is_reviewed):
        return WorkspaceFactory(own, attending=[RecordingWorkspace(own, Unrecorded(recorders))])
    recording = RecordingWorkspace(own, recorders)
    if not is_reviewed:
        return WorkspaceFactory(recording, recording, attending=[recording])
    from newel.app.review_limits import copy_limits, hunk_size
    from newel.review.tracking.isolated_workspace import IsolatedWorkspace

    isolated = await IsolatedWorkspace.open(
        own, recording, settings.home, copied=copy_limits(settings), hunks=hunk_size(settings)
    )
    return WorkspaceFactory(recording, recording, isolated, attending=[recording, isolated])


def sweep_copies(home: Path) -> None:
    """Remove what killed processes have left of copies of projects, with ignored files and keys in them."""
    copies = home / "copies"
    if copies.is_dir():
        from newel.workspace.mirror.local_disk import sweep

        sweep(copies)


def _output_limits(model: Model) -> OutputLimits:
    """A quarter of what the model can read, at about four characters a token, is enough for one command."""
    limits = OutputLimits()
    if model.context_window:
        limits = OutputLimits(output=min(limits.output, model.context_window))
    return limits
