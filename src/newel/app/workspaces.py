"""Where an agent works: the user's folder, with or without a record of what is done there, or a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from newel.review.recording import RecordingWorkspace
from newel.workspace.process import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from newel.agent.ports import Model
    from newel.config import Settings
    from newel.review.isolation import IsolatedWorkspace
    from newel.review.recording import Recorders
    from newel.workspace.port import Workspace
    from newel.workspace.watching import WatchedWorkspace

    OpenFolder = Callable[[Limits], WatchedWorkspace]
    """Opens the folder that an agent works in; its commands' output has these limits."""


class Workspaces(NamedTuple):
    """``workspace`` is the user's own. ``recording`` records what is done there, and in ``isolated``, if it is to be reviewed,
    the tools work instead.
    """

    workspace: Workspace
    recording: RecordingWorkspace | None
    isolated: IsolatedWorkspace | None

    @property
    def works_in(self) -> Workspace:
        return self.isolated or self.workspace


async def open_workspaces(
    settings: Settings, model: Model, recorders: Recorders | None, open_folder: OpenFolder
) -> Workspaces:
    """The folder that ``open_folder`` opens. ``recorders`` is None where nothing is recorded. Raises ``WorkspaceError`` where there can be
    no copy to work in.
    """
    sweep_copies(settings.home)
    own = open_folder(_output_limits(model))
    is_reviewed = settings.approve == "review"
    if recorders is None or not (settings.record or is_reviewed):
        return Workspaces(own, None, None)
    recording = RecordingWorkspace(own, recorders)
    if not is_reviewed:
        return Workspaces(recording, recording, None)
    from newel.app.review_limits import copy_limits, hunk_size
    from newel.review.isolation import IsolatedWorkspace

    isolated = await IsolatedWorkspace.open(
        own, recording, settings.home, copied=copy_limits(settings), hunks=hunk_size(settings)
    )
    return Workspaces(recording, recording, isolated)


def sweep_copies(home: Path) -> None:
    """Remove what killed processes have left of copies of projects, with ignored files and keys in them."""
    copies = home / "copies"
    if copies.is_dir():
        from newel.workspace.mirror_local import sweep

        sweep(copies)


def _output_limits(model: Model) -> Limits:
    """A quarter of what the model can read, at about four characters a token, is enough for one command."""
    limits = Limits()
    if model.context_window:
        limits = Limits(output=min(limits.output, model.context_window))
    return limits
