"""``newel web``, ``go`` and ``lsimons-agent-web``: the workbench in the browser."""

from __future__ import annotations

import os
from collections.abc import Sequence

from newel.app.web_server import WebOptions
from newel.cli.options import Parser, add_model_options, flags_of, folder
from newel.web.access_token import TOKEN_VARIABLE
from newel.web.security import parse_public_url


def command_web(arguments: Sequence[str], *, name: str = "newel web", port: int = 8101) -> int:
    parser = _parser(name, port)
    options = parser.parse_args(arguments)
    if options.exit_with_stdin:
        from newel.app.parent_pipe import exit_with_stdin

        exit_with_stdin()
    if options.join:
        from newel.app.running_server import join_workbench as run
    else:
        from newel.app.web_server import run_workbench as run
    return run(
        WebOptions(
            flags=flags_of(options),
            cwd=folder(parser, options.cwd),
            bind=options.bind,
            port=options.port,
            public_url=parse_public_url(options.public_url) if options.public_url else "",
            token=os.environ.get(TOKEN_VARIABLE),
            new_token=options.new_token,
            open_browser=options.open,
            ephemeral=options.ephemeral,
        )
    )


def _parser(name: str, port: int) -> Parser:
    parser = Parser(
        prog=name,
        description="Start the workbench in the browser: chats, agents and tools of a folder. Prints its address, which "
        "contains the access token, when it is ready.",
        epilog=f"{TOKEN_VARIABLE} sets the access token (32 to 256 letters, digits, - or _). Otherwise the project keeps one for 30 days, so "
        "that an open page still works after a restart.",
    )
    add = parser.add_argument
    add(
        "--port",
        type=int,
        default=port,
        metavar="N",
        help=f"listen on this port (default: {port}); 0 takes a free one",
    )
    add("--bind", default="127.0.0.1", metavar="ADDRESS", help="listen on this address (default: 127.0.0.1)")
    add(
        "--public-url",
        default="",
        metavar="URL",
        help="the address at which a proxy or a forwarded port offers the workbench, for example https://newel.example.com",
    )
    add("--open", action="store_true", help="open the browser")
    add("--ephemeral", action="store_true", help="do not save anything")
    add(
        "--new-token",
        action="store_true",
        help="generate a new access token; earlier addresses stop working",
    )
    add(
        "--exit-with-stdin",
        action="store_true",
        help="end when standard input, a pipe, is closed: for programs that start the workbench",
    )
    add(
        "--join",
        action="store_true",
        help="if the folder is served already, print that server's address and wait for its end",
    )
    add_model_options(parser)
    return parser
