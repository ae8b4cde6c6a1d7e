"""The argument parser of all commands, the options that they share, and the types of their values."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from newel.agent.errors import UsageError
from newel.agent.ports import ToolCallMode
from newel.app.agent_factory import InputFormat, OutputFormat
from newel.config.jexida import Through
from newel.config.settings import Flags, load_host_places, newel_home
from newel.providers.families import Api
from newel.providers.routing import AgentMode
from newel.workspace.sandbox.policy import SandboxMode

if TYPE_CHECKING:
    from newel.workspace.execution_host import ExecutionHost

MODEL_FLAGS = (
    "base_url",
    "api_key",
    "api",
    "model",
    "thinking",
    "approve",
    "sandbox",
    "host",
    "through",
    "agent_mode",
    "tool_calls",
    "extensions",
)
"""What ``add_model_options`` parses."""


HELP_COLUMNS = 78

OUTPUT_OPTIONS = frozenset(
    {"words", "then", "json", "renderer", "output_format", "input_format", "include_partial_messages"}
    | {"permission_prompt_tool", "verbose", "schema", "print", "quiet", "output"}
)
"""By their names in the parsed arguments: prompts, and how their answers are written. ``lsimons-agent`` takes none of them."""
NOT_FOR_SIMPLE = "this command takes no prompts and no output options; use newel"


class _PrintVersion(argparse.Action):
    """``--version``. The version is looked up when it is asked for: that takes longer than to parse a command line."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        sys.stdout.write(f"newel {version('newel')}\n")
        parser.exit()


class _Actions(argparse._SubParsersAction):  # noqa: SLF001 # pyright: ignore — the only name of the class, and no generic one at run time
    """The words after a command. The help of each begins with what the help of the command says about it."""

    def add_parser(self, name: str, **more: Any) -> Any:
        about = str(more.get("help", "")).removesuffix(" (default)")
        more.setdefault("description", f"{about[:1].upper()}{about[1:]}.")
        return super().add_parser(name, **more)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Parser(argparse.ArgumentParser):
    """Reports a usage error on one line and where to find help on another, instead of listing all options. Texts of its help are wrapped,
    their own line ends kept. Every command has ``--version``. Options are written in full: as a beginning of ``--model``, the ``--mode
    json`` of another agent would choose a model.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        # argparse makes a formatter for each option, and each would ask for the terminal's width.
        formatter = partial(
            argparse.RawDescriptionHelpFormatter, width=shutil.get_terminal_size().columns - 2
        )
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": formatter} | more)
        self.register("action", "parsers", _Actions)
        self.add_argument(
            "--version",
            action=_PrintVersion,
            nargs=0,
            default=argparse.SUPPRESS,  # no command finds it among its options
            help="print the version and exit",
        )

    def format_help(self) -> str:
        self.description, self.epilog = _wrap(self.description), _wrap(self.epilog)
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        from newel.cli.suggestions import explain_usage_error

        explanation = explain_usage_error(self.prog, message, list(self._option_string_actions))
        self.exit(2, f"{self.prog}: {explanation}\nTry `{self.prog} --help`.\n")


def list_by_default(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments of a command whose action ``list`` may be left out, also before its options."""
    names_action = arguments and (
        not arguments[0].startswith("-") or arguments[0] in {"-h", "--help", "--version"}
    )
    return arguments if names_action else ["list", *arguments]


def _wrap(text: str | None) -> str | None:
    """A formatter leaves a text as it is, or forgets its line ends, and exit codes would be lost inside of a paragraph."""
    import textwrap

    return text and "\n".join(
        textwrap.fill(line, HELP_COLUMNS, break_on_hyphens=False) for line in text.split("\n")
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the model, its approval and its place."""
    add_server_options(parser)
    add = parser.add_argument
    add(
        "--approve",
        choices=["auto", "ask", "review", "plan", "read-only"],
        help="the approval mode: which tool calls run without asking (default: auto)",
    )
    add(
        "--through",
        choices=get_args(Through),
        help="with --host, how to reach the host's model (default: auto); api uses the configured server",
    )
    add(
        "--no-extensions",
        dest="extensions",
        action="store_false",
        default=None,
        help="load no Python extensions",
    )
    add_place(parser, "work in")


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the model, and for the sandbox of its commands."""
    add = parser.add_argument
    add("-m", "--model", metavar="NAME", help="use this model")
    add("--base-url", metavar="URL", help="use the model server at this address, or ollama://host")
    add("--api", choices=get_args(Api), help="the API that it speaks (default: chosen by its address)")
    add(
        "--api-key",
        metavar="KEY",
        help="the server's key (prefer LLM_AUTH_TOKEN: other users can see options)",
    )
    add("--thinking", choices=["off", "minimal", "low", "medium", "high"], help="how much the model reasons")
    add(
        "--sandbox",
        choices=get_args(SandboxMode),
        help="what commands may change: the folder (the default, where it holds), nothing, or what you may (off); partial: the folder, held as far as this machine can",
    )
    add(
        "--agent-mode",
        choices=get_args(AgentMode),
        help="which model works: the configured one (remote, the default), one on this machine, or first that one",
    )
    add(
        "--tool-calls",
        choices=get_args(ToolCallMode),
        help="how the model calls tools: by its protocol, or in answers held to a JSON Schema (default: whichever suits the model)",
    )


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the session."""
    add = parser.add_argument
    add(
        "-c",
        "--continue",
        dest="continue_",
        action="store_true",
        help="resume this folder's latest session",
    )
    add("--session", metavar="ID", help="resume this session: its file, its ID, or the beginning of its ID")
    add("--ephemeral", action="store_true", help="do not save the session")


def check_session_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a message if they contradict each other."""
    if sum([options.continue_, bool(options.session), options.ephemeral]) > 1:
        parser.error("--continue, --session and --ephemeral cannot be combined")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the system prompt and the limits of a run."""
    add = parser.add_argument
    add(
        "--system-prompt",
        metavar="TEXT",
        help="replace the behavioural part of the system prompt",
    )
    add("--max-turns", type=positive_int, metavar="N", help="make at most N model requests per prompt")
    add("--max-cost", type=positive, metavar="USD", help="spend at most this many US dollars per prompt")


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """Add options for what scripts write and read, and for the tools that they offer."""
    add = parser.add_argument
    add(
        "--output-format",
        choices=get_args(OutputFormat),
        help="for scripts: the answer, one JSON object with the result, or a JSON line for each message, as Claude Code writes them",
    )
    add(
        "--input-format",
        choices=get_args(InputFormat),
        help="with stream-json, read prompts as JSON lines from standard input",
    )
    add(
        "--include-partial-messages",
        action="store_true",
        help="with --output-format stream-json, also write messages piece by piece",
    )
    add(
        "--permission-prompt-tool",
        choices=["stdio"],
        help="with --input-format stream-json, ask the program that sends the prompts for approval",
    )
    add(
        "--verbose",
        action="store_true",
        help="accepted with --output-format, as for Claude Code; has no effect",
    )
    add(
        "--schema",
        type=Path,
        metavar="FILE",
        help="the answer has to be JSON that fits the JSON Schema in FILE",
    )
    add(
        "--tools",
        type=tool_names,
        metavar="LIST",
        help="offer only these tools: names or patterns with commas between them, or none",
    )


def check_formats(
    parser: argparse.ArgumentParser, options: argparse.Namespace, *, has_prompts: bool, simple: bool
) -> None:
    """Exit with a message for options of ``add_format_options`` that make no sense together, or with others."""
    out, lines_in = options.output_format, options.input_format == "stream-json"
    if simple and (out or options.input_format or options.schema):
        parser.error(NOT_FOR_SIMPLE)
    if options.json and options.quiet:
        parser.error("--json and --quiet cannot be combined")
    if out and (options.json or options.renderer):
        parser.error(f"--output-format and --{'json' if options.json else 'renderer'} cannot be combined")
    if out == "stream-json" and options.quiet:
        parser.error("--output-format stream-json and --quiet cannot be combined")
    if options.include_partial_messages and out != "stream-json":
        parser.error("--include-partial-messages needs --output-format stream-json")
    if options.verbose and not out:
        parser.error(
            "--verbose is for --output-format; `--renderer console` shows all of a run as plain text"
        )
    if options.permission_prompt_tool and not lines_in:
        parser.error("--permission-prompt-tool needs --input-format stream-json")
    if lines_in and out != "stream-json":
        parser.error("--input-format stream-json needs --output-format stream-json")
    if lines_in and has_prompts:
        parser.error("--input-format stream-json reads the prompts from standard input; give none here")
    if lines_in and options.output:
        parser.error("--output is for a prompt on the command line, not for --input-format stream-json")


def tool_names(text: str) -> list[str]:
    """The names in a list with commas; none for an empty one or ``none``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def add_place(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add options for a folder, on this machine or on a host."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--cwd", metavar="DIR", help=f"{verb} this folder")
    place.add_argument(
        "--host",
        metavar="PLACE",
        help=f"{verb} a folder on a host, over SSH: user@host:/path, or a name from `newel hosts`",
    )


def add_list_options(parser: argparse.ArgumentParser, things: str) -> None:
    """Add the options of a command that lists ``things``, by folder or all of them."""
    parser.add_argument("--all", action="store_true", help=f"list the {things} of all folders")
    parser.add_argument("-n", type=positive_int, default=20, metavar="N", help="list at most N (default: 20)")
    add_place(parser, f"list the {things} of")


def nothing_listed(things: str, options: argparse.Namespace) -> str:
    if options.all:
        return f"No {things} yet."
    return f"No {things} in this folder yet. --all lists those of other folders."


def flags_of(options: argparse.Namespace, **more: Any) -> Flags:
    """The values of ``add_model_options`` or ``add_server_options``, and ``more`` flags of a command."""
    return Flags(**{name: getattr(options, name, None) for name in MODEL_FLAGS}, **more)


def folder(parser: argparse.ArgumentParser, path: str | None) -> Path:
    """Resolve the folder to work in. Exits with a message if there is none."""
    try:
        resolved = Path(path or ".").expanduser().resolve()
    except (RuntimeError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        parser.error(
            f"--cwd: cannot resolve {path}: {why}"
            if path
            else f"The folder that you are in cannot be found: {why}. It may have been deleted; change to another one"
        )
    if not resolved.is_dir():
        parser.error(f"--cwd: no such folder: {resolved}")
    return resolved


def open_place(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> AbstractAsyncContextManager[ExecutionHost]:
    """Open the value of ``add_place``. Entering it raises ``WorkspaceError``."""
    from newel.app.hosts import open_host

    cwd, host = folder(parser, options.cwd), options.host
    return open_host(cwd, None if host is None else load_host_places(newel_home(os.environ)).get(host, host))


def project_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """The name of the value of ``add_place``; a host is asked for it."""
    if options.host is None:
        return str(folder(parser, options.cwd))
    import anyio

    async def name() -> str:
        async with open_place(parser, options) as place:
            return place.name

    return anyio.run(name)


def confirm(question: str) -> bool:
    """Ask the user on the terminal. Raises ``UsageError`` without one."""
    if not sys.stdin.isatty():
        raise UsageError("Cannot ask for confirmation: not a terminal. Check the above, then use --yes.")
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number above 0")
    return value


def positive_int(text: str) -> int:
    if not text.isdecimal() or not (value := int(text)):
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return value
