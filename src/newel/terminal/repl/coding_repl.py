"""The conversation of ``newel``: prompts with attachments, steering, commands and ``!commands``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.events import ErrorEvent
from newel.agent.messages import AppMessage, Attachment, UserMessage, new_id
from newel.config.keymap import Keymap
from newel.context.built_in_prompts import REMEMBER
from newel.context.prompt_templates import described, find_template, reachable_names
from newel.session.coding_agent import CodingAgent
from newel.session.history import History
from newel.session.typed_prompt import Prompt, prepare
from newel.terminal.commands import CommandContext, rewrite_commands, slash_command
from newel.terminal.renderers.console import ConsoleRenderer
from newel.terminal.renderers.transcript import Section, transcript_of
from newel.terminal.repl.background_commands import watch
from newel.terminal.repl.model_commands import switch_thinking_level
from newel.terminal.repl.own_commands import OwnCommands
from newel.terminal.repl.permission_commands import switch_approval_mode
from newel.terminal.repl.repl import Repl, converse, named, open_ui
from newel.terminal.repl.replay import show_resumed
from newel.terminal.repl.session_queue import SessionQueue
from newel.terminal.repl.slash_commands import COMMANDS
from newel.terminal.repl.slash_hints import NOT_SENT, NOTE_HINT
from newel.terminal.repl.status_line import StatusLine
from newel.terminal.review.run_notice import RunNotice
from newel.terminal.ui.approval import Approver
from newel.terminal.ui.terminal_ui import TerminalUI, When
from newel.text.format import one_line
from newel.text.slash_command import parse_command
from newel.workspace.port import SCHEME

if TYPE_CHECKING:
    from newel.config.terminal import TerminalSettings
    from newel.config.themes import Theme
    from newel.terminal.renderers.live import LiveRenderer
    from newel.terminal.renderers.screen import Screen
    from newel.terminal.renderers.styles import Styles


LEFT: Final = "This was queued and not sent before the conversation ended:"


async def run_repl(
    agent: CodingAgent,
    *,
    home: Path,
    approver: Approver,
    screen: Literal["rich", "console"] = "rich",
    header: str = "",
    first_prompts: Sequence[Prompt] = (),
    settings: TerminalSettings | None = None,
    theme: Theme | None = None,
    resumes_here: bool = True,
) -> int:
    """Converse with the user until they leave; returns the exit code of ``Repl.run``. ``home`` is Newel's own folder,
    ``header`` the first lines shown; ``first_prompts`` run first, in the styles of ``theme`` (None: the default one). A terminal that
    cannot move its cursor gets ``console``. ``resumes_here``: `newel -c` in the folder of the shell resumes the conversation.
    """
    ui = _open_ui(agent, home, screen, settings, theme)
    notice = RunNotice(agent, slash_command, sums_up=True)

    async def view(text: str) -> None:
        await ui.page("The whole change", [Section("exact", text)])

    approver.attend(ui.ask, ui.show_answer, view, ui.ask)
    try:
        keymap = Keymap(settings.keys if settings else None)
        repl = CodingRepl(agent, ui, home, notice, header, keymap=keymap, resumes_here=resumes_here)
        for prompt in first_prompts:
            repl.enqueue(prompt)
        program = settings.status_line if settings else ()
        status = partial(repl.follow_status, program) if program else repl.follow_folder
        return await repl.run(agent, status)
    finally:
        notice.close()
        approver.attend(None)


def _open_ui(
    agent: CodingAgent,
    home: Path,
    screen: Literal["rich", "console"],
    settings: TerminalSettings | None,
    theme: Theme | None,
) -> TerminalUI:
    def live(screen: Screen, styles: Styles) -> LiveRenderer:
        from newel.terminal.renderers.rich import RichRenderer

        return RichRenderer(screen, styles, window=agent.window)

    def commands() -> dict[str, str]:
        templates = reachable_names(agent.templates, COMMANDS).items()
        return COMMANDS.completions() | {
            f"{name} " if template.takes_arguments else name: described(template)
            for name, template in templates
        }

    return open_ui(
        home / "history",
        plain=lambda out: ConsoleRenderer(out, separate_runs=False, window=agent.window),
        live=live,
        commands=commands,
        files=agent.workspace,
        is_plain=screen == "console",
        title=f"newel · {agent.session.get_name() or agent.workspace.name.rstrip('/').rpartition('/')[2]}",
        settings=settings,
        theme=theme,
    )


class CodingRepl(Repl[CommandContext]):
    """While a prompt is answered, more text reaches the same run; commands marked ``at_once`` act meanwhile."""

    def __init__(
        self,
        agent: CodingAgent,
        ui: TerminalUI,
        home: Path,
        notice: RunNotice,
        header: str,
        *,
        keymap: Keymap,
        resumes_here: bool = True,
    ) -> None:
        self._own_commands = OwnCommands(agent, ui)
        super().__init__(ui, COMMANDS, CommandContext(agent, ui, home, keymap, self._own_commands.give_back))
        self._keymap = keymap
        self._resumes_here = resumes_here
        self._agent = agent
        self._notice = notice
        self._header = header
        self._queueing = anyio.Lock()
        self._status = StatusLine(agent, home)
        self._session_queue = SessionQueue(agent)
        self._preparing: set[str] = set()
        """The ids of the messages whose files are read before they are queued."""
        self._typed: dict[str, Prompt] = {}
        """Queued messages, by id, as they were before files and templates were read."""
        self._is_done = False
        """Whether the last run came to its end: nothing stopped it, no error and no limit."""
        self._has_failed = False
        if agent.compactor is not None:
            agent.compactor.on_writing = self._show_summarizing
        watch(agent, lambda text: ui.renderer.note(text, "aside"), ui.refresh)

    def _show_summarizing(self, is_writing: bool) -> None:
        from newel.terminal.renderers.live import LiveRenderer

        if isinstance(self.ui.renderer, LiveRenderer):  # others have no line of state
            self.ui.renderer.show_summarizing(is_writing)

    async def follow_status(self, program: Sequence[str]) -> None:
        """Let the user's program write the status line, until cancelled."""
        from newel.terminal.repl.status_program import facts_of, follow

        def show(line: str) -> None:
            self._status.own = line
            self.ui.refresh()

        facts = partial(facts_of, self._agent)
        await follow(program, lambda: facts(self._status.totals()), show, self.ui.renderer.note)

    async def follow_folder(self) -> None:
        """Keep what the status line says of the folder up to date, until cancelled."""
        await self._status.folder.follow(self.ui.refresh)

    def _greet(self) -> None:
        if self._header:
            self.ui.renderer.note(self._header)
        if self._agent.info.sandbox_problem:
            problem = self._agent.info.sandbox_problem
            self.ui.renderer.handle(ErrorEvent(code="no_sandbox", message=problem, level="warning"))
        for notice in self._agent.info.start_notices:
            self.ui.renderer.note(notice)
        if self._agent.state.messages:
            show_resumed(self._agent, self.ui.renderer)
        self._offer_left()

    def _offer_left(self) -> None:
        """Put what another process has left unsent into the input: the user may no longer want it sent."""
        left = self._session_queue.left()
        commands = [prompt for prompt in left if self.is_command(prompt.typed)]
        messages = [prompt for prompt in left if prompt not in commands]
        if commands:
            self.ui.renderer.note(f"Not run before the conversation ended: {named(commands)}.")
            for prompt in commands:
                self._session_queue.drop(prompt)
        if messages:
            self.ui.renderer.note(LEFT)
            self.put_back(messages)

    def _part(self) -> None:
        session = self._agent.session
        if unsent := self._own_commands.farewell():
            self.ui.renderer.note(unsent)
        if not self._resumes_here:
            return
        if session.get_file_path() is not None and session.has_data() and sys.stdout.isatty():
            how = "newel -c" if session.is_latest() else f"newel --session {session.get_id()[:8]}"
            where = " with the same --host" if self._agent.workspace.name.startswith(SCHEME) else ""
            self.ui.renderer.note(f"`{how}`{where} resumes this conversation.")

    # -- input --------------------------------------------------------------------------------------

    def submit(self, text: str, when: When = "now", images: Sequence[Attachment] = ()) -> None:
        if self._is_note(text):
            text = f"/{REMEMBER} {text.strip()[1:].strip()}"
        prompt = Prompt(text.strip(), images=tuple(images))
        if not prompt.typed:
            return
        try:
            found = COMMANDS.find(prompt.typed)
            if found and found[0].at_once:
                self._session_queue.replace_input()
                super().submit(text, when, images)
                return
            if self.busy or (self._session_queue.has_input and not self.is_command(text)):
                prompt = self._session_queue.keep(prompt)  # before it is shown as queued
            else:
                self._session_queue.replace_input()
        except NewelError as error:
            self.show_error(error.code, str(error))
            self.put_back([prompt])
            return
        if self._is_prompting and not self.is_command(text) and self._group is not None:
            self._preparing.add(prompt.id)
            self._group.start_soon(self.run_safely, self._queue_message, prompt, when)
        else:
            self.enqueue(prompt)

    def is_command(self, text: str) -> bool:
        return text.lstrip().startswith("!") or super().is_command(text)

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        self._session_queue.put_back(prompts)
        super().put_back(prompts)

    def _is_note(self, text: str) -> bool:
        """Whether it is one line behind ``#``, which goes into AGENTS.md. A longer text begins with a heading."""
        return text.startswith("# ") and "\n" not in text.strip() and REMEMBER in self._agent.templates

    def take_back(self) -> str | None:
        """The queues are those of ``state_lines``, the last line first."""
        if self._queue:
            self._session_queue.put_back([self._queue[-1]])
            return super().take_back()
        queue = self._agent.agent.queue
        for message in reversed([*queue.steer, *queue.later]):
            if isinstance(message, UserMessage):
                queue.remove(message.id)
                prompt = self._as_typed(message)
                self._session_queue.put_back([prompt])
                return prompt.typed
        return None

    def expand(self) -> None:
        if self._group is not None:
            self._group.start_soon(self.run_safely, self._show_transcript, self._agent.history())

    async def _show_transcript(self, history: History) -> None:
        if sections := transcript_of(history):
            await self.ui.page("Transcript", sections, at_end=True)

    @property
    def can_rewind(self) -> bool:
        return bool(self._agent.state.messages) and not self.busy

    def rewind(self) -> None:
        self.enqueue(Prompt("/rewind"))

    @property
    def can_detach(self) -> bool:
        return self._agent.background is not None and self._agent.background.can_detach

    def detach(self) -> None:
        if self._agent.background is None:
            return
        try:
            self._agent.background.detach()
        except NewelError as error:
            self.ui.renderer.note(str(error))

    def next_approval_mode(self) -> None:
        try:
            switch_approval_mode(self._agent)
        except NewelError as error:
            self.ui.renderer.note(self.localize(str(error)))
        self.ui.refresh()

    def next_thinking_level(self) -> None:
        switch_thinking_level(self._agent)
        self.ui.refresh()

    def choose_model(self) -> None:
        self.enqueue(Prompt("/model"))

    def localize(self, text: str) -> str:
        return rewrite_commands(text, slash_command)

    def state_lines(self, typed: str = "") -> list[str]:
        queue = self._agent.agent.queue
        lines = [f"  {_line(message)}  (next)" for message in queue.steer]
        lines += [f"  {_line(message)}  (when it is done)" for message in queue.later]
        lines += super().state_lines(typed)
        lines += self._own_commands.lines()
        if self._agent.info.sandbox_problem:
            lines.append(one_line(self._agent.info.sandbox_problem, 60))
        if typed.startswith("!"):
            lines.append(self._own_commands.hint(typed))
        elif self._is_note(typed):
            lines.append(NOTE_HINT)
        elif self._is_prompting:
            detach = self._hint("background", "{} to the background") if self.can_detach else ""
            sends = (self._hint("send", "{} sends now"), self._hint("complete", "{} sends after the run"))
            lines.append(" · ".join(filter(None, (detach, *sends, "Esc stops"))))
        elif self._activity:
            lines.append(f"{self._activity} · Esc stops")
        elif self._has_failed:
            lines.append(self._hint("previous", "{} and Enter send it again"))
        elif self._agent.approve == "plan" and self._agent.state.messages:
            lines.append("/implement starts on the plan · /implement auto without asking")
        elif not self._agent.state.messages:
            hints = (
                self._hint("send", "{} sends"),
                self._hint("new_line", "{} new line"),
                "/ commands · @ files · ! shell",
                self._hint("approval_mode", "{} approval mode"),
            )
            lines.append(" · ".join(filter(None, hints)))
        return lines

    def _hint(self, action: str, how: str) -> str:
        return self._keymap.label("input", action, how)

    def status_line(self, columns: int) -> str:
        return self._status.text(columns)

    # -- jobs ---------------------------------------------------------------------------------------

    async def _run_job(self, prompt: Prompt) -> None:
        self._has_failed = False
        if self.is_command(prompt.typed):
            self._session_queue.drop(prompt)  # before it runs: it must not be offered again
        await super()._run_job(prompt)

    async def _run_text(self, prompt: Prompt) -> None:
        text = prompt.typed
        self._activity = one_line(text, 60)
        command = parse_command(text)
        if text.startswith("!"):
            self.ui.echo(text)
            await self._own_commands.run(text)
        elif command and find_template(self._agent.templates, command[0]) is None:
            self.ui.echo(text)
            raise COMMANDS.unknown(text, self._keymap, reachable_names(self._agent.templates, COMMANDS))
        elif hint := NOT_SENT.get(text.lower()):
            self.ui.echo(text)
            self.ui.renderer.note(hint)
        else:
            self.ui.refresh()
            await self._send(msgspec.structs.replace(prompt, id=prompt.id or new_id()))

    async def _send(self, prompt: Prompt) -> None:
        """Have the model answer a prompt. One that is stopped before it is part of the conversation returns to the input."""
        shared: list[Attachment] = []
        try:
            message = await prepare(self._agent, prompt, self.ui.renderer.note)
            self._is_prompting = True
            shared = self._own_commands.take()
            message = msgspec.structs.replace(message, attachments=[*message.attachments, *shared])
            self._is_done = False
            ended = await converse(self._agent, message, self.ui.renderer, other_model="/model")
        except anyio.get_cancelled_exc_class():
            if all(message.id != prompt.id for message in reversed(self._agent.state.messages)):
                self._own_commands.give_back(shared)
                self.put_back([prompt])
            raise
        self._is_done, self._has_failed = ended == "done", ended in {None, "error"}

    async def _queue_message(self, prompt: Prompt, when: When) -> None:
        """Add a message to the current run. The lock keeps the order while the files of one are read."""
        async with self._queueing:
            try:
                message = await prepare(self._agent, prompt, self.ui.renderer.note)
            finally:
                self._preparing.discard(prompt.id)
            if self._is_prompting:
                self._typed[message.id] = prompt
                self._agent.agent.queue.add(message, "steer" if when == "now" else "follow_up")
            else:
                self._take_unsent([prompt])
        self.ui.refresh()

    async def _after_job(self, stopped: bool) -> None:
        has_prompted = self._is_prompting
        await super()._after_job(stopped)
        self._is_done = self._is_done and not stopped
        queue = self._agent.agent.queue
        messages = queue.steering() + queue.follow_up()
        self._take_unsent([self._as_typed(each) for each in messages if isinstance(each, UserMessage)])
        self._typed.clear()
        waiting = {prompt.id for prompt in self._queue} | self._preparing
        try:
            self._session_queue.settle(waiting)
        except NewelError as error:
            self.show_error(error.code, str(error))
        self._offer_left()
        self._status.folder.look()
        self.ui.refresh()
        if has_prompted and (message := await self._notice.text()):
            self.ui.renderer.note(message, "aside")

    def _take_unsent(self, prompts: Sequence[Prompt]) -> None:
        """Run messages that came after the last request of a run. If it did not come to its end, the user may no longer want
        them sent: they are put back into the input.
        """
        if self._is_done:
            for prompt in prompts:
                self.enqueue(prompt)
        else:
            self.put_back(prompts)

    def _as_typed(self, message: UserMessage) -> Prompt:
        return self._typed.pop(message.id, Prompt(message.text, id=message.id))


def _line(message: AppMessage) -> str:
    return one_line(message.text, 60) if isinstance(message, UserMessage) else ""
