"""Search tools: ``grep``, ``find`` and ``ls``, on any host. They run no command of the model's."""

from __future__ import annotations

from newel.agent.ports import Tool
from newel.tools.search.files import IsPrivate, ListFiles, ProjectFiles
from newel.tools.search.find import FindTool
from newel.tools.search.grep import SECONDS, GrepTool
from newel.tools.search.ls import LsTool
from newel.workspace.port import Workspace

ROOM = 30_000
"""Bytes of one call's output."""


def search_tools(
    workspace: Workspace,
    *,
    list_files: ListFiles | None = None,
    is_private: IsPrivate = lambda _: False,
    room: int = ROOM,
    seconds: float = SECONDS,
) -> list[Tool]:
    """The three tools on a workspace. ``list_files`` lists the project's files without ignored ones, ``is_private`` judges whether a
    file often holds secrets; ``room`` is the most bytes of output of one call, and ``seconds`` the most time of one search for text.
    """
    files = ProjectFiles(workspace, list_files, is_private)
    return [GrepTool(files, room=room, seconds=seconds), FindTool(files, room=room), LsTool(files, room=room)]
