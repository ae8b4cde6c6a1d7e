"""Asks the user at the start: whether to trust a model server that they did not configure, and what a project brings, and whether to work
in their home folder.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from newel.agent.errors import ConfigError, UsageError
from newel.config.settings import Settings
from newel.config.trust import IgnoredServer, ServerTrust
from newel.providers.families import OPENAI_URL
from newel.text.sanitize import escape_invisible, escape_line, redact_url, sanitize

if TYPE_CHECKING:
    from newel.app.project_trust import PendingTrust
    from newel.providers.discovery import LocalServer

T = TypeVar("T")

HOME_QUESTION: Final = (
    "{folder} is your home folder, or contains it. An agent here can read and change everything in it but the places that hold secrets: mail, "
    "documents, settings of your programs.\nWork here?"
)

SCROLLED: Final = "This is longer than your screen: scroll up to its beginning before you answer."

SETUP_QUESTION: Final = "No model is configured.\nSet one up now?"

_PROJECT_ANSWERS: Final = {
    "y": True,
    "yes": True,
    "never": False,
    "n": "not now",
    "no": "not now",
    "not now": "not now",
    "": "not now",
}

TRIES: Final = 3
"""Attempts to get a yes or no."""

CONSEQUENCE: Final = (
    "It receives what you type and every file that the agent reads, and decides what the agent does."
)


def can_ask(settings: Settings) -> bool:
    """Whether all three standard streams are a terminal, and no program is driving Newel in JSON mode."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return settings.renderer != "json" and all(stream.isatty() for stream in streams)


def ask_for_trust(settings: Settings, load: Callable[[], Settings]) -> Settings:
    """The settings after the user has decided about unknown servers. ``load`` reads them again. Raises ``ConfigError``.

    Call it outside of an event loop: it blocks on the terminal, and Ctrl+C must interrupt it.
    """
    ignored = settings.ignored
    if ignored and ignored.address and has_undecided_server(settings):
        answer = _ask(_question_of_folder(settings, ignored), default=False)
        if answer is not None:
            _remember(settings.home, ignored.folder, ignored.address, trusted=answer)
            settings = load()  # the file may have changed: another address is another decision
    if settings.endpoint is None and settings.host_model is None:
        settings = _with_local_server(settings, load)
    return settings


def _remember(home: Path, folder: str, address: str, *, trusted: bool) -> None:
    """Save an answer. A failure matters only for the trust of a folder, which is read again from the file."""
    try:
        ServerTrust(home).decide(folder, address, trusted=trusted)
    except ConfigError as error:
        if folder and trusted:
            raise
        sys.stderr.write(f"newel: Your answer could not be saved. {sanitize(str(error))}\n")


def ask_about_home(folder: Path) -> None:
    """Ask whether to work in the home folder, or above it: it is rarely meant. Raises ``UsageError`` for a no.

    Call it outside of an event loop, as ``ask_for_trust``.
    """
    if _ask(HOME_QUESTION.format(folder=escape_line(str(folder))), default=False) is not True:
        raise UsageError("Nothing was started. Change to a project's folder, or name one: newel --cwd DIR")


def ask_about_project(folder: Path, items: Sequence[PendingTrust]) -> None:
    """Ask whether to trust what a project brings, as ``ask_for_trust`` does. Nothing is decided without an answer, and by "not now"."""
    from newel.app.project_trust import TOO_LONG, rows_of, trust_question

    question = trust_question(folder, items)
    if question is None:
        sys.stderr.write(f"newel: {TOO_LONG.format(folder=escape_line(str(folder)))}\n")
        return
    columns, rows = shutil.get_terminal_size()
    if rows_of(question, columns) >= rows:
        question = f"{question}\n{SCROLLED}"
    answer = _choose(question, "[y/N/never]", _PROJECT_ANSWERS)
    if not isinstance(answer, bool):
        return
    for item in items:
        try:
            item.decide(answer)
        except ConfigError as error:
            sys.stderr.write(f"newel: Your answer could not be saved. {sanitize(str(error))}\n")


def has_undecided_server(settings: Settings) -> bool:
    """Whether a server is ignored that would be used now, and that the user has not declined."""
    has_other = settings.host_model is not None and settings.host_model.is_requested
    return settings.ignored is not None and not settings.ignored.declined and not has_other


def _with_local_server(settings: Settings, load: Callable[[], Settings]) -> Settings:
    import anyio
    import msgspec

    from newel.app.local_server import discover_servers, endpoint_of

    discovered = anyio.run(discover_servers, settings.home)
    endpoint = discovered.endpoint
    for server in discovered.undecided:
        answer = _ask(_question_of_machine(server), default=server.is_owned)
        if answer is None:
            break
        _remember(settings.home, "", server.address, trusted=answer)
        if answer:
            endpoint = endpoint_of(server)
            break
    if endpoint is not None:
        return msgspec.structs.replace(settings, endpoint=endpoint)
    is_nothing_here = not discovered.undecided and not discovered.message
    return _set_up(settings, load) if is_nothing_here else settings


def _set_up(settings: Settings, load: Callable[[], Settings]) -> Settings:
    """Offer the setup to a user who has no model; what an agent starts must not configure one."""
    from newel.workspace.process.process_mark import inherited_rights

    if inherited_rights() is not None or not _ask(SETUP_QUESTION, default=True):
        return settings
    from newel.app.setup import run_setup

    run_setup(settings.home)
    return load()


def ignored_message(ignored: IgnoredServer) -> str:
    """The ignored server and how to use it, on one line."""
    if not ignored.address:
        return f"{_dotenv(ignored)} names a model server with an invalid address; it is ignored"
    return (
        f"{_dotenv(ignored)} {_names(ignored)} {ignored.address}; it is ignored, because you have not trusted it "
        f"in this folder. To use it: {trust_command(ignored)}"
    )


def trust_command(ignored: IgnoredServer) -> str:
    """The command that trusts the server of a folder."""
    folder_options = [] if ignored.folder == str(Path.cwd()) else ["--cwd", ignored.folder]
    return escape_invisible(shlex.join(["newel", "trust", *folder_options, ignored.address]))


def _names(ignored: IgnoredServer) -> str:
    """How the file names its server: many contain an OpenAI key that is meant for the application."""
    by_key = " (by OPENAI_API_KEY)" if ignored.address == OPENAI_URL else ""
    return f"names the model server{by_key}"


def _dotenv(ignored: IgnoredServer) -> str:
    return escape_line(f"{ignored.folder}/.env")


def _question_of_folder(settings: Settings, ignored: IgnoredServer) -> str:
    dotenv = Path(ignored.folder, ".env")
    lines = [f"{_dotenv(ignored)} {_names(ignored)}:", f"  {ignored.address}"]
    if dotenv.is_symlink():
        lines.append(f"  (.env is a link to {escape_line(str(dotenv.resolve()))})")
    lines.append(CONSEQUENCE)
    if settings.endpoint is not None:
        instead = f"{redact_url(settings.endpoint.base_url)} ({settings.endpoint.origin})"
        lines.append(f"Otherwise Newel uses your own: {escape_line(instead)}")
    lines.append("Use it in this folder from now on?")
    return "\n".join(lines)


def _question_of_machine(server: LocalServer) -> str:
    from newel.app.local_server import describe

    lines = ["No model server is configured.", f"{describe(server)}.", CONSEQUENCE]
    if not server.is_owned:
        lines.append("This system does not say which user runs it.")
    lines.append("Use it from now on?")
    return "\n".join(lines)


def _ask(question: str, *, default: bool) -> bool | None:
    """Ask a question at the terminal; None if there is no answer."""
    answers = {"y": True, "yes": True, "n": False, "no": False, "": default}
    return _choose(question, "[Y/n]" if default else "[y/N]", answers)


def _choose(question: str, choices: str, answers: Mapping[str, T]) -> T | None:
    """The meaning of the user's answer, in lower case; None if there is none."""
    import anyio

    from newel.terminal.ui.line_reader import LineReader, until_quiet

    text = f"{question} {choices} "
    sys.stderr.write(text)
    sys.stderr.flush()
    # Type-ahead is not an answer.
    text = f"\n{unsent}\n{text}" if (unsent := anyio.run(until_quiet, LineReader(sys.stdin.fileno()))) else ""
    for _ in range(TRIES):
        sys.stderr.write(text)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            sys.stderr.write("\n")
            return None
        answer = line.strip().lower()
        if answer in answers:
            return answers[answer]
        text = f"Answer {' or '.join(choices.strip('[]').lower().split('/'))}. {choices} "
    return None
