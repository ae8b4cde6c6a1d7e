"""``newel sessions``, ``newel export`` and ``newel import``."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from newel.agent.errors import SessionError
from newel.agent.formatting import pluralize
from newel.cli.options import Parser, add_list_options, nothing_listed, positive_int, project_of
from newel.config.settings import newel_home
from newel.session import paths
from newel.session.listing import SessionEntry, list_sessions
from newel.session.reader import read_session
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.session.imports.common import ImportedSession
    from newel.session.imports.finding import ForeignAgent, ForeignSession


def _directory() -> Path:
    return newel_home(os.environ) / "sessions"


def command_sessions(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel sessions", description="List sessions, newest first.")
    add_list_options(parser, "sessions")
    options = parser.parse_args(arguments)
    project = None if options.all else project_of(parser, options)
    sessions = list_sessions(_directory(), project, limit=options.n)
    ids = paths.session_ids(_directory())
    for session in sessions:
        print(_line(session, paths.short_id(session.id, ids), folder=options.all))
    if not sessions:
        print(nothing_listed("sessions", options))
    return 0


def _line(session: SessionEntry, session_id: str, *, folder: bool) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.modified))
    title = session.name or session.first_text or "(empty)"
    messages = pluralize(session.messages, "message")
    line = f"{session_id}  {when}  {messages:>14}  {title[:80]}"
    return f"{line}\n{'':10}{sanitize(session.cwd)}" if folder else line


def _short_id(session_id: str) -> str:
    return paths.short_id(session_id, paths.session_ids(_directory()))


def command_export(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel export", description="Write a session as Markdown or as one HTML page.")
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="its ID, the beginning of its ID, or its file (default: the latest of this folder)",
    )
    parser.add_argument("--html", action="store_true", help="write HTML instead of Markdown")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to FILE (.md or .html) instead of standard output"
    )
    parser.add_argument("--unmasked", action="store_true", help="do not mask keys, tokens and passwords")
    options = parser.parse_args(arguments)
    data = read_session(_session_file(options.session)).data()
    if not options.unmasked:
        from newel.app.secrets import configured_secrets
        from newel.session.masking import Masker

        masker = Masker(configured_secrets(newel_home(os.environ), Path.cwd(), os.environ))
        data = masker.session(data)
        if masker.found:
            print(f"newel: {masker.summary()}", file=sys.stderr)
    if options.output:
        from newel.session.export import export_session

        target = Path(options.output).expanduser()
        export_session(data, target)
        print(f"Written to {target}")
        return 0
    if options.html:
        from newel.session.export.html import to_html as render
    else:
        from newel.session.export.markdown import to_markdown as render
    sys.stdout.write(render(data))
    return 0


def _session_file(name: str | None) -> Path:
    """The file of a session, or of the latest one of this folder. Raises ``SessionError``."""
    if name is not None:
        return paths.find_session(_directory(), name)
    if latest := paths.find_latest(_directory(), str(Path.cwd())):
        return latest
    raise SessionError(
        "No session has been saved in this folder. `newel sessions --all` lists those of others."
    )


def command_import(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel import",
        description="Import sessions of Claude Code, codex and pi, to continue them here. The originals are not changed.",
    )
    parser.add_argument("what", nargs="*", metavar="AGENT|FILE", help="claude, codex or pi; a session file")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="list the sessions of this folder (default)")
    which.add_argument("--last", action="store_true", help="import the latest session of this folder")
    which.add_argument("--all", action="store_true", help="import all sessions of this folder")
    parser.add_argument("--everywhere", action="store_true", help="of all folders, not only of this one")
    parser.add_argument("-n", type=positive_int, default=20, metavar="N", help="list at most N (default: 20)")
    options = parser.parse_args(arguments)
    from newel.session.imports.finding import AGENTS, foreign_sessions, import_file

    named = [word for word in options.what if word in AGENTS]
    files = [word for word in options.what if word not in AGENTS]
    if len(named) > 1 or len(files) > 1 or (files and (options.last or options.all or options.list)):
        parser.error("name one agent, and one file or one of --list, --last and --all")
    agents: Sequence[ForeignAgent] = [agent for agent in AGENTS if not named or agent in named]
    if files:
        source = Path(files[0]).expanduser()
        return _report(import_file(source, _directory(), agents[0] if named else None))
    found = foreign_sessions(agents, os.environ, None if options.everywhere else str(Path.cwd()))
    if options.last or options.all:
        return _import_found([*itertools.islice(found, 1 if options.last else None)])
    listed = list(itertools.islice(found, options.n))
    for session in listed:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.modified))
        print(
            f"{session.agent:6}  {when}  {session.first_text[:80] or '(empty)'}\n{'':8}{sanitize(str(session.path))}"
        )
    print(HOW_TO_IMPORT if listed else NOTHING_FOUND)
    return 0


HOW_TO_IMPORT = "Import one: newel import FILE, or the latest: newel import --last"

NOTHING_FOUND = "No sessions of other agents in this folder. --everywhere looks in all folders."


def _import_found(sessions: Sequence[ForeignSession]) -> int:
    """Import sessions; one that cannot be imported is named, and does not keep the others from it."""
    from newel.session.imports.common import AlreadyImported
    from newel.session.imports.finding import import_file

    failed = 0
    for session in sessions:
        print(sanitize(str(session.path)))
        try:
            _report(import_file(session.path, _directory(), session.agent))
        except AlreadyImported as error:
            print(f"Already imported. Resume it: newel --session {_short_id(error.session_id)}")
        except SessionError as error:
            failed += 1
            print(f"newel: {sanitize(str(error))}", file=sys.stderr)
    if not sessions:
        print(NOTHING_FOUND)
    return 1 if failed or not sessions else 0


def _report(imported: ImportedSession) -> int:
    for problem in imported.damage:
        print(problem, file=sys.stderr)
    print(f"Imported. Resume it: newel --session {_short_id(imported.id)}")
    return 0
