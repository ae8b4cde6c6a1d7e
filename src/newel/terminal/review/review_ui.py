"""The user of the review commands, in a conversation or in a shell: how much of a diff they see, questions to them, and the notice
after a run that has left pending changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import anyio.to_thread

from newel.agent.events import AgentEvent, AgentStart, ToolExecutionStart
from newel.agent.formatting import pluralize
from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.session.coding_agent import CodingAgent
from newel.terminal.commands import CommandFormatter, rewrite_commands, slash_command
from newel.text.sanitize import escape_diff

if TYPE_CHECKING:
    from newel.review.project import ProjectReview
    from newel.terminal.ui.terminal_ui import EditFile, ViewText

NO_CHANGES: Final = "No changes by agents are recorded in this folder."
NO_PENDING: Final = "No pending changes."
UNCHANGED: Final = "Nothing was changed."
NOT_RECORDING: Final = "Change recording is off ([review] record = false in config.toml): changes made by agents cannot be undone."


class DiffLimit(NamedTuple):
    """How much of a diff is shown."""

    lines: int
    characters: int


SHOWN: Final = DiffLimit(2_500, 100_000)
"""Where the user decides on the diff."""

WHOLE: Final = DiffLimit(sys.maxsize, sys.maxsize)


def shortened(diff: str, rest: str, limit: DiffLimit = SHOWN) -> str:
    """A diff with hidden characters written out. A long one is cut at the end of a line, and a line says how much is missing
    and that the command ``rest`` shows it.
    """
    body = diff.removesuffix("\n")
    lines = body[: limit.characters + 1].split("\n", limit.lines)[: limit.lines]
    head = "\n".join(lines)
    if len(head) > limit.characters:  # the last line of it is not whole
        head = head[: head.rfind("\n", 0, limit.characters)] if "\n" in head else head[: limit.characters]
    if len(head) == len(body):
        return escape_diff(diff)
    rest_of_body = body[len(head) :].removeprefix("\n")
    missing = (
        pluralize(rest_of_body.count("\n") + 1, "more line")
        if body[len(head)] == "\n"
        else pluralize(len(rest_of_body), "more character")
    )
    return f"{escape_diff(head)}\n… {missing}: `{rest}` shows the whole diff\n"


class AskAbout(Protocol):
    async def __call__(self, question: str, about: str, /, *, keys: str = "") -> str | None:
        """Put a question below a text. Where keys are read one by one, one of ``keys`` answers at once. None if nobody can answer."""
        ...


class ReviewUI(NamedTuple):
    """``show`` displays a text with its code, as ``Renderer.note``. ``format_command`` writes commands for the user; questions fit into ``columns``. ``view`` shows a long text
    with diffs in it; None where only yes or no can be answered. ``edit_file`` opens the user's editor; None where none can be shown.
    """

    show: Callable[[str, str], None]
    ask: AskAbout
    format_command: CommandFormatter
    columns: int = 80
    view: ViewText | None = None
    edit_file: EditFile | None = None

    def say(self, *lines: str) -> None:
        """Show the lines that are not empty."""
        text = "\n".join(line for line in lines if line)
        self.show(rewrite_commands(text, self.format_command), "note")

    async def confirm(self, about: str, question: str, diff: str = "", *, yes: bool = False) -> bool:
        """Show text with diffs in it and ask the question, which ends with ``?``. ``yes`` skips it. A ``diff`` is shown before the text, or
        where there is a ``view`` and a question, if the user answers ``v``.
        """
        view = self.view if diff and not yes else None
        self.show(about if view or not diff else f"{diff}\n{about}", "whole" if view else "diff")
        if yes:
            return True
        keys = "[y/N, v: diff]" if view else "[y/N]"
        while (answer := await self.ask(f"{question} {keys} ", "")) is not None:
            if view is None or answer.strip().lower() != "v":
                break
            await view(diff)
        return is_yes(answer)


def is_yes(answer: str | None) -> bool:
    """Whether an answer is a yes."""
    return (answer or "").strip().lower() in {"y", "yes"}


class RunNotice:
    """What the user should know of the files after a run. Watches an agent until ``close``. ``format_command`` writes commands for the user.
    ``sums_up``: it also reports changes that need no decision.
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
        """``5 files +13 -12 · /review · /undo``: what the last run has changed."""
        from newel.diff.unified import count_changes
        from newel.review.project import load_run

        latest = await anyio.to_thread.run_sync(partial(project.ledger.checkpoints, limit=1))
        if not latest or latest[0].session != session or latest[0].created < since:
            return ""
        files = (await load_run(project, latest[0])).files
        if not files:
            return ""
        commands = map(self._format_command, ("review", "undo"))
        changed = f"{pluralize(len(files), 'file')} {count_changes(file.patch for file in files)}".rstrip()
        return " · ".join([changed, *commands])

    def _about(self, files: int) -> str:
        if self._format_command is not slash_command and self._agent.session.get_file_path() is None:
            return f"The changes proposed for {pluralize(files, 'file')} were discarded: --ephemeral keeps them in memory only."
        return f"{pluralize(files, 'file')} {'has' if files == 1 else 'have'} pending changes. Review them with `{self._format_command('decide')}`."
