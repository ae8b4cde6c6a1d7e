"""Composes the agent with a front end: the terminal, JSON mode or print mode."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from newel.agent.errors import ConfigError, UsageError
from newel.app.agent_factory import AgentOptions, open_agent
from newel.app.extra_tools import IN_TERMINAL, for_conversation
from newel.app.garbage import AT_START, AT_WORK, WHILE_TYPING, ModuleFreezer
from newel.app.held_answers import hold
from newel.app.model_resolver import NoModelChosen
from newel.app.project_notices import warn_of_project
from newel.app.sandbox_choice import warn_of_sandbox
from newel.config.keymap import Keymap
from newel.config.settings import Settings, load_settings
from newel.storage.files import nearest_above
from newel.terminal.commands import shell_command_for
from newel.terminal.ui.echo import EchoSuppressor, can_draw
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent
    from newel.terminal.print_mode import AnswerOutput
    from newel.terminal.prompt_record import HeldAnswer, RunReporter
    from newel.terminal.renderers.base import Renderer
    from newel.terminal.stream_json.renderer import StreamJsonRenderer
    from newel.terminal.ui.approval import Approver
    from newel.text.json_schema import AnswerSchema


def run_agent(options: AgentOptions, echo_suppressor: EchoSuppressor) -> int:
    """Run the command line; returns the exit code. ``echo_suppressor`` hides what is typed before the prompt is drawn, and ends if none
    will be.
    """

    def load() -> Settings:
        return load_settings(options.flags, cwd=options.cwd, environ=os.environ)

    gc.set_threshold(AT_START)
    settings = load()
    in_home = settings.host is None and Path.home().resolve().is_relative_to(settings.cwd)
    if in_home or settings.ignored is not None or settings.endpoint is None:
        from newel.app.trusting import ask_about_home, ask_for_trust, can_ask

        if can_ask(settings):
            echo_suppressor.end()
            if in_home:
                ask_about_home(settings.cwd)
            settings = ask_for_trust(settings, load)
    try:
        return _run_in_place(settings, options, echo_suppressor, asks=True)
    except NoModelChosen as error:
        from newel.app.trusting import can_ask

        if not error.names or settings.model is not None or not can_ask(settings):
            raise
        from newel.app.setup import choose_listed_model

        echo_suppressor.end()
        settings = choose_listed_model(settings, error.names)
    return _run_in_place(settings, options, echo_suppressor, asks=False)


def _run_in_place(
    settings: Settings, options: AgentOptions, echo_suppressor: EchoSuppressor, *, asks: bool
) -> int:
    if options.worktree is None:
        return _run_here(settings, options, echo_suppressor, asks=asks)
    from newel.app.conversation_worktree import in_worktree

    with in_worktree(settings, options.worktree) as there:
        return _run_here(there, options, echo_suppressor, asks=asks)


def _run_here(
    settings: Settings, options: AgentOptions, echo_suppressor: EchoSuppressor, *, asks: bool
) -> int:
    """``asks``: whether the user is asked about what the project brings."""
    import anyio

    if asks and _is_conversation(settings, options) and settings.host is None:
        _ask_about_project(settings, echo_suppressor)
    if _will_draw_prompt(settings, options):
        echo_suppressor.begin()
    else:
        echo_suppressor.end()
    return anyio.run(run_with, settings, options)


def _ask_about_project(settings: Settings, echo_suppressor: EchoSuppressor) -> None:
    from newel.app.project_trust import undecided

    if items := undecided(settings):
        from newel.app.trusting import ask_about_project, can_ask
        from newel.workspace.process.process_mark import inherited_rights

        if can_ask(settings) and inherited_rights() is None:  # an agent's command may have a terminal, too
            echo_suppressor.end()
            ask_about_project(settings.cwd, items)


async def run_with(settings: Settings, options: AgentOptions) -> int:
    """Choose the front end, build the agent, and let the one run the other."""
    lines_in = options.input_format == "stream-json"
    is_task = bool(options.prompts) and not _stays(settings, options)
    interactive = sys.stdin.isatty() and not is_task and not options.simple and not lines_in
    screen = _screen(settings, options)
    json_in = (screen == "json" and not options.prompts and not options.simple) or lines_in
    piped = "" if sys.stdin.isatty() or json_in or options.simple else await _read_stdin()
    _check_options(options, interactive=interactive, json_in=json_in, piped=piped)
    schema = _schema(options)
    watched = sys.stdin.isatty() and sys.stdout.isatty() and screen in {"rich", "console"}
    answered = options.asks_program if lines_in else json_in
    approver = _approver() if interactive or answered or watched else None
    elicit = approver.elicit if approver else None
    warn_of_project(settings)
    format_command = shell_command_for(settings.host)
    if interactive and not json_in:
        settings = for_conversation(settings, IN_TERMINAL)
    async with open_agent(
        settings, options, approver, elicit, wait_for_tools=not interactive or bool(options.prompts)
    ) as agent:
        gc.freeze()  # all that is loaded stays: later collections need not look at it
        gc.set_threshold(AT_WORK)
        warn_of_sandbox("" if interactive else agent.info.sandbox_problem)  # where no header says so
        if options.continue_ and not agent.session.has_data():
            print(f"newel: {_no_session(settings)}", file=sys.stderr)  # noqa: T201 — for the user
        if options.simple:
            from newel.terminal.simple_repl import run_simple_repl
            from newel.terminal.stdout import text_stdout

            return await run_simple_repl(
                agent, sys.stdin.fileno(), text_stdout(), approver=approver, format_command=format_command
            )
        held = None if schema is None else hold(agent, schema)
        if lines_in:
            from newel.terminal.stream_json.server import run_stream_json

            return await run_stream_json(
                agent, sys.stdin.fileno(), _stream_json(settings, options), approver=approver, held=held
            )
        if json_in:
            from newel.terminal.rpc.server import run_json

            return await run_json(
                agent, sys.stdin.fileno(), sys.stdout.buffer, approver=_require_approver(approver), held=held
            )
        if interactive:
            return await _converse(settings, options, agent, screen, _require_approver(approver))
        return await _run_prompts(
            settings, options, agent, screen=screen, piped=piped, approver=approver, held=held
        )


def _no_session(settings: Settings) -> str:
    """The message for a folder in which nothing can be continued; it names one above where something can."""
    begins = "This folder has no earlier session. A new one begins."
    above = None if settings.host else nearest_above(settings.home / "sessions", settings.cwd)
    if above is None:
        return begins
    import shlex

    return f"{begins} The latest of {escape_line(str(above))}: `newel --continue --cwd {shlex.quote(escape_line(str(above)))}`."


def _check_options(options: AgentOptions, *, interactive: bool, json_in: bool, piped: str) -> None:
    """Raises ``UsageError`` for options that do not go together, and where there is nothing to do."""
    if not (interactive or json_in or options.simple or options.prompts or piped.strip()):
        raise UsageError(
            "There is nothing to do: the prompt is empty. Give one, or start Newel in a terminal."
        )
    if (options.quiet or options.answers_to) and (interactive or json_in):
        raise UsageError("--quiet and --output are for a prompt on the command line.")
    if interactive and not json_in and (options.output_format or options.schema):
        raise UsageError(
            "--output-format and --schema are for a prompt on the command line or standard input."
        )


async def _converse(
    settings: Settings, options: AgentOptions, agent: CodingAgent, screen: str, approver: Approver
) -> int:
    from newel.app.greeting import header
    from newel.app.theme import chosen_theme
    from newel.session.typed_prompt import Prompt
    from newel.terminal.repl.coding_repl import run_repl

    gc.set_threshold(WHILE_TYPING)
    gc.callbacks.append(ModuleFreezer())
    theme, warnings = chosen_theme(settings.terminal.theme, settings.home)
    return await run_repl(
        agent,
        home=settings.home,
        approver=approver,
        screen="console" if screen == "console" else "rich",
        header="\n".join(
            [
                header(agent, settings, Keymap(settings.terminal.keys)),
                *(f"Warning: {line}" for line in warnings),
            ]
        ),
        first_prompts=[Prompt(text) for text in options.prompts],
        settings=settings.terminal,
        theme=theme,
        resumes_here=options.worktree is None,
    )


async def _run_prompts(
    settings: Settings,
    options: AgentOptions,
    agent: CodingAgent,
    *,
    screen: str,
    piped: str,
    approver: Approver | None,
    held: HeldAnswer | None,
) -> int:
    from newel.session.typed_prompt import Prompt
    from newel.terminal.print_mode import run_prompts

    prompts = [Prompt(text) for text in options.prompts] or [Prompt("")]
    prompts[0] = Prompt(prompts[0].typed, piped)
    renderer: Renderer
    report: RunReporter | None = None
    if screen == "json":
        from newel.terminal.renderers.json_renderer import JsonRenderer

        renderer = report = JsonRenderer(sys.stdout.buffer)
    elif screen == "stream-json":
        renderer = report = _stream_json(settings, options)
    else:
        renderer = _renderer(settings, screen, agent, options)
        if options.output_format == "json":
            from newel.terminal.stream_json.renderer import ResultPrinter

            report = ResultPrinter(sys.stdout.buffer)
    return await run_prompts(
        agent,
        prompts,
        renderer,
        approver=approver,
        format_command=shell_command_for(settings.host),
        answers=_answers(screen, options),
        report=report,
        held=held,
    )


def _screen(settings: Settings, options: AgentOptions) -> str:
    """``rich``, ``console``, ``json`` or ``stream-json``."""
    if options.output_format == "stream-json":
        return "stream-json"
    screen = settings.renderer or ("rich" if _can_draw() else "console")
    if options.output_format == "json" or (options.output_format == "text" and screen == "json"):
        return "console"
    is_plain = options.quiet or options.schema is not None  # standard output is only for the answer
    return "console" if is_plain and screen == "rich" else screen


def _schema(options: AgentOptions) -> AnswerSchema | None:
    if options.schema is None:
        return None
    from newel.text.json_schema import load_schema

    return load_schema(options.schema)


def _stream_json(settings: Settings, options: AgentOptions) -> StreamJsonRenderer:
    from newel.terminal.stream_json.renderer import StreamJsonRenderer

    has_key = settings.endpoint is not None and bool(settings.endpoint.api_key)
    return StreamJsonRenderer(
        sys.stdout.buffer, partial=options.partial_messages, key_source="user" if has_key else "none"
    )


def _is_conversation(settings: Settings, options: AgentOptions) -> bool:
    is_one_shot = bool(options.prompts) or bool(options.output_format)
    return not is_one_shot or _stays(settings, options)


def _will_draw_prompt(settings: Settings, options: AgentOptions) -> bool:
    is_drawn = not options.simple and settings.renderer in {None, "rich"} and can_draw()
    return is_drawn and _is_conversation(settings, options)


def _stays(settings: Settings, options: AgentOptions) -> bool:
    """Whether the prompts begin a conversation."""
    return options.stays and settings.renderer in {None, "rich"} and can_draw()


def _can_draw() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _approver() -> Approver:
    from newel.terminal.ui.approval import Approver

    return Approver()


def _require_approver(approver: Approver | None) -> Approver:
    assert approver is not None  # noqa: S101 — created wherever a user can answer
    return approver


def _is_report(options: AgentOptions) -> bool:
    """Whether standard output gets all events: it is a terminal, or the user wants a full log."""
    if options.output_format == "json" or options.schema is not None:
        return False
    asked_for = options.flags.renderer == "console" or options.echo
    return not options.quiet and (asked_for or sys.stdout.isatty())


def _answers(screen: str, options: AgentOptions) -> AnswerOutput:
    """Where answers go besides the screen."""
    from newel.terminal.print_mode import AnswerOutput
    from newel.terminal.stdout import text_stdout

    alone = screen == "console" and options.output_format != "json" and not _is_report(options)
    return AnswerOutput(text_stdout() if alone else None, options.answers_to)


def _renderer(settings: Settings, name: str, agent: CodingAgent, options: AgentOptions) -> Renderer:
    if name == "rich":
        from newel.app.theme import theme_for_output
        from newel.terminal.print_mode import errors_to
        from newel.terminal.renderers.rich import on_terminal
        from newel.terminal.stdout import LossySink

        if not sys.stderr.isatty():
            agent.subscribe(errors_to(LossySink(sys.stderr)))
        theme = theme_for_output(settings.terminal.theme, settings.home)
        return on_terminal(sys.stdout, theme=theme, window=agent.window)
    from newel.terminal.renderers.console import ConsoleRenderer
    from newel.terminal.stdout import LossySink, text_stdout

    if _is_report(options):
        return ConsoleRenderer(text_stdout(), echo=options.echo, errors=sys.stderr, window=agent.window)
    progress = Path(os.devnull).open("w") if options.quiet else sys.stderr  # noqa: SIM115 — open to the end
    return ConsoleRenderer(
        LossySink(progress), omit_answer=True, errors=LossySink(sys.stderr), window=agent.window
    )


MAX_PIPED = 16 * 1024 * 1024
"""Bytes of standard input in a prompt."""


async def _read_stdin() -> str:
    """Read standard input to its end. A pipe may stay open forever, so say what Newel is waiting for."""
    import select

    if not select.select([sys.stdin], [], [], 2.0)[0]:
        print("newel: waiting for standard input to end (close it with < /dev/null)", file=sys.stderr)  # noqa: T201 — for the user
    data = sys.stdin.buffer.read(MAX_PIPED + 1)
    if len(data) > MAX_PIPED:
        raise ConfigError(
            f"Standard input has more than {MAX_PIPED:,} bytes. Put it into a file, and name the file in the prompt."
        )
    return data.decode(errors="replace")
