"""What a command of an extension writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from newel.agent.errors import NewelError, WorkspaceError
from newel.concurrency import isolated
from newel.extensions.api import ExtensionCommand
from newel.hooks.user_function import call_function, describe_failure

TIMEOUT_S: Final = 60.0


def prompt_writer(command: ExtensionCommand) -> Callable[[str], Awaitable[str]]:
    """Returns the prompt for what was typed behind the command. It raises ``WorkspaceError``, and then no prompt is sent."""

    async def write(arguments: str) -> str:
        try:
            prompt: object = None
            with anyio.move_on_after(TIMEOUT_S) as scope:
                prompt = await isolated(lambda: call_function(command.function, arguments))
        except NewelError:
            raise
        except (Exception, SystemExit) as error:
            raise WorkspaceError(
                f"/{command.name} failed. {describe_failure(error, command.file)}"
            ) from error
        if scope.cancelled_caught:
            raise WorkspaceError(f"/{command.name} did not finish within {TIMEOUT_S:g} s.")
        if not isinstance(prompt, str) or not prompt.strip():
            raise WorkspaceError(f"/{command.name} returned no prompt. Its function has to return a string.")
        return prompt

    return write
