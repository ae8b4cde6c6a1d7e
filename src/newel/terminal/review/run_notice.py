"""The notice after a run that has left pending changes, or whose changes are not recorded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from newel.agent.events import AgentEvent, AgentStart, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandFormatter, slash_command

if TYPE_CHECKING:
    from newel.review.project import ProjectReview

NOT_RECORDING: Final = "Change recording is off ([review] record = false in config.toml): changes made by agents cannot be undone."


class RunNotice:
    """What the user should know of the files after a run. Watches an agent until ``close``. ``format_command`` writes commands for the
    user. ``sums_up``: it also reports changes that need no decision.
    """

    def __init__(
        self, agent: CodingAgent, format_command: CommandFormatter, *, sums_up: bool = False
    ) -> None:
        self._agent = agent
        self._format_command = format_command
        self._sums_up = sums_up
        self._since = ""
        self._has_acted = False
        self.close = agent.subscribe(self._handle)

    def _handle(self, event: AgentEvent) -> None:
        match event:
            case AgentStart():
                self._since = self._since or event.timestamp
            case ToolExecutionStart():
                tools = self._agent.state.tools
                self._has_acted |= any(
                    tool.spec.name == event.tool_name and not tool.read_only for tool in tools
                )
            case _:
                pass

    async def text(self) -> str:
        """The notice about the runs since the last call; empty if they have changed nothing."""
        since, has_acted = self._since, self._has_acted
        self._since, self._has_acted = "", False
        workspace = self._agent.workspace
        if not has_acted or not isinstance(workspace, RecordingWorkspace):
            return ""
        from newel.review.decide import files_with_pending
        from newel.review.model.file_review import ReviewError

        try:
            project = (await workspace.recorder()).project
            session = self._agent.session.get_id()
            files = await anyio.to_thread.run_sync(files_with_pending, project.ledger, session, since)
            if files:
                return self._about(len(files))
            return await self._sum_up(project, session, since) if self._sums_up else ""
        except ReviewError:  # shown during the run already
            return ""

    async def _sum_up(self, project: ProjectReview, session: str, since: str) -> str:
        """``5 files +13 -12 · /review · /undo``: what the last run has changed. Of a record that ends with this process, no command."""
        from newel.diff.unified import count_changes
        from newel.review.project import load_run

        latest = await anyio.to_thread.run_sync(partial(project.ledger.checkpoints, limit=1))
        if not latest or latest[0].session != session or latest[0].created < since:
            return ""
        files = (await load_run(project, latest[0])).files
        if not files:
            return ""
        commands = () if self._forgets else map(self._format_command, ("review", "undo"))
        changed = f"{pluralize(len(files), 'file')} {count_changes(file.patch for file in files)}".rstrip()
        return " · ".join([changed, *commands])

    @property
    def _forgets(self) -> bool:
        """Whether no later command knows of the run: it keeps its record in memory, and no conversation goes on."""
        return self._format_command is not slash_command and self._agent.session.get_file_path() is None

    def _about(self, files: int) -> str:
        if self._forgets:
            return f"The changes proposed for {pluralize(files, 'file')} were discarded: --ephemeral keeps them in memory only."
        return f"{pluralize(files, 'file')} {'has' if files == 1 else 'have'} pending changes. Review them with `{self._format_command('decide')}`."
