"""The line below the input: which model answers, what it may do unasked, and what it has used."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from newel.agent.formatting import pluralize
from newel.agent.messages import AppMessage
from newel.session.coding_agent import CodingAgent
from newel.session.totals import NOTHING_USED, SessionTotals, totals
from newel.storage.files import read_regular
from newel.terminal.repl.background_commands import count_running
from newel.terminal.repl.folder_status import FolderStatus
from newel.text.format import format_cost, format_share, one_line, short_folder
from newel.workspace.port import SCHEME

BRANCH_S: Final = 2.0
"""Seconds for which the name of the branch is reused."""

NEEDED: Final = 30
"""Columns that what waits for a decision leaves to the rest of the line."""

_MAX_HEAD: Final = 4_096
_SEPARATOR: Final = " · "


def fit(parts: Sequence[tuple[int, str]], columns: int) -> str:
    """The parts that fit into ``columns``, in their order. Each has a rank: the highest ones are left out first."""
    kept = [part for part in parts if part[1]]
    while len(kept) > 1 and len(_SEPARATOR.join(text for _, text in kept)) > columns:
        kept.remove(max(kept))
    return _SEPARATOR.join(text for _, text in kept)[:columns]


def end_of(text: str, columns: int) -> str:
    """The end of a path tells more than its beginning."""
    return text if len(text) <= columns else f"…{text[1 - columns :]}"


class StatusLine:
    """The facts of a conversation. They are read when the line is drawn, so they must cost next to nothing: what is counted is counted once
    for each message.
    """

    def __init__(self, agent: CodingAgent, home: Path) -> None:
        self.own = ""
        """What a program of the user's has printed, in place of the line."""
        self.folder = FolderStatus(agent.workspace, home)
        self._agent = agent
        self._counted = 0
        self._last: AppMessage | None = None
        self._totals: SessionTotals = NOTHING_USED
        self._branch = GitBranch(agent.workspace.name)

    def text(self, columns: int) -> str:
        """The line, as far as it fits; at its right, what waits for a decision."""
        if self.own:
            return self.own[:columns]
        self.folder.look(now=False)
        waits = f"{pluralize(self.folder.waiting, 'hunk')} to review" if self.folder.waiting else ""
        if not waits or columns < NEEDED + len(waits):
            return self._facts(columns)
        room = columns - len(waits)
        return f"{self._facts(room - 2):{room}}{waits}"

    def _facts(self, columns: int) -> str:
        agent, totals, window = self._agent, self.totals(), self._agent.window()
        thinking = agent.state.thinking_level
        mode = agent.state.agent_mode
        used = format_share(totals.context, window) if window else ""
        parts = [
            (0, one_line(agent.state.model.id, 32)),
            (4, f"thinking: {thinking}" if thinking != "off" else ""),
            (3, mode if mode != "remote" else ""),
            (1, f"approve: {agent.approve}"),
            (1, count_running(agent)),
            (2, used if totals.context else ""),
            (5, format_cost(totals.cost) if totals.cost else ""),
            (6, self._branch_name()),
            (7, end_of(one_line(short_folder(agent.workspace.name), 1_000), 40)),
        ]
        return fit(parts, columns)

    def _branch_name(self) -> str:
        name = self._branch.name()
        return f"{name}*" if name and self.folder.has_changes else name

    def totals(self) -> SessionTotals:
        """Those of the conversation so far."""
        messages, counted = self._agent.state.messages, self._counted
        if counted and (len(messages) < counted or messages[counted - 1] is not self._last):
            counted = 0  # another conversation, or another branch
        if not counted:
            self._totals = self._agent.earlier.totals
        if len(messages) > counted:
            self._totals = totals(itertools.islice(messages, counted, None), self._totals)
            counted, self._last = len(messages), messages[-1]
        self._counted = counted
        return self._totals


class GitBranch:
    """The branch that is checked out in a folder of this machine, read from git's files: no program runs for a line that is drawn with each
    key.
    """

    def __init__(self, folder: str) -> None:
        self._folder = None if folder.startswith(SCHEME) else Path(folder)
        self._name = ""
        self._read_at = float("-inf")

    def name(self) -> str:
        """Empty without a repository; the beginning of the commit's id if no branch is checked out."""
        if self._folder is not None and time.monotonic() - self._read_at > BRANCH_S:
            self._name, self._read_at = _read_branch(self._folder), time.monotonic()
        return self._name


def _read_branch(folder: Path) -> str:
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if git.is_file():  # a worktree
                target = read_regular(git, _MAX_HEAD).decode().removeprefix("gitdir:").strip()
                git = parent / target
            head = read_regular(git / "HEAD", _MAX_HEAD).decode().strip()
        except FileNotFoundError:
            continue
        except (OSError, ValueError):  # not git's
            return ""
        return one_line(head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8], 32)
    return ""
