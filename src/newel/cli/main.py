"""The entry points of the commands. They only parse: ``newel.app`` composes what runs."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from newel.agent.errors import NewelError, UsageError
from newel.cli import MODULES, help_text
from newel.cli.aliases import canonical
from newel.cli.interruption import Interruption
from newel.config.secret_files import read_secret_files
from newel.terminal.stdout import text_stdout
from newel.workspace.secrecy import hide_secrets

if TYPE_CHECKING:
    from newel.terminal.ui.echo import EchoSuppressor

USAGE_ERROR, FAILED, INTERRUPTED = 2, 1, 130
READER_GONE = 141
"""128 + SIGPIPE, as for `git log | head`: the reader has what it wants, and the command may not be done."""

NOT_HERE = """\
Newel runs on Linux and macOS, and on Windows in WSL: its process groups, file locks and shared SSH connections are not
Windows' own. Run `wsl --install`, and then Newel in there, best in Windows Terminal."""

STDOUT_CLOSED = "Standard output is closed, so the answer was not printed. To discard it: > /dev/null"

EPILOG = """\
Run `newel help COMMAND` for the options of a command. To send the name of a
command as a prompt: newel -- demo
In a terminal, PROMPT begins a conversation; with -p, and in scripts, Newel
prints the answer and exits. Piped standard input is appended to the prompt.
If standard output is not a terminal, only the answer is written to it.
exit codes: 0 success, 1 failed, incomplete or limit reached, 2 wrong usage,
130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """``newel``."""
    arguments = canonical(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"] and (
        len(arguments) == 1 or (arguments[1] in MODULES and len(arguments) == 2)
    ):
        arguments = [*arguments[1:], "--help"]
    if arguments and arguments[0] in MODULES:
        return _run_safely(lambda: _command(arguments[0], arguments[1:]))
    return _run_safely(lambda: _agent("newel", arguments))


def coding_agent() -> int:
    """``coding-agent``: another name of ``newel``."""
    return _run_safely(lambda: _agent("coding-agent", sys.argv[1:]))


def lsimons_agent() -> int:
    """``lsimons-agent``: the minimal conversation."""
    return _run_safely(lambda: _agent("lsimons-agent", sys.argv[1:], simple=True))


def go() -> int:
    """``go``: the workbench."""
    return _web("go", 8101)


def jexida() -> int:
    """``jexida``: the agent for one host."""
    return _run_safely(lambda: _command("jexida", sys.argv[1:]))


def lsimons_agent_web() -> int:
    """``lsimons-agent-web``: the workbench on another port."""
    return _web("lsimons-agent-web", 8765)


def _web(name: str, port: int) -> int:
    def serve() -> int:
        from newel.cli.web import command_web

        return command_web(sys.argv[1:], name=name, port=port)

    return _run_safely(serve)


def _run_safely(body: Callable[[], int]) -> int:
    """Run a command and return its exit code. After Ctrl+C in a terminal the process ends by SIGINT instead."""
    interruption = Interruption()
    code = _exit_code(body)
    if code == INTERRUPTED:
        interruption.note()
    return code


def _exit_code(body: Callable[[], int]) -> int:
    """Run a command and turn its errors into a message and an exit code, never a traceback."""
    # The imports of a start create 30,000 objects and hardly any garbage: at the default of 700, collecting takes a twentieth of it.
    gc.set_threshold(50_000)
    is_stdout_closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by the parent (`<&-`). Take the free descriptor, so that none of our files gets it.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 — open until exit
    if sys.platform == "win32":
        return _print_error(NOT_HERE, FAILED)
    if sys.stdout.errors == "strict":
        text_stdout()  # in a Latin-1 locale, the first `…` would end the command
    hide_secrets()
    _close_home()
    try:
        read_secret_files(os.environ)
        code = body()
        sys.stdout.flush()
        if is_stdout_closed and code == 0:
            return _print_error(STDOUT_CLOSED, FAILED)
        return code  # noqa: TRY300 — flushing can fail too
    except UsageError as error:
        return _print_error(error, USAGE_ERROR)
    except NewelError as error:
        return _print_error(error, FAILED)
    except KeyboardInterrupt:
        # The terminal has echoed ^C behind a question: the shell's prompt would follow on the same line.
        if sys.stderr.isatty():
            print(file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        # An event loop that could not be created complains when it is collected.
        sys.unraisablehook = lambda _: None
        # Standard output has gone or is full: discard what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return READER_GONE if isinstance(error, BrokenPipeError) else _print_error(_explain(error), FAILED)
    finally:
        try:
            sys.stderr.flush()
        except OSError:  # else Python's own last flush changes the exit code
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _explain(error: OSError) -> str:
    from newel.agent.formatting import describe_error

    try:
        Path.cwd()
    except OSError:
        return "The working folder no longer exists. Change to another, or use --cwd DIR."
    return describe_error(error)


def _close_home() -> None:
    """Make Newel's folder private: it holds conversations and contents of files. A folder that another user owns, or that is
    not Newel's alone, is left unchanged.
    """
    user = Path(os.environ.get("HOME") or "/")
    home = Path(os.environ.get("NEWEL_HOME") or user / ".newel")
    with contextlib.suppress(OSError):
        info = home.stat()
        is_open = info.st_uid == os.geteuid() and info.st_mode & 0o077
        is_newels = any((home / name).is_dir() for name in ("sessions", "review", "jobs"))
        if is_open and is_newels and home.resolve() != user.resolve():
            home.chmod(0o700)


def _print_error(error: Exception | str, code: int) -> int:
    from newel.text.sanitize import sanitize

    with contextlib.suppress(OSError):
        print(f"newel: {sanitize(str(error))}", file=sys.stderr)
    return code


def _agent(name: str, arguments: Sequence[str], *, simple: bool = False) -> int:
    from newel.terminal.ui.echo import EchoSuppressor

    echo_suppressor = EchoSuppressor()
    try:
        if _may_converse(arguments):
            echo_suppressor.begin()
        return _agent_in(name, arguments, echo_suppressor, simple=simple)
    finally:
        echo_suppressor.end()


def _may_converse(arguments: Sequence[str]) -> bool:
    """Whether a conversation may follow. To know for sure takes imports so slow that the user may type meanwhile."""
    return all(word.startswith("-") for word in arguments[:1])


def _agent_in(name: str, arguments: Sequence[str], echo_suppressor: EchoSuppressor, *, simple: bool) -> int:
    from newel.app.agent_factory import AgentOptions
    from newel.app.terminal import run_agent
    from newel.cli.options import NOT_FOR_SIMPLE, check_formats, check_session_options, flags_of, folder

    if name == "newel" and arguments[1:] in (["-h"], ["--help"]) and _may_be_command(arguments):
        from newel.cli.suggestions import refuse_help

        refuse_help(arguments[0])
    parser = agent_parser(name)
    if any(word.startswith("-c") for word in arguments):
        from newel.cli.suggestions import check_override

        check_override(arguments)
    parsed = parser.parse_args(_with_unnamed_worktree(arguments))
    check_session_options(parser, parsed)
    if parsed.worktree is not None and (parsed.continue_ or parsed.session):
        parser.error("--worktree begins a session, so it cannot be combined with --continue and --session")
    prompts = _prompts(parsed.words, parsed.then)
    if simple and (
        prompts or parsed.json or parsed.renderer or parsed.print or parsed.quiet or parsed.output
    ):
        parser.error(NOT_FOR_SIMPLE)
    check_formats(parser, parsed, has_prompts=bool(prompts), simple=simple)
    if name == "newel" and "--" not in arguments and _may_be_command(parsed.words):
        from newel.cli.suggestions import check_words

        check_words(parsed.words)
    if parsed.model and not prompts and len(parsed.model.split()) > 1:
        # Elsewhere -m is the message; no model's name has several words.
        words = shlex.quote(parsed.model)
        parser.error(f"-m is the model. The prompt needs no option: newel {words}")
    if parsed.print and not prompts and sys.stdin.isatty():
        parser.error("--print needs a prompt")
    options = AgentOptions(
        flags=flags_of(
            parsed,
            renderer="json" if parsed.json else parsed.renderer,
            max_turns=parsed.max_turns,
            max_cost=parsed.max_cost,
        ),
        prompts=prompts,
        stays=_stays(parsed, prompts),
        quiet=parsed.quiet,
        answers_to=parsed.output,
        output_format=parsed.output_format,
        input_format=parsed.input_format or "text",
        partial_messages=parsed.include_partial_messages,
        asks_program=parsed.permission_prompt_tool is not None,
        schema=parsed.schema,
        tools=parsed.tools,
        cwd=folder(parser, parsed.cwd),
        worktree=parsed.worktree,
        continue_=parsed.continue_,
        session=parsed.session,
        ephemeral=parsed.ephemeral,
        system_prompt=parsed.system_prompt,
        simple=simple,
    )
    return run_agent(options, echo_suppressor)


def _may_be_command(words: Sequence[str]) -> bool:
    """Whether words could be meant as a command of a shell or a conversation, which they are checked for."""
    return any(word.isalpha() or word.startswith("/") for word in words[:1])


def _with_unnamed_worktree(arguments: Sequence[str]) -> list[str]:
    """The arguments, where the word after ``--worktree`` is no name: it is the prompt. A name follows an equals sign."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = ["--worktree=" if word == "--worktree" else word for word in arguments[:end]]
    return [*options, *arguments[end:]]


def _stays(parsed: argparse.Namespace, prompts: Sequence[str]) -> bool:
    """Whether the prompt may begin a conversation: one prompt, and nothing that is about the output of a single run."""
    is_about_output = parsed.print or parsed.quiet or parsed.json or parsed.then
    takes_output = parsed.output or parsed.schema or parsed.output_format or parsed.renderer
    return len(prompts) == 1 and not is_about_output and not takes_output


def _prompts(arguments: Sequence[str], then: Sequence[str]) -> list[str]:
    """Join words to one prompt, unless each was quoted and has several words."""
    several = all(any(map(str.isspace, word.strip())) for word in arguments)
    return [
        prompt for prompt in [*(arguments if several else [" ".join(arguments)]), *then] if prompt.strip()
    ]


def agent_parser(name: str) -> argparse.ArgumentParser:
    """The options of ``newel``, ``coding-agent`` and ``lsimons-agent``."""
    from newel.cli.options import (
        Parser,
        add_format_options,
        add_model_options,
        add_run_options,
        add_session_options,
    )

    parser = Parser(
        prog=name,
        usage=f"{name} [OPTIONS] [PROMPT]" + ("\n       newel COMMAND …" if name == "newel" else ""),
        description="A coding agent: it reads and edits files and runs commands."
        + (f"\n\n{help_text()}" if name == "newel" else ""),
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="the task; unquoted words make one prompt")
    add(
        "--then",
        action="append",
        default=[],
        metavar="PROMPT",
        help="another task after that; can be repeated",
    )
    add_session_options(parser)
    add(
        "--worktree",
        nargs="?",
        metavar="=NAME",
        help="work in a new git worktree (--worktree=NAME names it); removed if nothing changes",
    )
    add_model_options(parser)
    add_run_options(parser)
    add(
        "--renderer",
        choices=["rich", "console", "json"],
        help="how to show a run; console is plain text, for logs",
    )
    add("--json", action="store_true", help="read and write JSON lines; same as --renderer json")
    add_format_options(parser)
    add(
        "-p",
        "--print",
        action="store_true",
        help="run the prompt, print the answer and exit, also in a terminal",
    )
    add("-q", "--quiet", action="store_true", help="print only the answer and errors")
    add("-o", "--output", type=Path, metavar="FILE", help="also write the answer to FILE")
    return _without_output(parser) if name == "lsimons-agent" else parser


def _without_output(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The help of the minimal conversation lists only what it takes; the rest is refused with a message."""
    parser.usage = f"{parser.prog} [OPTIONS]"
    parser.description = "A minimal conversation with the coding agent, in plain text."
    parser.epilog = "`newel --help` has more: prompts, scripts and commands."
    from newel.cli.options import OUTPUT_OPTIONS

    for action in parser._actions:  # noqa: SLF001 — argparse has no other list of them
        if action.dest in OUTPUT_OPTIONS:
            action.help = argparse.SUPPRESS
    return parser


def _command(name: str, arguments: Sequence[str]) -> int:
    from newel.cli import run

    return run(name, arguments)


if __name__ == "__main__":
    sys.exit(main())
