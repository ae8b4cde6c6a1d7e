"""Opens the place where agents work, with the sandbox that holds there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from newel.app.sandbox_choice import NO_PARTIAL_THERE, choose_sandbox, decide, wanted, why_not_on
from newel.config.settings import Settings

if TYPE_CHECKING:
    from newel.app.notices import AgentNotices
    from newel.permissions.approval import AskApproval
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.sandbox.policy import SandboxMode, SandboxPolicy
    from newel.workspace.ssh.connection import SshConnection
    from newel.workspace.ssh.sandbox.host_disk import HostDisk
    from newel.workspace.ssh.sandbox.host_sandbox import FindHostPolicy, HostFacts, HostSandboxes


class AgentPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where agents work, with the settings that hold there. ``decide`` is asked again for other settings, such as those of another approval
    mode; it raises ``ConfigError``.
    """

    host: ExecutionHost
    settings: Settings
    decide: Callable[[Settings], Settings]


@asynccontextmanager
async def open_agent_place(
    settings: Settings, ask: AskApproval | None = None, notices: AgentNotices | None = None, *, attended: bool
) -> AsyncGenerator[AgentPlace]:
    """The folder of the settings, on this machine or on their host, with its commands in a sandbox unless it is off. ``attended`` means
    that a user answers questions; those about servers go to ``ask``, and what cannot be kept to ``notices``.

    On this machine all is decided before anything is opened. A host is asked once there is a connection: one that cannot be reached is an
    error, whatever its sandbox. Raises ``ConfigError`` and ``WorkspaceError``.
    """
    async with AsyncExitStack() as stack:
        if settings.host is not None and settings.sandbox.mode != "off":
            yield await _open_far(settings, settings.host, stack, attended=attended)
            return
        policies = _Policies()
        chosen = choose_sandbox(settings, attended=attended, find=policies.find)
        if chosen.sandbox.mode == "off":
            from newel.app.hosts import open_host

            opened = open_host(chosen.cwd, chosen.host)
        else:
            from newel.app.sandbox import open_confined_host

            opened = open_confined_host(chosen, ask, notices, policies.find_again)
        yield AgentPlace(
            host=await stack.enter_async_context(opened),
            settings=chosen,
            decide=lambda other: choose_sandbox(other, attended=attended),
        )


class _Policies:
    """Finds policies of this machine. The start asks for that of the project twice, for the self-test and soon after for the tools, and
    finds it once. Later ones are found anew: what a project and a home folder hold changes.
    """

    def __init__(self) -> None:
        self._found: tuple[Settings, str, SandboxPolicy] | None = None

    def find(self, settings: Settings, folder: str, proxy: str | None) -> SandboxPolicy:
        from newel.app.sandbox import find_policy

        policy = find_policy(settings, folder, proxy)
        self._found = settings, folder, policy
        return policy

    def find_again(self, settings: Settings, folder: str, proxy: str | None) -> SandboxPolicy:
        found, self._found = self._found, None
        if found is not None and found[:2] == (settings, folder):
            return found[2]
        from newel.app.sandbox import find_policy

        return find_policy(settings, folder, proxy)


async def _open_far(settings: Settings, host: str, stack: AsyncExitStack, *, attended: bool) -> AgentPlace:
    from newel.app.hosts import connect_to
    from newel.workspace.ssh.target import Target

    connection = await stack.enter_async_context(connect_to(Target.parse(host)))
    return await place_on(connection, settings, attended=attended)


async def place_on(connection: SshConnection, settings: Settings, *, attended: bool) -> AgentPlace:
    """The folder of a connection; see ``open_agent_place``. Raises ``ConfigError`` and ``WorkspaceError``."""
    from newel.workspace.ssh.workspace import SshHost

    sandboxes = sandboxes_on(connection, wanted(settings))
    why = await why_not_on(sandboxes, connection.info.root)
    chosen = decide(settings, why, NO_PARTIAL_THERE, attended=attended)
    mode = chosen.sandbox.mode
    if mode == "off":
        await sandboxes.close()
        place = SshHost(connection)
    else:
        place = SshHost(connection, sandboxes=sandboxes, sandbox=_describe(mode, asks=attended))
    return AgentPlace(
        host=place,
        settings=chosen,
        decide=lambda other: decide(other, why, NO_PARTIAL_THERE, attended=attended),
    )


def _describe(mode: SandboxMode | None, *, asks: bool) -> str:
    """For the model, about the commands on a host."""
    from newel.app.sandbox import ABOUT_HOST, ASKS_TO_LEAVE, LEFT_TO_USER

    is_read_only = mode != "workspace"
    return ABOUT_HOST.format(
        writable="nothing" if is_read_only else "only the project",
        outside=ASKS_TO_LEAVE if asks and not is_read_only else LEFT_TO_USER,
    )


def sandboxes_on(connection: SshConnection, settings: Settings) -> HostSandboxes:
    """The sandboxes of a host, by the mode and the paths of the settings."""
    from newel.workspace.ssh.sandbox.host_sandbox import HostSandboxes

    return HostSandboxes(connection, policy_finder(connection, settings))


def policy_finder(connection: SshConnection, settings: Settings) -> FindHostPolicy:
    """Finds the policy for a folder of a host."""
    from newel.app.sandbox import Machine, policy_on

    def find_policy(disk: HostDisk, facts: HostFacts, folder: str) -> SandboxPolicy:
        home = connection.info.home
        machine = Machine(
            home=home,
            project=connection.info.root,
            newel=f"{home}/.newel",
            environ=facts.variables,
            disk=disk,
        )
        return policy_on(machine, settings, folder)

    return find_policy
