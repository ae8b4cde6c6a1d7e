"""The coding agent's four tools: ``read``, ``write``, ``edit``, ``bash``.

A tool knows the workspace port and never a host.
"""

from __future__ import annotations

from newel.agent.ports import Tool
from newel.tools.bash import BashTool
from newel.tools.edit import EditTool
from newel.tools.read import ROOM, ReadTool
from newel.tools.tracker import FileTracker
from newel.tools.write import WriteTool
from newel.workspace.port import Workspace


def coding_tools(
    workspace: Workspace,
    *,
    tracker: FileTracker | None = None,
    timeout: float = 30,
    max_timeout: float = 600,
    room: int = ROOM,
) -> list[Tool]:
    """The four tools on a workspace, in the order in which a model is offered them.

    They share ``tracker``: hand in one to keep it for longer than the tools. ``timeout`` and
    ``max_timeout`` are seconds that a command may take by itself and at the model's wish, ``room`` the bytes of
    a file that one call reads.
    """
    seen = tracker or FileTracker()
    return [
        ReadTool(workspace, seen, room=room),
        BashTool(workspace, timeout=timeout, max_timeout=max_timeout),
        EditTool(workspace, seen),
        WriteTool(workspace, seen),
    ]
