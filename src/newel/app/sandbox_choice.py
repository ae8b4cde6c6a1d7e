"""Decides whether commands run in a sandbox: they do unless the user has turned it off, on this machine and on a host.

Where it does not hold, a mode that the user has chosen is an error. Where nobody has chosen one, a user who is there is asked before each
command, and a run that nobody attends does not start: it would do unasked, with all of the user's rights, what the sandbox is there to confine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import ConfigError, ConnectionLost, HostUnreachable, WorkspaceError
from newel.config.settings import Settings

if TYPE_CHECKING:
    from newel.workspace.sandbox.policy import SandboxMode
    from newel.workspace.ssh.sandbox.host_sandbox import HostSandboxes

DOES_NOT_HOLD_THERE: Final = (
    "The sandbox does not hold on {host}: {failures}. Commands would not be confined."
)

ON_KERNELS: Final = (
    " Kernels often keep user namespaces from ordinary users (kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone, "
    "user.max_user_namespaces); an administrator of the host can change it."
)

CHOSEN: Final = "{why}\nNewel does not start. `--sandbox off` runs commands without a sandbox."

UNATTENDED: Final = (
    "{why}\nWithout a sandbox, commands could do whatever you can, and nobody can be asked, so Newel does not start. To run them without "
    'one, use `--sandbox off`, NEWEL_SANDBOX=off in the environment, or mode = "off" under [sandbox] in config.toml.'
)

ASKED: Final = (
    "No sandbox, so Newel asks before each change and command (--approve ask instead of {approve}): {why} "
    "`--sandbox off` turns this off."
)

ALLOWED: Final = "No sandbox: {why} `--sandbox off` hides this."

USER_NAMESPACES: Final = {
    "kernel/apparmor_restrict_unprivileged_userns": "1",
    "kernel/unprivileged_userns_clone": "0",
    "user/max_user_namespaces": "0",
}
"""Settings of the kernel, below ``/proc/sys``, with the values that keep user namespaces from ordinary users."""


def choose_sandbox(settings: Settings, *, attended: bool) -> Settings:
    """The settings with a mode of the sandbox that holds on this machine; see ``decide``. Raises ``ConfigError``."""
    why = "" if settings.sandbox.mode == "off" else _why_not(wanted(settings))
    return decide(settings, why, attended=attended)


def wanted(settings: Settings) -> Settings:
    """The settings with the mode that commands have if it holds."""
    return _with_mode(settings, settings.sandbox.mode or "workspace")


async def why_not_on(sandboxes: HostSandboxes, folder: str) -> str:
    """Why commands in a folder of a host would not be confined; "" if they are. Raises ``HostUnreachable`` if the host does not say."""
    from newel.workspace.ssh.sandbox.host_sandbox import CannotStartOnHost

    try:
        failures = await sandboxes.find_failure(folder)
    except (HostUnreachable, ConnectionLost):
        raise  # a host that cannot be reached now is not one without a sandbox
    except CannotStartOnHost as error:
        return f"{error}{ON_KERNELS}"
    except WorkspaceError as error:
        return str(error)
    return failures and DOES_NOT_HOLD_THERE.format(host=sandboxes.host, failures=failures)


def decide(settings: Settings, why: str, *, attended: bool) -> Settings:
    """The settings with a mode that holds. ``why`` says why that of ``wanted`` does not, and is empty if it does; ``attended`` means that
    a user answers questions. Raises ``ConfigError``.
    """
    chosen = settings.sandbox.mode
    if chosen == "off":
        return settings
    if not why:
        return wanted(settings)
    if chosen is not None:
        raise ConfigError(CHOSEN.format(why=why))
    is_unasked = settings.approve in {"auto", "review"}
    if is_unasked and not attended:
        raise ConfigError(UNATTENDED.format(why=why))
    text = ASKED if is_unasked else ALLOWED
    return msgspec.structs.replace(
        _with_mode(settings, "off"),
        approve="ask" if is_unasked else settings.approve,
        sandbox_problem=text.format(approve=settings.approve, why=why.replace("\n", " ")),
    )


def warn_of_sandbox(problem: str) -> None:
    """Print why there is no sandbox, where no screen shows it."""
    if problem:
        print(f"newel: {problem}", file=sys.stderr)  # noqa: T201 — for the user


def _with_mode(settings: Settings, mode: SandboxMode) -> Settings:
    sandbox = msgspec.structs.replace(settings.sandbox, mode=mode)
    return msgspec.structs.replace(settings, sandbox=sandbox)


def _why_not(settings: Settings) -> str:
    """Why commands would not be confined; "" if they are."""
    from newel.app.sandbox import Sandboxes
    from newel.workspace.sandbox.sandbox import CannotStart

    sandboxes = Sandboxes(settings, None)
    try:
        return sandboxes.find_failure()
    except CannotStart as error:
        return f"{error}{_namespace_hint()}"
    except WorkspaceError as error:
        return str(error)
    finally:
        sandboxes.close()


def _namespace_hint() -> str:
    """The setting of the kernel that most likely keeps a sandbox from starting, with its remedy."""
    for name, value in USER_NAMESPACES.items():
        try:
            is_set = Path("/proc/sys", name).read_text(encoding="ascii").strip() == value
        except OSError:
            continue
        if is_set:
            setting = name.replace("/", ".")
            return f" The kernel's setting {setting}={value} keeps user namespaces from ordinary users; an administrator can change it."
    return ""
