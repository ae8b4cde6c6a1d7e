"""The REPL of every conversation on a terminal: prompts and commands, one after the other, and what a prompt mentions.

    user ──> TerminalUI ── submit ──> Repl ── work ──> command, or ``_run_text`` of the conversation
    agent ── events ──> RendererSubscription ──> Renderer ──> TerminalUI's screen

``newel`` (``coding_repl``) and ``jexida`` add their commands, what becomes of a prompt, and the lines beside the input.
"""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TextIO

import anyio
import msgspec

from newel.agent.agent import Agent
from newel.agent.errors import NewelError
from newel.agent.events import AgentEnd, AgentEvent, EndReason, ErrorEvent
from newel.agent.messages import Attachment, UserMessage
from newel.session.coding_agent import CodingAgent
from newel.session.typed_prompt import Prompt
from newel.terminal.commands import CommandTable, Context, SlashCommand
from newel.terminal.renderers.base import Renderer, RendererSubscription, animate
from newel.terminal.signals import exit_code, on_signals
from newel.terminal.stdout import discard_stdout, text_stdout
from newel.terminal.ui.echo import can_draw
from newel.terminal.ui.plain_ui import PlainUI
from newel.terminal.ui.terminal_ui import TerminalUI, When
from newel.text.format import format_duration, join_names, one_line
from newel.text.sanitize import SanitizedStream
from newel.workspace.port import CommandResult, Workspace

if TYPE_CHECKING:
    from newel.config.terminal import TerminalSettings
    from newel.config.themes import Theme
    from newel.terminal.renderers.live import LiveRenderer
    from newel.terminal.renderers.screen import Screen
    from newel.terminal.renderers.styles import Styles
    from newel.terminal.repl.completion import ArgumentCompleter

FAILED = 1


def open_ui(
    history: Path,
    *,
    plain: Callable[[TextIO], Renderer],
    live: Callable[[Screen, Styles], LiveRenderer],
    commands: Callable[[], Mapping[str, str]],
    arguments: Mapping[str, ArgumentCompleter] = {},
    files: Workspace | None = None,
    is_plain: bool = False,
    title: str = "",
    settings: TerminalSettings | None = None,
    theme: Theme | None = None,
) -> TerminalUI:
    """The user interface that standard input and output allow: ``live`` draws where a cursor can be moved, ``plain``
    elsewhere. ``history`` is the file that keeps what the user enters, ``title`` the name of the conversation in that of
    the window, ``settings`` are those of its input, ``theme`` (None: the default one) that of the screen. The others are
    completed: see ``ReplCompleter``.
    """
    if is_plain or not can_draw():
        out = text_stdout()
        return PlainUI(plain(out), sys.stdin.fileno(), out)
    from newel.config.keymap import Keymap
    from newel.config.terminal import TerminalSettings
    from newel.terminal.renderers.styles import Styles
    from newel.terminal.repl.completion import ReplCompleter
    from newel.terminal.ui.prompt_toolkit_ui import PromptToolkitUI

    completer = ReplCompleter(commands, files=files, arguments=arguments)
    settings = settings or TerminalSettings()
    styles = Styles(theme=theme)
    return PromptToolkitUI(
        sys.stdout,
        lambda screen: live(screen, styles),
        styles=styles,
        completer=completer,
        history=history,
        folder=files.name if files else "",
        title=title,
        notify=settings.notify,
        editing=settings.editing,
        keymap=Keymap(settings.keys),
    )


class Repl(Generic[Context]):
    """The ``InputHandler`` of a conversation. A subclass runs prompts in ``_run_text``.

    Prompts and commands are queued, and ``work`` runs one after the other. The error of one is shown, and the next one runs.
    Only the ``OSError`` of a screen that fails leaves ``work``.
    """

    def __init__(self, ui: TerminalUI, commands: CommandTable[Context], context: Context) -> None:
        self.ui = ui
        self._commands = commands
        self._context = context
        self._exit_code = 0
        self._group: anyio.abc.TaskGroup | None = None
        self._activity = ""
        self._is_prompting = False
        self._at_once = 0
        """Commands that run beside the jobs. They may ask: another reader of the input would take the answer."""
        self._queue: deque[Prompt] = deque()
        self._more = anyio.Event()
        self._idle = anyio.Event()
        self._running: anyio.CancelScope | None = None

    async def run(self, agent: Agent | CodingAgent, *background: Callable[[], Awaitable[None]]) -> int:
        """Serve the user until they leave, showing the agent's events; ``background`` tasks run meanwhile.

        Returns 0, 1 if the terminal has gone, 128 + N if signal N ended it.
        """
        subscription = RendererSubscription(self.ui.renderer, self.leave)
        unsubscribe = agent.subscribe(lambda event: subscription.handle(self._localized(event)))
        try:
            self._greet()
            async with on_signals(self._on_signal) as group:
                self._group = group
                group.start_soon(animate, self.ui.renderer)
                group.start_soon(self.work)
                for task in background:
                    group.start_soon(self.run_safely, task)
                await self.ui.run(self)
            subscription.check()
            if not self._exit_code:
                self._part()
        except OSError as error:  # the screen's own: all other errors are shown on it
            discard_stdout(error)
            return self._exit_code or FAILED
        finally:
            unsubscribe()
            self.ui.renderer.close()
        return self._exit_code

    # -- input --------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._running is not None or bool(self._queue)

    def enqueue(self, prompt: Prompt) -> None:
        self._queue.append(prompt)
        self._idle = anyio.Event()
        self._more.set()
        self.ui.refresh()

    def submit(
        self,
        text: str,
        when: When = "now",  # noqa: ARG002 — for those who can steer a run
        images: Sequence[Attachment] = (),
    ) -> None:
        text = text.strip()
        match self._commands.find(text):
            case command, arguments if command.at_once and self._group is not None:
                self.ui.echo(text)
                self._at_once += 1
                self._idle = anyio.Event()
                self._group.start_soon(self._run_at_once, command, arguments)
            case _ if text:
                self.enqueue(Prompt(text, images=tuple(images)))
            case _:
                pass

    def take_back(self) -> str | None:
        return self._queue.pop().typed if self._queue else None

    def expand(self) -> None:
        """Nothing is abbreviated."""

    def next_approval_mode(self) -> None:
        """There are none."""

    @property
    def can_detach(self) -> bool:
        return False

    def detach(self) -> None:
        """There is no background."""

    def next_thinking_level(self) -> None:
        """There are none."""

    def choose_model(self) -> None:
        """There is no choice."""

    def stop(self) -> bool:
        """Cancel the running job; False if none is running. Queued messages return to the input. Queued commands do not: between
        them, Enter would send another text than any of these.
        """
        if self._running is None:
            return False
        waiting = list(self._queue)
        self._queue.clear()
        self._running.cancel()
        self.ui.renderer.show_stopping()
        commands = [prompt for prompt in waiting if self.is_command(prompt.typed)]
        if commands:
            self.ui.renderer.note(f"Not run: {named(commands)}.")
        self.put_back([prompt for prompt in waiting if prompt not in commands])
        return True

    def is_command(self, text: str) -> bool:
        """Whether it is a command for Newel, not a message to the model."""
        return self._commands.find(text.strip()) is not None

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        """Put messages that were not sent back into the input."""
        if prompts:
            images = [image for prompt in prompts for image in prompt.images]
            self.ui.restore_input("\n".join(prompt.typed for prompt in prompts), images)

    @property
    def can_rewind(self) -> bool:
        return False

    def rewind(self) -> None:
        """There is nothing to go back to."""

    def leave(self) -> None:
        self.stop()
        self.ui.leave()

    async def wait_idle(self) -> None:
        while self.busy or self._at_once:
            await self._idle.wait()

    async def _run_at_once(self, command: SlashCommand[Context], arguments: str) -> None:
        try:
            await self.run_safely(command.call, self._context, arguments)
        finally:
            self._at_once -= 1
            self._wake_if_idle()

    def _wake_if_idle(self) -> None:
        if not self.busy and not self._at_once:
            self._idle.set()

    def state_lines(self, typed: str = "") -> list[str]:  # noqa: ARG002 — for those who say more of it
        return [f"  {one_line(job.typed, 60)}  (queued)" for job in self._queue]

    def status_line(self, columns: int) -> str:  # noqa: ARG002 — for those who have one
        return ""

    def localize(self, text: str) -> str:
        """A message for this conversation: its own commands for those of the shell."""
        return text

    def _localized(self, event: AgentEvent) -> AgentEvent:
        if isinstance(event, ErrorEvent):
            return msgspec.structs.replace(event, message=self.localize(event.message))
        return event

    def _on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGINT and (self.ui.is_suspended or self.stop()):
            return
        self._exit_code = 0 if number == signal.SIGINT else exit_code(number)
        self.leave()  # a command that has the terminal has to end first

    # -- jobs ---------------------------------------------------------------------------------------

    def _greet(self) -> None:
        """Show the first lines."""

    def _part(self) -> None:
        """Show the last lines, when the user has left."""

    async def work(self) -> None:
        """Run jobs until cancelled."""
        while True:
            if self._queue:
                self.ui.set_working(True)
            while self._queue:
                with anyio.CancelScope() as self._running:
                    await self.run_safely(self._run_job, self._queue.popleft())
                stopped, self._running = self._running.cancelled_caught, None
                await self.run_safely(self._after_job, stopped)
                self.ui.refresh()
            self.ui.set_working(False)
            self._wake_if_idle()
            self._more = anyio.Event()
            await self._more.wait()

    async def run_safely(self, action: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Run ``action`` and show its error, if any."""
        try:
            await action(*arguments)
        except NewelError as error:
            self.show_error(error.code, self.localize(str(error)))
        except OSError:  # the screen itself
            raise
        except Exception as error:  # noqa: BLE001 — an error must not end the conversation
            self.show_error("internal", f"{type(error).__name__}: {error}")

    def show_error(self, code: str, message: str) -> None:
        self.ui.renderer.handle(ErrorEvent(code=code, message=message))

    async def _run_job(self, prompt: Prompt) -> None:
        if parsed := self._commands.find(prompt.typed):
            command, arguments = parsed
            self._activity = f"/{command.name}"
            self.ui.echo(prompt.typed)
            await command.call(self._context, arguments)
        else:
            await self._run_text(prompt)

    async def _run_text(self, prompt: Prompt) -> None:
        """Run input that calls no command of the table."""
        raise NotImplementedError

    async def _after_job(self, stopped: bool) -> None:
        if stopped and not self._is_prompting:
            self.ui.renderer.note("Stopped.")  # of a prompt, its own events say so
        self._is_prompting, self._activity = False, ""


def named(prompts: Sequence[Prompt]) -> str:
    """Commands as a sentence names them."""
    return ", ".join(f"`{one_line(prompt.typed, 60)}`" for prompt in prompts)


async def converse(
    agent: CodingAgent, message: UserMessage, renderer: Renderer, *, other_model: str
) -> EndReason | None:
    """Run a prompt, and show why an answer that ended well is incomplete, such as one that was cut off. Returns how the run ended,
    None if it failed; its events have shown that.
    """
    first = len(agent.state.messages)
    end: AgentEnd | None = None

    async def answer() -> None:
        nonlocal end
        end = await agent.answer([message])

    if await error_of(answer()) or end is None:
        return None
    if end.reason == "done":
        from newel.terminal.run_result import shortfall

        if missing := shortfall(agent.state.messages[first:], other_model=other_model):
            renderer.handle(ErrorEvent(code="answer_incomplete", message=missing, level="warning"))
    return end.reason


async def error_of(answer: Awaitable[object]) -> Exception | None:
    """Wait for an answer; return its error, which an event has shown already. The screen's errors are the subscription's."""
    try:
        await answer
    except Exception as error:  # noqa: BLE001 — see above
        return error
    return None


async def run_command(workspace: Workspace, command: str, show: Callable[[str], None]) -> CommandResult:
    """Run the user's own command in the workspace, without a time limit; the model does not see it. ``show`` gets the output as it
    arrives, made inert.

    Cancellation stops the command with all that it started. Raises ``WorkspaceError``.
    """
    stream = SanitizedStream()

    async def on_output(piece: str) -> None:
        show(stream.feed(piece))

    completed = await workspace.run(command, on_output=on_output)
    show(stream.finish())
    return completed


def exit_summary(completed: CommandResult) -> str:
    """``exit code 2 · 1.9 s``: how a command ended, and the processes it left running."""
    running = (
        f" · still running: {join_names(completed.left_running, shown=3)}" if completed.left_running else ""
    )
    return f"exit code {completed.exit_code} · {format_duration(completed.duration)}{running}"
