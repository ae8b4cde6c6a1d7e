"""Decides whether commands run in a sandbox: they do unless the user has turned it off, on this machine and on a host.

Where it does not hold, a mode that the user has chosen is an error. Where nobody has chosen one, a user who is there is asked before each
command, which runs in a partial sandbox if that holds; and a run that nobody attends does not start: it would do unasked what the sandbox
is there to confine. ``partial`` is a choice of the user: that of ``workspace``, or where it does not hold, of the part that does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import ConfigError, ConnectionLost, HostUnreachable, WorkspaceError
from newel.config.settings import Settings

if TYPE_CHECKING:
    from newel.app.sandbox import FindLocalPolicy
    from newel.workspace.sandbox.policy import SandboxMode
    from newel.workspace.ssh.sandbox.host_sandbox import HostSandboxes

DOES_NOT_HOLD_THERE: Final = (
    "The sandbox does not hold on {host}: {failures}. Commands would not be confined."
)

ON_KERNELS: Final = (
    " Kernels often keep user namespaces from ordinary users (kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone, "
    "user.max_user_namespaces); an administrator of the host can change it."
)

NO_PARTIAL_THERE: Final = "There is no partial sandbox on a host."

CHOSEN: Final = "{why}\nSo Newel does not start. Choose another one:\n{choices}"

UNATTENDED: Final = (
    "{why}\nThis run cannot ask you before each command, so Newel does not start. Choose:\n{choices}\n"
    "or set NEWEL_SANDBOX, or mode under [sandbox] in ~/.newel/config.toml."
)

PARTIAL: Final = (
    "  --sandbox partial  keeps commands from other files, keys and servers, but not from the\n"
    "                     settings of git and of editors in the project"
)

OFF: Final = "  --sandbox off      no sandbox: commands can do whatever you can do"

ASKED: Final = (
    "{kind}, so Newel asks before each change and command (--approve ask instead of {approve}): {why} "
    "{way_out}, without these questions."
)

ALLOWED: Final = "{kind}: {why} {way_out}."

UNTESTED: Final = "\n                     (on macOS by sandbox-exec, tested by its self-test alone)"

KINDS: Final = {
    "partial": (
        "Partial sandbox (untested on macOS)" if sys.platform == "darwin" else "Partial sandbox",
        "`--sandbox partial` accepts it",
    ),
    "off": ("No sandbox", "`--sandbox off` accepts that"),
}
"""What there is where nobody has chosen a mode and the sandbox does not hold, and the words that end the questions."""

USER_NAMESPACES: Final = {
    "kernel/apparmor_restrict_unprivileged_userns": "1",
    "kernel/unprivileged_userns_clone": "0",
    "user/max_user_namespaces": "0",
}
"""Settings of the kernel, below ``/proc/sys``, with the values that keep user namespaces from ordinary users."""


def choose_sandbox(settings: Settings, *, attended: bool, find: FindLocalPolicy | None = None) -> Settings:
    """The settings with a mode of the sandbox that holds on this machine, whose policy ``find`` finds; see ``decide``. Raises
    ``ConfigError``.
    """
    why = "" if settings.sandbox.mode == "off" else _why_not(wanted(settings), find)
    why_not_partial = _why_not(_with_mode(settings, "partial")) if why else ""
    return decide(settings, why, why_not_partial, attended=attended)


def wanted(settings: Settings) -> Settings:
    """The settings with the mode that commands have if it holds."""
    chosen = settings.sandbox.mode
    return _with_mode(settings, "workspace" if chosen is None or chosen == "partial" else chosen)


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


def decide(settings: Settings, why: str, why_not_partial: str, *, attended: bool) -> Settings:
    """The settings with a mode that holds. ``why`` says why that of ``wanted`` does not, ``why_not_partial`` why no part of it does; each
    is empty if it does. ``attended`` means that a user answers questions. Raises ``ConfigError``.
    """
    chosen = settings.sandbox.mode
    if chosen == "off":
        return settings
    if not why:
        return wanted(settings)
    partial = _with_mode(settings, "partial")
    named = f"  ({why_not_partial})" if why_not_partial else PARTIAL + UNTESTED * (sys.platform == "darwin")
    choices = f"{named}\n{OFF}"
    if chosen == "partial" and not why_not_partial:
        return partial
    if chosen is not None:
        raise ConfigError(CHOSEN.format(why=why, choices=choices))
    is_unasked = settings.approve in {"auto", "review"}
    if is_unasked and not attended:
        raise ConfigError(UNATTENDED.format(why=why, choices=choices))
    left = _with_mode(settings, "off") if why_not_partial else partial
    kind, way_out = KINDS[left.sandbox.mode or ""]
    text = (ASKED if is_unasked else ALLOWED).format(
        kind=kind,
        approve=settings.approve,
        why=f"{why} {why_not_partial}".replace("\n", " ").strip(),
        way_out=way_out,
    )
    return msgspec.structs.replace(
        left, approve="ask" if is_unasked else settings.approve, sandbox_problem=text
    )


def why_partial(settings: Settings) -> str:
    """Why a partial sandbox is used instead of the whole one; "" if it is not."""
    return _why_not(_with_mode(settings, "workspace")) if settings.sandbox.mode == "partial" else ""


def warn_of_sandbox(problem: str) -> None:
    """Print why commands are not confined as usual, where no screen shows it."""
    if problem:
        print(f"newel: {problem}", file=sys.stderr)  # noqa: T201 — for the user


def _with_mode(settings: Settings, mode: SandboxMode) -> Settings:
    sandbox = msgspec.structs.replace(settings.sandbox, mode=mode)
    return msgspec.structs.replace(settings, sandbox=sandbox)


def _why_not(settings: Settings, find: FindLocalPolicy | None = None) -> str:
    """Why commands would not be confined; "" if they are."""
    from newel.app.sandbox import find_failure
    from newel.workspace.sandbox.confinement import CannotStart

    try:
        return find_failure(settings, find)
    except CannotStart as error:
        return f"{error}{_namespace_hint()}"
    except WorkspaceError as error:
        return str(error)


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
