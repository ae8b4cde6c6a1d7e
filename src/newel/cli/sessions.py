"""``newel sessions``, ``newel export`` and ``newel import``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from newel.agent.formatting import pluralize
from newel.cli.options import Parser, add_list_options, nothing_listed, project_of
from newel.config.settings import newel_home
from newel.session import paths
from newel.session.listing import SessionEntry, list_sessions
from newel.session.reader import read_session
from newel.text.sanitize import sanitize


def _directory() -> Path:
    return newel_home(os.environ) / "sessions"


def command_sessions(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel sessions", description="List sessions, newest first.")
    add_list_options(parser, "sessions")
    options = parser.parse_args(arguments)
    project = None if options.all else project_of(parser, options)
    sessions = list_sessions(_directory(), project, limit=options.n)
    for session in sessions:
        print(_line(session, folder=options.all))
    if not sessions:
        print(nothing_listed("sessions", options))
    return 0


def _line(session: SessionEntry, *, folder: bool) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.modified))
    title = session.name or session.first_text or "(empty)"
    messages = pluralize(session.messages, "message")
    line = f"{session.id[:8]}  {when}  {messages:>14}  {title[:80]}"
    return f"{line}\n{'':10}{sanitize(session.cwd)}" if folder else line


def command_export(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel export", description="Write a session as Markdown or as one HTML page.")
    parser.add_argument("session", metavar="SESSION", help="its ID, the beginning of its ID, or its file")
    parser.add_argument("--html", action="store_true", help="write HTML instead of Markdown")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to FILE (.md or .html) instead of standard output"
    )
    parser.add_argument("--unmasked", action="store_true", help="do not mask keys, tokens and passwords")
    options = parser.parse_args(arguments)
    data = read_session(paths.find_session(_directory(), options.session)).data()
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


def command_import(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel import", description="Import a session file of pi.")
    parser.add_argument("file", metavar="FILE", help="a session file of pi (…/sessions/…/….jsonl)")
    options = parser.parse_args(arguments)
    from newel.session.import_pi import import_pi

    imported = import_pi(Path(options.file).expanduser(), _directory())
    for problem in imported.damage:
        print(problem, file=sys.stderr)
    print(f"Imported. Resume it: newel --session {imported.id[:8]}")
    return 0
