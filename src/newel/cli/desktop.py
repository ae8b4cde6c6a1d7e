"""``newel desktop``: the workbench in a window of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import get_args

from newel.app.desktop_window import WindowKind
from newel.app.web_server import WebOptions
from newel.cli.options import Parser, add_model_options, flags_of, folder
from newel.web.access_token import TOKEN_VARIABLE


def command_desktop(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel desktop",
        description="Open the workbench of a folder in a window of its own. The server ends with the window. A folder that is "
        "served already gets another window on the same server.",
    )
    add = parser.add_argument
    add("folder", nargs="?", metavar="FOLDER", help="the folder to work in (default: this one)")
    add(
        "--port",
        type=int,
        default=0,
        metavar="N",
        help="listen on this port (default: this folder's last one, else a free one)",
    )
    add(
        "--window",
        choices=get_args(WindowKind),
        default="auto",
        help="pywebview (the extra desktop), a Chromium, Chrome, Edge or Brave in app mode, or a tab of the default browser "
        "(default: the first that works)",
    )
    add("--ephemeral", action="store_true", help="do not save anything")
    add_model_options(parser)
    options = parser.parse_args(arguments)
    if options.folder and (options.cwd or options.host):
        parser.error("FOLDER cannot be combined with --cwd or --host")
    from newel.app.desktop import run_desktop

    return run_desktop(
        WebOptions(
            flags=flags_of(options),
            cwd=folder(parser, options.folder or options.cwd),
            bind="127.0.0.1",
            port=options.port,
            token=os.environ.get(TOKEN_VARIABLE),
            ephemeral=options.ephemeral,
        ),
        options.window,
    )
