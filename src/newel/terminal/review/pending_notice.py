"""A notice after a run that has left pending changes."""

from __future__ import annotations

import anyio.to_thread

from newel.agent.events import AgentEvent, AgentStart, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandFormatter, slash_command


class PendingNotice:
    """Watches an agent until ``close``. ``format_command`` writes commands for the user."""

    def __init__(self, agent: CodingAgent, format_command: CommandFormatter) -> None:
        self._agent = agent
        self._format_command = format_command
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
        """The notice about the runs since the last call; empty if they left nothing pending."""
        since, has_acted = self._since, self._has_acted
        self._since, self._has_acted = "", False
        workspace = self._agent.workspace
        if not has_acted or not isinstance(workspace, RecordingWorkspace):
            return ""
        from newel.review.decide import files_with_pending
        from newel.review.model.file_review import ReviewError

        try:
            ledger = (await workspace.recorder()).project.ledger
            session = self._agent.session.get_id()
            files = await anyio.to_thread.run_sync(files_with_pending, ledger, session, since)
        except ReviewError:  # shown during the run already
            return ""
        return self._about(len(files)) if files else ""

    def _about(self, files: int) -> str:
        if self._format_command is not slash_command and self._agent.session.get_file_path() is None:
            return f"The changes proposed for {pluralize(files, 'file')} were discarded: --ephemeral keeps them in memory only."
        return f"{pluralize(files, 'file')} {'has' if files == 1 else 'have'} pending changes. Review them with `{self._format_command('decide')}`."
