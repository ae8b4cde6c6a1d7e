"""``newel rpc``: the agent for a program that drives it over standard input and output."""

from __future__ import annotations

from collections.abc import Sequence

from newel.app.agent_factory import AgentOptions
from newel.cli.options import (
    Parser,
    add_model_options,
    add_run_options,
    add_session_options,
    check_session_options,
    flags_of,
    folder,
)

EPILOG = """\
  $ newel rpc
  > {"type": "prompt", "id": 1, "text": "Explain this project"}
  < {"type":"response","id":1,"command":"prompt","success":true,"data":{...}}
  < {"type":"message_update", ...}
  < {"type":"agent_end","reason":"done", ...}

{"type": "commands"} lists the slash commands. Other commands: steer, abort,
approve, state, messages, model, sessions, fork, changes, decide, undo ...
Clients: newel.client for Python, newel-client for Node.
exit codes: 0 the input has ended, 1 failed, 2 wrong usage,
128 + N ended by signal N"""


def command_rpc(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel rpc",
        description="Serve a program: it writes commands as JSON lines, and reads a\nresponse to each and the events of runs.",
        epilog=EPILOG,
    )
    add_session_options(parser)
    add_model_options(parser)
    add_run_options(parser)
    parsed = parser.parse_args(arguments)
    check_session_options(parser, parsed)
    from newel.app.rpc import serve_rpc

    return serve_rpc(
        AgentOptions(
            flags=flags_of(parsed, max_turns=parsed.max_turns, max_cost=parsed.max_cost),
            cwd=folder(parser, parsed.cwd),
            continue_=parsed.continue_,
            session=parsed.session,
            ephemeral=parsed.ephemeral,
            system_prompt=parsed.system_prompt,
        )
    )
