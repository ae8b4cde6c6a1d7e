"""The commands of ``jexida``. None of them is sent to the model."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import anyio

from newel.agent.errors import UsageError
from newel.providers.ollama.model_info import ModelMissing, full_name
from newel.terminal.commands import CommandTable, SlashCommand, closest, did_you_mean
from newel.terminal.jexida.agent import JexidaAgent
from newel.terminal.jexida.renderer import PanelRenderer, Tone
from newel.terminal.jexida.routines import Routine, Routines, split
from newel.terminal.ui.terminal_ui import TerminalUI
from newel.text.format import format_columns, format_duration, one_line
from newel.workspace.process.environment import child_env

NOT_RECORDED = (
    "Changes made by commands are not recorded here. Recording needs a folder: set [connection] directory or use "
    "--directory, and do not set [review] record = false."
)
LINK_TONES: dict[str, Tone] = {"up": "good", "connecting": "warn"}
"""Tones of the states of a connection; others are bad."""


class JexidaContext(NamedTuple):
    """What commands work with. ``title`` is the program's name and version."""

    agent: JexidaAgent
    ui: TerminalUI
    renderer: PanelRenderer
    title: str

    def say(self, text: str) -> None:
        self.renderer.note(text)

    def show_header(self) -> None:
        facts = [self.title, one_line(self.agent.host.name), one_line(self.agent.model), "/help"]
        self.say(" · ".join(facts))
        self.show_status()

    def show_status(self) -> None:
        """The STATUS panel: where commands run, which model answers, and how the last command ended."""
        agent, host = self.agent, self.agent.host
        latency = "" if host.latency is None else f" · {format_duration(host.latency)}"
        folder = f":{one_line(host.directory)}" if host.directory else ""
        lines: list[tuple[str, Tone]] = [
            (f"host   {one_line(host.name)}{folder}", "plain"),
            (f"link   {one_line(host.state)}{latency}", LINK_TONES.get(host.state, "bad")),
            (f"model  {one_line(agent.model)} · {one_line(agent.backend.description)}", "plain"),
        ]
        if (code := agent.exit_code) is not None:
            lines.append((f"last   exit code {code}", "bad" if code else "good"))
        self.renderer.show_status(lines)

    @contextmanager
    def activity(self, text: str) -> Generator[None]:
        """Show inert ``text`` as the current activity."""
        self.renderer.set_activity(text)
        try:
            yield
        finally:
            self.renderer.set_activity("")


async def leave(context: JexidaContext, _: str) -> None:
    context.ui.leave()


async def show_help(context: JexidaContext, _: str) -> None:
    rows = [
        ("anything else", "goes to the model; none of its commands runs without your approval"),
        ("Alt+Enter", "a new line"),
        ("Esc, Ctrl+C", "stop what runs; Ctrl+C again or Ctrl+D leaves"),
    ]
    context.say(COMMANDS.help(rows, context.ui.columns()))


async def open_shell(context: JexidaContext, _: str) -> None:
    command = await context.agent.host.shell()
    code = await run_interactive(command, context.ui)
    context.say(f"The shell on {context.agent.host.name} ended with exit code {code}.")


async def run_command(context: JexidaContext, command: str) -> None:
    """Run the user's own command, and show its output as it arrives."""
    if not command:
        raise UsageError("/cmd needs a command: /cmd df -h")
    renderer, done = context.renderer, None

    async def on_output(piece: str) -> None:
        renderer.add_output(piece)

    renderer.start_command(command)
    try:
        done = await context.agent.host.run(command, on_output=on_output)
        context.agent.on_command_end(done)
    finally:
        renderer.end_command(done)
    context.show_status()


async def list_routines(context: JexidaContext, _: str) -> None:
    routines = context.agent.routines
    if not routines:
        context.say("There are no routines. Define them in the configuration file, under [routines].")
        return
    rows = [
        (routine.usage, " · ".join(filter(None, map(one_line, (routine.description, routine.template.text)))))
        for routine in routines.values()
    ]
    context.say(format_columns(rows, context.ui.columns()))


async def run_routine(context: JexidaContext, typed: str) -> None:
    routines = context.agent.routines
    match = split(typed, routines)
    if match is None:
        raise _no_routine(typed, routines)
    routine, rest = match
    values = routine.values(rest)
    for name in routine.missing(values):
        values[name] = await _ask_value(context, routine, name)
    try:
        command = routine.template.fill(values)
    except ValueError as error:
        raise UsageError(f"Nothing was run: {error}.") from error
    await run_command(context, command)


def complete_routine(routines: Routines, typed: str) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Names of routines, and behind a complete one the variables that have no value yet."""
    yield typed, {name: routine.description or routine.template.text for name, routine in routines.items()}
    match = split(typed, routines)
    if match and match[1]:
        *before, last = match[1].split(" ")
        yield (
            last,
            {
                f"{name}=": "" if default is None else f"default: {default}"
                for name, default in match[0].template.variables
                if not any(word.startswith(f"{name}=") for word in before)
            },
        )


def _no_routine(typed: str, routines: Routines) -> UsageError:
    if not typed:
        return UsageError("/run needs the name of a routine; /routines lists them.")
    names = closest(typed, routines) or closest(typed.split(maxsplit=1)[0], routines)
    hint = did_you_mean("/run ", names)
    return UsageError(f"There is no routine {one_line(typed, 60)}.{hint} /routines lists them.")


async def _ask_value(context: JexidaContext, routine: Routine, name: str) -> str:
    """Ask the user for the value of a variable. Raises ``UsageError`` if there is none."""
    ask = context.agent.confirmation.ask
    if ask is None:
        raise UsageError(f"Nothing was run: {name} has no value. Usage: {routine.usage}")
    value = await ask(f"{name} of {one_line(routine.name, 40)}: ")
    if not value:
        raise UsageError(f'Nothing was run: {name} has no value. For an empty one, write {name}="".')
    return value


async def choose_model(context: JexidaContext, name: str) -> None:
    agent = context.agent
    if not name:
        with context.activity("listing models"):
            names = await agent.list_models()
        context.say(_format_models(names, agent.model, context.ui.columns()))
        return
    try:
        with context.activity("checking the model"):
            await agent.backend.check(name)
    except ModelMissing as missing:
        if not await pull_model(context, name):
            context.say(f"{missing}\n{one_line(agent.model)} stays in use.")
            return
    agent.set_model(name)
    context.say(f"The next prompt goes to {one_line(name)}.")
    context.show_status()


def _format_models(names: Sequence[str], used: str, columns: int) -> str:
    rows = [(one_line(name), "in use" if name in {used, full_name(used)} else "") for name in names]
    if not any(note for _, note in rows):
        rows.append((one_line(used), "in use, but not listed"))
    return format_columns(rows, columns)


async def pull_model(context: JexidaContext, model: str) -> bool:
    """Ask whether to download a missing model to the host, and do it; False if it is still missing."""
    ask, pull = context.agent.confirmation.ask, context.agent.backend.pull
    if ask is None or pull is None:
        return False
    question = f"Download {one_line(model, 60)} there now? y yes · n no (Enter): "
    if (await ask(question, interrupting=True) or "").strip().lower() not in {"y", "yes"}:
        return False

    async def on_progress(text: str) -> None:
        context.renderer.set_activity(f"{one_line(model, 40)}: {one_line(text, 60)}")

    with context.activity(f"{one_line(model, 40)}: downloading"):
        await pull(model, on_progress)
    context.say(f"{one_line(model, 60)} was downloaded.")
    return True


async def undo(context: JexidaContext, _: str) -> None:
    with context.activity("scanning for changes"):
        project = await context.agent.host.project()
        plan = await project.undo() if project else None
    if project is None or plan is None:
        context.say(NOT_RECORDED)
    else:
        from newel.terminal.review.commands import conversation_ui
        from newel.terminal.review.run_format import roll_back

        await roll_back(project, plan, conversation_ui(context.ui, context.agent.session))


async def clear(context: JexidaContext, _: str) -> None:
    context.ui.clear()
    context.renderer.reset()
    context.show_header()


COMMANDS: CommandTable[JexidaContext] = CommandTable(
    SlashCommand("exit", "", "quit", leave, at_once=True),
    SlashCommand("help", "", "list the commands", show_help),
    SlashCommand("shell", "", "open an interactive shell on the host", open_shell),
    SlashCommand("cmd", "COMMAND", "run a command on the host, without asking", run_command),
    SlashCommand("routines", "", "list the routines", list_routines),
    SlashCommand("run", "ROUTINE [VALUES]", "run a routine on the host, without asking", run_routine),
    SlashCommand("model", "[NAME]", "list the models, or switch to another", choose_model),
    SlashCommand("undo", "", "undo the changes of the last recorded prompt", undo),
    SlashCommand("clear", "", "clear the screen", clear),
    aliases={"quit": "exit"},
    words={"exit": "exit", "quit": "exit", ":q": "exit", "help": "help", "?": "help"},
)


RESET: Final = (
    "\x1b[0m\x1b[?1047l\x1b[?25h\x1b[?7h\x1b[?1l\x1b>"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b(B"
)
"""Colours, the other screen, the cursor, wrapping, keys, mouse, focus, pasting, characters: as a terminal begins."""


async def run_interactive(command: Sequence[str], ui: TerminalUI) -> int:
    """Give the terminal to a program until it ends, however that is; returns its exit code, 128 + N if signal N ended it.
    Cancelled, it is killed. Raises ``UsageError`` where there is no terminal.
    """
    import termios

    fd = sys.stdin.fileno()
    if not (os.isatty(fd) and sys.stdout.isatty()):
        raise UsageError("/shell needs a terminal. Use /cmd COMMAND here.")
    environ = {"TERM": os.environ.get("TERM", "dumb")}
    async with ui.suspend():
        before = termios.tcgetattr(fd)
        try:
            process = await anyio.open_process(
                command, stdin=None, stdout=None, stderr=None, env=child_env(os.environ, environ)
            )
            try:
                code = await process.wait()
            except BaseException:
                process.kill()
                raise
        finally:
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
            sys.stdout.write(RESET)
            sys.stdout.flush()
    return 128 - code if code < 0 else code
