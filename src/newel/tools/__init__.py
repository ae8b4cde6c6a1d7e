"""The coding agent's four tools: ``read``, ``write``, ``edit``, ``bash``.

They depend on the workspace port, never on a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from newel.agent.ports import Tool
from newel.tools.bash import BashTool
from newel.tools.edit import EditTool
from newel.tools.file_tool import FileTracker
from newel.tools.read import ROOM, ReadTool
from newel.tools.write import WriteTool

if TYPE_CHECKING:
    from newel.workspace.background import BackgroundCommands
    from newel.workspace.port import Workspace


def coding_tools(
    workspace: Workspace,
    *,
    tracker: FileTracker | None = None,
    timeout: float = 30,
    max_timeout: float = 600,
    may_leave: bool = False,
    room: int = ROOM,
    background: BackgroundCommands | None = None,
    offers_background: bool = False,
) -> list[Tool]:
    """The four tools on a workspace, in the order in which they are offered to a model.

    They share ``tracker``: pass one to keep it longer than the tools. ``timeout`` and ``max_timeout`` limit a command, in
    seconds, by default and if the model asks for more, and with ``may_leave`` it may ask to run one outside of the sandbox; ``room`` is
    the most bytes of output of one read. Commands can go to the ``background``: by ``BashTool``'s rules.
    """
    seen = tracker or FileTracker()
    return [
        ReadTool(workspace, seen, room=room),
        BashTool(
            workspace,
            seen,
            timeout=timeout,
            max_timeout=max_timeout,
            may_leave=may_leave,
            background=background,
            offers_background=offers_background,
        ),
        EditTool(workspace, seen),
        WriteTool(workspace, seen),
    ]
