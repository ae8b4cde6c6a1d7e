"""``newel sessions``, ``newel export`` and ``newel import``: sessions outside a conversation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from newel.cli.options import add_place
from newel.cli.parser import Parser
from newel.cli.place import project_of
from newel.config.settings import newel_home
from newel.session import paths
from newel.session.listing import SessionSummary, list_sessions
from newel.session.reader import read_session
from newel.text.format import pluralize
from newel.text.sanitize import sanitize


def _directory() -> Path:
    return newel_home(os.environ) / "sessions"


def command_sessions(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel sessions", description="List sessions, the latest first.")
    parser.add_argument("--all", action="store_true", help="those of every folder")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="at most so many (20)")
    add_place(parser, "look at")
    given = parser.parse_args(arguments)
    project = None if given.all else project_of(parser, given)
    found = list_sessions(_directory(), project, limit=max(given.n, 0))
    for session in found:
        print(_line(session, folder=given.all))
    if not found:
        print(
            "No sessions yet."
            if given.all
            else "No sessions in this folder yet. --all lists those of other folders."
        )
    return 0


def _line(session: SessionSummary, *, folder: bool) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.modified))
    title = session.name or session.first_text or "(nothing said)"
    messages = pluralize(session.messages, "message")
    line = f"{session.id[:8]}  {when}  {messages:>14}  {title[:80]}"
    return f"{line}\n{'':10}{sanitize(session.cwd)}" if folder else line


def command_export(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel export", description="A session as Markdown or as one HTML page.")
    parser.add_argument("session", metavar="SESSION", help="its id, the beginning of it, or its file")
    parser.add_argument("--html", action="store_true", help="an HTML page in place of Markdown")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write here (.md or .html), not to standard output"
    )
    parser.add_argument("--unmasked", action="store_true", help="keep keys, tokens and passwords")
    given = parser.parse_args(arguments)
    data = read_session(paths.find_session(_directory(), given.session)).data()
    if not given.unmasked:
        from newel.app.secrets import configured_secrets
        from newel.session.masking import Masker

        masker = Masker(configured_secrets(newel_home(os.environ), Path.cwd(), os.environ))
        data = masker.session(data)
        if masker.found:
            print(f"newel: {masker.summary()}", file=sys.stderr)
    if given.output:
        from newel.session.export.formats import export_session

        target = Path(given.output).expanduser()
        export_session(data, target)
        print(f"Written to {target}")
        return 0
    if given.html:
        from newel.session.export.html import to_html as render
    else:
        from newel.session.export.markdown import to_markdown as render
    sys.stdout.write(render(data))
    return 0


def command_import(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel import", description="Take over a session file of pi.")
    parser.add_argument("file", metavar="FILE", help="a session file of pi (…/sessions/…/….jsonl)")
    given = parser.parse_args(arguments)
    from newel.session.import_pi import import_pi

    imported = import_pi(Path(given.file).expanduser(), _directory())
    for problem in imported.damage:
        print(problem, file=sys.stderr)
    print(f"Imported. Go on with it: newel --session {imported.id[:8]}")
    return 0
