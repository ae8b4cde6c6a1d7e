"""What ``/name`` does: one row for each command. None of it is sent to the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from newel.agent.errors import UsageError
from newel.providers.ollama.model_info import ModelMissing, full_name
from newel.terminal.jexida.agent import JexidaAgent
from newel.terminal.jexida.renderer import PanelRenderer
from newel.terminal.jexida.routines import Routine, Routines, split
from newel.terminal.jexida.status import StatusLine
from newel.terminal.ui.terminal_ui import TerminalUI
from newel.text.format import format_columns, one_line

ASKING = "asking for the models"
NOT_RECORDED = (
    "What commands change is not recorded here: that needs a folder to look at, [connection] directory in the settings "
    "or --directory, and no [review] record = false."
)


class JexidaContext(NamedTuple):
    """What commands work with. ``title`` is the program's name and version."""

    talk: JexidaAgent
    desk: TerminalUI
    renderer: PanelRenderer
    title: str

    def status(self) -> StatusLine:
        talk = self.talk
        return StatusLine(talk.host, talk.model, talk.path, talk.exit_code)

    def header(self) -> None:
        facts = [self.title, one_line(self.talk.host.name), one_line(self.talk.model), "/help"]
        self.renderer.note(" · ".join(facts))
        self.renderer.status(self.status())

    @contextmanager
    def doing(self, words: str) -> Generator[None]:
        """What goes on inside, in inert words, is told while it does."""
        self.renderer.do(words)
        try:
            yield
        finally:
            self.renderer.do("")


class MetaCommand(NamedTuple):
    name: str
    arguments: str
    help: str
    run: Callable[[JexidaContext, str], Awaitable[None]]


async def leave(context: JexidaContext, _: str) -> None:
    context.desk.leave()


async def show_help(context: JexidaContext, _: str) -> None:
    rows = [(f"/{command.name} {command.arguments}".strip(), command.help) for command in COMMANDS]
    rows += [
        ("anything else", "goes to the model; no command of its runs without your yes"),
        ("Alt+Enter", "a new line"),
        ("Esc, Ctrl+C", "stop what runs; Ctrl+C again or Ctrl+D leaves"),
    ]
    context.renderer.note(format_columns(rows, context.desk.columns()))


async def shell(context: JexidaContext, _: str) -> None:
    from newel.terminal.jexida.pty_session import run_interactive

    command = await context.talk.host.shell()
    code = await run_interactive(command, context.desk)
    context.renderer.note(f"The shell on {context.talk.host.name} ended with exit code {code}.")


async def run_remote(context: JexidaContext, command: str) -> None:
    if command:
        await _remote(context, command)
    else:
        context.renderer.note("Error: /cmd needs a command: /cmd df -h")


async def list_routines(context: JexidaContext, _: str) -> None:
    routines = context.talk.routines
    if not routines:
        context.renderer.note("There are no routines. They stand in the configuration, under [routines].")
        return
    rows = [
        (
            routine.usage,
            " · ".join(part for part in map(one_line, (routine.description, routine.template.text)) if part),
        )
        for routine in routines.values()
    ]
    context.renderer.note(format_columns(rows, context.desk.columns()))


async def run_routine(context: JexidaContext, typed: str) -> None:
    found = split(typed, context.talk.routines)
    if found is None:
        raise UsageError(_no_routine(typed, context.talk.routines))
    routine, rest = found
    values = routine.values(rest)
    for name in routine.missing(values):
        values[name] = await _asked_for(context, routine, name)
    try:
        command = routine.template.fill(values)
    except ValueError as error:
        raise UsageError(f"Nothing was run: {error}.") from error
    await _remote(context, command)


def _no_routine(typed: str, routines: Routines) -> str:
    if not typed:
        return "/run needs the name of a routine; /routines lists them."
    near = closest(typed, routines) or closest(typed.split(maxsplit=1)[0], routines)
    return f"there is no routine {one_line(typed, 60)}.{_meant('/run ', near)} /routines lists them."


async def _asked_for(context: JexidaContext, routine: Routine, name: str) -> str:
    """The value of a variable, from the person. Raises ``UsageError`` where there is none."""
    ask = context.talk.confirmation.ask
    if ask is None:
        raise UsageError(f"Nothing was run: {name} has no value. Usage: {routine.usage}")
    value = await ask(f"{name} of {one_line(routine.name, 40)}: ")
    if not value:
        raise UsageError(f'Nothing was run: {name} has no value. One that is empty is written {name}="".')
    return value


async def choose_model(context: JexidaContext, name: str) -> None:
    talk = context.talk
    if not name:
        with context.doing(ASKING):
            names = await talk.list_models()
        context.renderer.note(_models(names, talk.model, context.desk.columns()))
        return
    try:
        with context.doing(ASKING):
            await talk.path.check(name)
    except ModelMissing as missing:
        if not await pull(context, name):
            context.renderer.note(f"{missing}\n{one_line(talk.model)} stays in use.")
            return
    talk.set_model(name)
    context.renderer.note(f"The next prompt goes to {one_line(name)}.")
    context.renderer.status(context.status())


def _models(names: Sequence[str], used: str, columns: int) -> str:
    rows = [(one_line(name), "in use" if name in {used, full_name(used)} else "") for name in names]
    if not any(words for _, words in rows):
        rows.append((one_line(used), "in use, but not listed"))
    return format_columns(rows, columns)


async def undo(context: JexidaContext, _: str) -> None:
    with context.doing("looking at what was changed"):
        project = await context.talk.host.project()
        plan = await project.undo() if project else None
    if project is None or plan is None:
        context.renderer.note(NOT_RECORDED)
    else:
        from newel.terminal.review.commands import take_back_here

        await take_back_here(context.desk, project, plan)


async def clear(context: JexidaContext, _: str) -> None:
    context.desk.clear()
    context.renderer.begin_anew()
    context.header()


async def pull(context: JexidaContext, model: str) -> bool:
    """Ask whether a model that the host lacks may be downloaded there, and do it; whether it is there now."""
    ask, download = context.talk.confirmation.ask, context.talk.path.pull
    if ask is None or download is None:
        return False
    question = f"Download {one_line(model, 60)} there now? y yes · n no (Enter): "
    if (await ask(question, interrupting=True) or "").strip().lower() not in {"y", "yes"}:
        return False

    async def tell(words: str) -> None:
        context.renderer.do(f"{one_line(model, 40)}: {one_line(words, 60)}")

    with context.doing(f"{one_line(model, 40)}: downloading"):
        await download(model, tell)
    context.renderer.note(f"{one_line(model, 60)} is there now.")
    return True


COMMANDS = (
    MetaCommand("exit", "", "quit", leave),
    MetaCommand("help", "", "show this", show_help),
    MetaCommand("shell", "", "open an interactive shell on the host", shell),
    MetaCommand("cmd", "COMMAND", "run a command on the host, at once", run_remote),
    MetaCommand("routines", "", "list the routines", list_routines),
    MetaCommand("run", "ROUTINE [VALUES]", "run a routine on the host, at once", run_routine),
    MetaCommand("model", "[NAME]", "list the models, or have another one answer", choose_model),
    MetaCommand("undo", "", "undo the changes of the last recorded prompt", undo),
    MetaCommand("clear", "", "clear the screen", clear),
)
BY_NAME = {command.name: command for command in COMMANDS}


def unknown(name: str) -> str:
    """What to say of a command that is none."""
    return f"Error: there is no command /{one_line(name, 60)}.{_meant('/', closest(name, BY_NAME))} /help lists them."


def closest(name: str, names: Iterable[str]) -> list[str]:
    """Names that may have been meant, the likeliest first."""
    from difflib import get_close_matches

    return get_close_matches(name[:60], list(names), 3, 0.5)


def _meant(prefix: str, near: list[str]) -> str:
    return f" Did you mean {' or '.join(prefix + one_line(each) for each in near)}?" if near else ""


async def _remote(context: JexidaContext, command: str) -> None:
    """Run the user's own command, and show what it prints as it comes."""
    renderer, done = context.renderer, None

    async def on_output(piece: str) -> None:
        renderer.add(piece)

    renderer.begin(command)
    try:
        done = await context.talk.host.run(command, on_output=on_output)
        context.talk.note(done)
    finally:
        renderer.finish(done)
    renderer.status(context.status())
