"""The conversation at a terminal: prompts, commands, questions, and what may happen when."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import anyio

from newel.agent.messages import AppMessage, UserMessage
from newel.session.coding_agent import CodingAgent
from newel.terminal.command_context import CommandContext
from newel.terminal.command_names import between_prompts
from newel.terminal.renderers.base import RendererSubscription, animate
from newel.terminal.renderers.console import ConsoleRenderer
from newel.terminal.repl.job_queue import JobQueue
from newel.terminal.repl.prompt_input import Prompt, parse_command, prepare
from newel.terminal.repl.shell_escape import ending, run_command
from newel.terminal.repl.slash_commands import BY_NAME, COMMANDS, SlashCommand, recap
from newel.terminal.review.pending_notice import PendingNotice
from newel.terminal.signals import exit_code, on_signals
from newel.terminal.stdout import discard_stdout, text_stdout
from newel.terminal.ui.approval import Approver
from newel.terminal.ui.plain_ui import PlainUI
from newel.terminal.ui.terminal_ui import TerminalUI, When
from newel.text.format import one_line

FAILED = 1


async def run_repl(
    agent: CodingAgent,
    *,
    home: Path,
    approver: Approver,
    screen: Literal["rich", "console"] = "rich",
    header: str = "",
    first_prompts: Sequence[Prompt] = (),
) -> int:
    """Talk with the person at the terminal until they leave. ``home`` is Newel's own folder, ``header`` the
    first line shown. A terminal that cannot move its cursor gets ``console``.

    Returns 0, 1 if the terminal went away, 128 + N if signal N ended it.
    """
    desk = open_desk(agent, home, screen)
    reminder = PendingNotice(agent, between_prompts)
    repl = _Repl(agent, desk, home, reminder)
    approver.attend(desk.ask)
    audience = RendererSubscription(desk.renderer, repl.leave)
    unsubscribe = agent.subscribe(audience.handle)
    try:
        if header:
            desk.renderer.note(header)
        if agent.state.messages:
            desk.renderer.note(recap(agent))
        for prompt in first_prompts:
            repl.jobs.add(prompt)
        async with on_signals(repl.on_signal) as group:
            group.start_soon(animate, desk.renderer)
            group.start_soon(repl.jobs.work)
            repl.group = group
            await desk.run(repl)
        audience.check()
    except OSError as error:  # the screen is gone; what else fails is told on it
        discard_stdout(error)
        return repl.code or FAILED
    finally:
        unsubscribe()
        reminder.close()
        approver.attend(None)
        desk.renderer.close()
    return repl.code


def open_desk(agent: CodingAgent, home: Path, screen: Literal["rich", "console"]) -> TerminalUI:
    """The desk that standard input and output allow."""
    dumb = os.environ.get("TERM", "dumb") == "dumb"
    if screen == "console" or dumb or not (sys.stdin.isatty() and sys.stdout.isatty()):
        out = text_stdout()
        return PlainUI(
            ConsoleRenderer(out, separate_runs=False, window=agent.window), sys.stdin.fileno(), out
        )
    from newel.terminal.renderers.rich import RichRenderer
    from newel.terminal.renderers.styles import Styles
    from newel.terminal.repl.completion import FileCompleter, ReplCompleter
    from newel.terminal.ui.prompt_toolkit_ui import PromptToolkitUI

    def commands() -> dict[str, str]:
        known = {command.name: command.help for command in COMMANDS}
        return known | {name: template.description for name, template in agent.templates.items()}

    return PromptToolkitUI(
        sys.stdout,
        lambda screen: RichRenderer(screen, Styles(), window=agent.window),
        completer=ReplCompleter(commands, FileCompleter(agent.workspace)),
        history=home / "history",
    )


class _Repl:
    """Takes what the person types, one thing after the other; what may act at once does."""

    def __init__(self, agent: CodingAgent, desk: TerminalUI, home: Path, reminder: PendingNotice) -> None:
        self.agent = agent
        self.desk = desk
        self.context = CommandContext(agent, desk, home)
        self.reminder = reminder
        self.jobs: JobQueue[Prompt] = JobQueue(desk, self._take, self._tidy)
        self.code = 0
        self.group: anyio.abc.TaskGroup | None = None
        self._doing = ""
        self._prompting = False
        self._saying = anyio.Lock()

    # -- the person ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self.jobs.busy

    def submit(self, text: str, when: When = "now") -> None:
        text = text.strip()
        command = self._command(text)
        if not text:
            return
        if command is not None and command[0].at_once and self.group is not None:
            self.desk.echo(text)
            self.group.start_soon(self.jobs.guarded, self._run_command, *command)
        elif self._prompting and command is None and not text.startswith("!") and self.group is not None:
            self.group.start_soon(self.jobs.guarded, self._say, text, when)
        else:
            self.jobs.add(Prompt(text))

    def unfold(self) -> None:
        self.submit("/show")

    def stop(self) -> bool:
        return self.jobs.stop()

    def leave(self) -> None:
        self.stop()
        self.desk.leave()

    async def idle(self) -> None:
        await self.jobs.idle()

    def state(self) -> list[str]:
        queue = self.agent.agent.queue
        lines = [f"  {_text(message)}  (next)" for message in queue.steer]
        lines += [f"  {_text(message)}  (when it is done)" for message in queue.later]
        lines += [f"  {one_line(job.typed, 60)}  (waits its turn)" for job in self.jobs.waiting]
        if self._prompting:
            lines.append("Enter says it now · Tab when it is done · Esc stops")
        elif self._doing:
            lines.append(f"{self._doing} · Esc stops")
        elif not self.agent.state.messages:
            lines.append("Enter sends · Alt+Enter new line · / commands · @ files · ! shell")
        return lines

    def on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGINT and self.stop():
            return
        self.code = 0 if number == signal.SIGINT else exit_code(number)
        self.desk.leave()

    # -- one thing after the other ------------------------------------------------------------------

    async def _tidy(self, stopped: bool) -> None:
        """Something is over."""
        if stopped and not self._prompting:
            self.desk.renderer.note("Stopped.")  # of a prompt its own events say so
        has_prompted = self._prompting
        self._prompting, self._doing = False, ""
        self._return_unsent()
        self.desk.refresh()
        if has_prompted and (words := await self.reminder.words()):
            self.desk.renderer.note(words)

    async def _take(self, prompt: Prompt) -> None:
        text = prompt.typed
        command = self._command(text)
        if command is not None:
            self._doing = f"/{command[0].name}"
            self.desk.echo(text)
            await self._run_command(*command)
        elif text.startswith("!"):
            self._doing = one_line(text, 60)
            self.desk.echo(text)
            await self._shell(text[1:].strip())
        elif (unknown := parse_command(text)) and unknown[0] not in self.agent.templates:
            self.desk.echo(text)
            self.desk.renderer.note(f"There is no command /{unknown[0]}. /help lists them.")
        else:
            await self._prompt(prompt)

    async def _say(self, text: str, when: When) -> None:
        """Give the run under way one more message. What is said after it waits until its files have been read."""
        async with self._saying:
            message = await self._prepare(Prompt(text))
            if self._prompting:
                self.agent.agent.queue.add(message, "steer" if when == "now" else "follow_up")
            else:
                self.desk.give_back(text)
        self.desk.refresh()

    async def _prompt(self, prompt: Prompt) -> None:
        self._doing = one_line(prompt.typed, 60)
        self.desk.refresh()
        message = await self._prepare(prompt)
        self._prompting = True
        with contextlib.suppress(
            Exception
        ):  # an error event has told it; what the screen raises is the audience's
            await self.agent.prompt(message.text, message.attachments)

    async def _run_command(self, command: SlashCommand, arguments: str) -> None:
        await command.run(self.context, arguments)

    async def _shell(self, command: str) -> None:
        lines = _Lines(lambda text: self.desk.renderer.note(text, "whole"))
        completed = await run_command(self.agent.workspace, command, lines.add)
        lines.finish()
        if completed.exit_code:
            self.desk.renderer.note(ending(completed))

    async def _prepare(self, prompt: Prompt) -> UserMessage:
        prepared = await prepare(self.agent, prompt)
        for note in prepared.notes:
            self.desk.renderer.note(note)
        return prepared.message()

    def _return_unsent(self) -> None:
        """What was meant for a run that has ended comes back to be sent again, or not."""
        queue = self.agent.agent.queue
        unsent = [
            message.text
            for message in queue.steering() + queue.follow_up()
            if isinstance(message, UserMessage)
        ]
        if unsent:
            self.desk.give_back("\n".join(unsent))

    def _command(self, text: str) -> tuple[SlashCommand, str] | None:
        parsed = parse_command(text)
        command = BY_NAME.get(parsed[0]) if parsed else None
        return (command, parsed[1]) if command and parsed else None


class _Lines:
    """Passes on whole lines of a text that comes in pieces, several at a time."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._rest = ""

    def add(self, piece: str) -> None:
        whole, end, rest = piece.rpartition("\n")
        if end:
            self._show(self._rest + whole)
            self._rest = rest
        else:
            self._rest += piece

    def finish(self) -> None:
        if self._rest:
            self._show(self._rest)


def _text(message: AppMessage) -> str:
    return one_line(message.text, 60) if isinstance(message, UserMessage) else ""
