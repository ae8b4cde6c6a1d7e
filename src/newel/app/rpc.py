"""Composes the agent with ``newel rpc``."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from newel.agent.errors import NewelError
from newel.app.agent_factory import AgentOptions, open_agent
from newel.app.project_notices import warn_of_project
from newel.app.sandbox_choice import warn_of_sandbox
from newel.config.settings import load_settings


def serve_rpc(options: AgentOptions) -> int:
    """Serve the program on standard input and output; returns the exit code. An error at the start is also written as an ``error``
    event, so that the program can act on its code.
    """
    import anyio

    try:
        return anyio.run(_serve, options)
    except NewelError as error:
        from newel.agent.events import ErrorEvent
        from newel.text.json import to_json

        with suppress(OSError):  # the reader has gone
            sys.stdout.buffer.write(to_json(ErrorEvent(code=error.code, message=str(error))) + b"\n")
            sys.stdout.buffer.flush()
        raise


async def _serve(options: AgentOptions) -> int:
    from newel.terminal.ui.approval import Approver

    settings = load_settings(options.flags, cwd=options.cwd, environ=os.environ)
    warn_of_project(settings)
    approver = Approver()
    async with open_agent(settings, options, approver, approver.elicit) as agent:
        warn_of_sandbox(agent.info.sandbox_problem)
        gc.freeze()  # all that is loaded stays: later collections need not look at it
        from newel.terminal.rpc.server import run_rpc

        return await run_rpc(agent, sys.stdin.fileno(), sys.stdout.buffer, approver=approver)
