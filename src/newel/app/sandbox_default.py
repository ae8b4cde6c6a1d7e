"""Whether commands run in a sandbox where nobody has chosen: yes, where it holds.

Where it does not, a user who is there is asked before each command, and a run that nobody attends does not start: it would do unasked, with
all of the user's rights, what the sandbox is there to confine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import ConfigError, WorkspaceError
from newel.config.settings import Settings
from newel.config.variables import SANDBOX_DEFAULT

if TYPE_CHECKING:
    from newel.workspace.sandbox.policy import SandboxMode

UNATTENDED: Final = (
    "{why}\nNewel does not start: without a sandbox, commands could do all that you can, and nobody is there to be asked. `--sandbox off` (or "
    "NEWEL_SANDBOX=off, or [sandbox] mode in config.toml) runs them without one."
)

ASKED: Final = "no sandbox, so you are asked before each command: {why}"


def choose_sandbox(settings: Settings, *, attended: bool) -> Settings:
    """The settings with a mode of the sandbox. ``attended`` means that a user answers questions. Raises ``ConfigError``."""
    if settings.sandbox.mode is not None:
        return settings
    # On a host, and where nothing may be changed, no command runs unasked.
    if settings.host is not None or settings.approve == "read-only":
        return _with_mode(settings, "off")
    confined = _with_mode(settings, "workspace")
    why = _why_not(confined)
    if not why:
        return confined
    if not attended:
        raise ConfigError(UNATTENDED.format(why=why))
    return msgspec.structs.replace(
        _with_mode(settings, "off"), approve="ask", unconfined=ASKED.format(why=why.replace("\n", " "))
    )


def without_sandbox(settings: Settings) -> Settings:
    """The settings with the sandbox off where nobody has chosen."""
    return settings if settings.sandbox.mode is not None else _with_mode(settings, "off")


def _with_mode(settings: Settings, mode: SandboxMode) -> Settings:
    sandbox = msgspec.structs.replace(settings.sandbox, mode=mode)
    origins = settings.origins | {"sandbox": SANDBOX_DEFAULT}
    return msgspec.structs.replace(settings, sandbox=sandbox, origins=origins)


def _why_not(settings: Settings) -> str:
    from newel.app.sandbox import Sandboxes

    sandboxes = Sandboxes(settings, None)
    try:
        return sandboxes.find_failure()
    except WorkspaceError as error:
        return str(error)
    finally:
        sandboxes.close()
