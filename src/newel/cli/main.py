"""The commands a user types. Parsing only: what they do is composed in ``newel.app``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from newel.agent.errors import NewelError, UsageError
from newel.cli import MODULES, help_text
from newel.cli.parser import Parser
from newel.workspace.secrecy import hide_secrets

if TYPE_CHECKING:
    from newel.terminal.ui.echo import Unechoed

USAGE_ERROR, FAILED, INTERRUPTED = 2, 1, 130

NOT_HERE = """\
Newel runs on Linux and macOS, and on Windows in WSL: its process groups, file locks and shared SSH connections are not
Windows' own. Run `wsl --install`, and then Newel in there, best in Windows Terminal."""

UNHEARD = "Standard output is closed, so the answer was not printed. To discard it: > /dev/null"

EPILOG = """\
`newel help COMMAND` shows the options of a command. To send a prompt that is
the name of a command: newel -- demo
Piped standard input is added to the prompt. Where standard output is not a
terminal, it gets the answer alone.
exit codes: 0 done, 1 the run failed, reached a limit or could not do all,
2 wrong usage, 130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """``newel``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"] and (
        len(arguments) == 1 or (arguments[1] in MODULES and len(arguments) == 2)
    ):
        arguments = [*arguments[1:], "--help"]
    if arguments and arguments[0] in MODULES:
        return _guarded(lambda: _command(arguments[0], arguments[1:]))
    return _guarded(lambda: _agent("newel", arguments))


def coding_agent() -> int:
    """``coding-agent``: the same agent under its other name."""
    return _guarded(lambda: _agent("coding-agent", sys.argv[1:]))


def lsimons_agent() -> int:
    """``lsimons-agent``: the plainest of conversations."""
    return _guarded(lambda: _agent("lsimons-agent", sys.argv[1:], simple=True))


def go() -> int:
    """``go``: the workbench."""
    return _web("go", 8101)


def jexida() -> int:
    """``jexida``: the agent for one host."""
    return _guarded(lambda: _command("jexida", sys.argv[1:]))


def lsimons_agent_web() -> int:
    """``lsimons-agent-web``: the workbench on its other port."""
    return _web("lsimons-agent-web", 8765)


def _web(name: str, port: int) -> int:
    def serve() -> int:
        from newel.cli.web import command_web

        return command_web(sys.argv[1:], name=name, port=port)

    return _guarded(serve)


def _guarded(body: Callable[[], int]) -> int:
    """Whatever goes wrong on purpose is one message, never a traceback."""
    is_unheard = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by who started us (`<&-`). This takes the free number, so that no file of ours does.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 — open to the end
    if sys.platform == "win32":
        return _say(NOT_HERE, FAILED)
    hide_secrets()
    _close_home()
    try:
        code = body()
        sys.stdout.flush()
        if is_unheard and code == 0:
            return _say(UNHEARD, FAILED)
        return code  # noqa: TRY300 — the flush belongs to what can fail
    except UsageError as error:
        return _say(error, USAGE_ERROR)
    except NewelError as error:
        return _say(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # An event loop that could not be made complains when it is collected.
        sys.unraisablehook = lambda _: None
        # Standard output is gone or full: let what is still buffered go nowhere, without another word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED if isinstance(error, BrokenPipeError) else _say(_words(error), FAILED)
    finally:
        try:
            sys.stderr.flush()
        except OSError:  # or Python's own last flush changes the exit code
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _words(error: OSError) -> str:
    from newel.agent.formatting import describe_error

    try:
        Path.cwd()
    except OSError:
        return (
            "The working folder does not exist any more. Change to another one, or name one with --cwd DIR."
        )
    return describe_error(error)


def _close_home() -> None:
    """Keep other users out of Newel's folder, which holds what was said and what files held. One that is not this user's own, or
    holds more than that, is left as it is.
    """
    user = Path(os.environ.get("HOME") or "/")
    home = Path(os.environ.get("NEWEL_HOME") or user / ".newel")
    with contextlib.suppress(OSError):
        info = home.stat()
        is_open = info.st_uid == os.geteuid() and info.st_mode & 0o077
        is_newels = any((home / name).is_dir() for name in ("sessions", "review", "jobs"))
        if is_open and is_newels and home.resolve() != user.resolve():
            home.chmod(0o700)


def _say(error: Exception | str, code: int) -> int:
    from newel.text.sanitize import sanitize

    with contextlib.suppress(OSError):
        print(f"newel: {sanitize(str(error))}", file=sys.stderr)
    return code


def _agent(name: str, arguments: Sequence[str], *, simple: bool = False) -> int:
    from newel.terminal.ui.echo import Unechoed

    with Unechoed() if _may_converse(arguments) else nullcontext(Unechoed()) as unechoed:
        return _agent_in(name, arguments, unechoed, simple=simple)


def _may_converse(arguments: Sequence[str]) -> bool:
    """Whether there may be a prompt to type at. Loading what can tell takes long enough for a person to type something."""
    return all(word.startswith("-") for word in arguments[:1])


def _agent_in(name: str, arguments: Sequence[str], unechoed: Unechoed, *, simple: bool) -> int:
    from newel.app.agent_factory import AgentOptions
    from newel.app.terminal import run_agent
    from newel.cli.options import flags_of, folder

    parser = agent_parser(name)
    given = parser.parse_args(arguments)
    if given.version:
        from importlib.metadata import version

        print(f"newel {version('newel')}")
        return 0
    if sum([given.continue_, bool(given.session), given.ephemeral]) > 1:
        parser.error("--continue, --session and --ephemeral exclude each other")
    if given.json and given.quiet:
        parser.error("--json shows every event: it excludes --quiet")
    prompts = _prompts(given.words, given.then)
    if simple and (prompts or given.json or given.renderer or given.quiet or given.output):
        parser.error("this plainest conversation takes no prompts and has one screen: use newel")
    if name == "newel" and given.words and "--" not in arguments:
        from newel.cli.suggestions import check_words

        check_words(given.words)
    if given.print and not prompts and sys.stdin.isatty():
        parser.error("--print needs a prompt")
    options = AgentOptions(
        flags=flags_of(
            given,
            renderer="json" if given.json else given.renderer,
            max_turns=given.max_turns,
            max_cost=given.max_cost,
        ),
        prompts=prompts,
        quiet=given.quiet,
        answers_to=given.output,
        cwd=folder(parser, given.cwd),
        continue_=given.continue_,
        session=given.session,
        ephemeral=given.ephemeral,
        system_prompt=given.system_prompt,
        simple=simple,
    )
    return run_agent(options, unechoed)


def _prompts(words: Sequence[str], then: Sequence[str]) -> list[str]:
    """Words make one prompt together, unless they were quoted so that each is a text of several words."""
    several = all(any(map(str.isspace, word.strip())) for word in words)
    return [prompt for prompt in [*(words if several else [" ".join(words)]), *then] if prompt.strip()]


def agent_parser(name: str) -> argparse.ArgumentParser:
    """The options of ``newel``, ``coding-agent`` and ``lsimons-agent``."""
    from newel.cli.options import add_model_options, positive, positive_int

    parser = Parser(
        prog=name,
        usage=f"{name} [OPTIONS] [PROMPT]" + ("\n       newel COMMAND …" if name == "newel" else ""),
        description="A coding agent: say what you want, it reads, edits and runs."
        + (f"\n\n{help_text()}" if name == "newel" else ""),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="what to do; bare words are one prompt")
    add(
        "--then",
        action="append",
        default=[],
        metavar="PROMPT",
        help="what to do after that; can be repeated",
    )
    add(
        "-c",
        "--continue",
        dest="continue_",
        action="store_true",
        help="resume this folder's last session",
    )
    add("--session", metavar="ID", help="resume this session (its file, its id, or the beginning of its id)")
    add("--ephemeral", action="store_true", help="keep the session in memory only")
    add_model_options(parser)
    add(
        "--system-prompt",
        metavar="TEXT",
        help="replace the part of the system prompt that describes Newel's manner",
    )
    add("--max-turns", type=positive_int, metavar="N", help="at most this many requests for a prompt")
    add("--max-cost", type=positive, metavar="USD", help="at most this many US dollars for a prompt")
    add(
        "--renderer",
        choices=["rich", "console", "json"],
        help="how a run is shown; console: all of it as plain text, for logs",
    )
    add("--json", action="store_true", help="JSON lines in and out, the same as --renderer json")
    add("-p", "--print", action="store_true", help="run the prompt and exit, as newel PROMPT always does")
    add("-q", "--quiet", action="store_true", help="show nothing but the answer, and errors")
    add("-o", "--output", type=Path, metavar="FILE", help="write the answer to this file, too")
    add("--version", action="store_true", help="show the version")
    return parser


def _command(name: str, arguments: Sequence[str]) -> int:
    from newel.cli import run

    return run(name, arguments)


if __name__ == "__main__":
    sys.exit(main())
