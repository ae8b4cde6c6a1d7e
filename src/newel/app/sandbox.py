"""Composes the sandbox of commands, from the settings."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import ConfigError
from newel.agent.events import AgentEvent, MessageStart, MessageUpdate
from newel.app.notices import NOT_SAVED, AgentNotices
from newel.concurrency import background_tasks
from newel.config.settings import SandboxSettings, Settings
from newel.storage.files import make_private, read_regular, replace_file
from newel.storage.temporary_folder import temporary_folder
from newel.text.json import exact_json
from newel.version import VERSION
from newel.workspace.sandbox.proxy_socket import serve_proxy
from newel.workspace.sandbox.sandbox_disk import LOCAL_DISK, SandboxDisk
from newel.workspace.sandbox.user_paths import (
    absolute_paths,
    existing_paths,
    leads_through_project,
    opened_paths,
)

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from newel.agent.agent import Agent
    from newel.app.network_questions import NetworkQuestions
    from newel.permissions.approval import AskApproval
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.port import Workspace
    from newel.workspace.sandbox.confinement import Confinement
    from newel.workspace.sandbox.domains import Domain
    from newel.workspace.sandbox.network_proxy import Allows
    from newel.workspace.sandbox.policy import SandboxMode, SandboxPolicy
    from newel.workspace.sandbox.repository import SandboxRepository
    from newel.workspace.sandbox.sandbox import CommandSandbox

    FindLocalPolicy = Callable[[Settings, str, str | None], SandboxPolicy]

DOES_NOT_HOLD: Final = "The {kind} does not hold on this machine: {failures}. Commands would not be confined."

TESTED: Final = "sandbox_tested.json"
"""The file with the policies for which the self-test has found nothing."""

MAX_TESTED: Final = 200

ABOUT_PARTIAL: Final = (
    "Commands run in a partial sandbox. They can change {writable}, {network}, and see little else of the home folder. HOME and TMPDIR are temporary folders: new files there are lost at "
    "the end, and /tmp is closed. Do not change the settings of tools in the project, nor those and the hooks of git: the user sees it. {outside}. Datagrams, "
    "pseudo-terminals and debuggers do not work"
)

ABOUT: Final = (
    "Commands run in a sandbox. They can change {writable}, {network}, and see little else of the home folder; new files there and in /tmp are lost at the end. Settings of tools in the "
    "project, `.git` among them, are read-only, but git itself can commit, switch, merge and rebase; hooks do not run. {outside}. Debuggers do not work"
)

ABOUT_HOST: Final = (
    "Commands run in a sandbox on that host. They can change {writable}, reach no server but those that they start, and see little else of the "
    "home folder; new files there and in /tmp are lost at the end. Settings of tools in the project, `.git` among them, are read-only, so git can "
    "read, but not commit or fetch. {outside}. Debuggers do not work"
)

LEFT_TO_USER: Final = "Leave what cannot work in it to the user: fetching, pushing, the settings of git"

ASKS_TO_LEAVE: Final = "A command that cannot work in it, such as fetching, pushing or docker, can be run outside with `unsandboxed`, if the user agrees: try to do without"


@asynccontextmanager
async def open_confined_host(
    settings: Settings,
    ask: AskApproval | None = None,
    notices: AgentNotices | None = None,
    find: FindLocalPolicy | None = None,
) -> AsyncGenerator[ExecutionHost]:
    """This machine, with its commands in a sandbox whose mode is that of the settings, where without one they can change nothing;
    ``ask`` is asked about servers that they want to reach, and ``notices`` tell that an answer could not be saved. Raises
    ``ConfigError`` and ``WorkspaceError``.
    """
    from newel.workspace.local import LocalHost

    async with AsyncExitStack() as stack:
        questions = _questions(settings, ask, notices or AgentNotices())
        serve = partial(_serve_proxy, settings, questions.allowed)
        proxies = await stack.enter_async_context(background_tasks())
        sandboxes = Sandboxes(
            settings,
            await proxies.start(serve, questions.allows),
            # Without one agent that could be asked, it depends on the call.
            partial(proxies.start, serve) if ask is None else None,
        )
        stack.push_async_callback(sandboxes.aclose)
        yield LocalHost(
            str(settings.cwd),
            find_launcher=sandboxes.of,
            find_server_launcher=sandboxes.of_server,
            find_policy=lambda folder: (find or find_policy)(settings, folder, None),
            sandbox=_describe(settings.sandbox, asks=ask is not None),
        )


class Sandboxes:
    """Those of a process, one for each folder of agents. ``open_proxy`` opens a proxy for one tool server; with None, all use ``proxy``."""

    def __init__(
        self,
        settings: Settings,
        proxy: str | None,
        open_proxy: Callable[[Allows], Awaitable[str]] | None = None,
    ) -> None:
        self._settings = settings
        self._project = os.path.realpath(settings.cwd)
        self._proxy = proxy
        self._open_proxy = open_proxy
        self._opened: dict[tuple[str, str], CommandSandbox] = {}

    def of(self, folder: str) -> CommandSandbox:
        return self._opened.get((folder, "")) or self._open(folder, "", self._proxy)

    async def of_server(self, name: str, allows: Allows) -> CommandSandbox:
        """That of a tool server: commands must not see its variables, which may be keys. ``allows`` decides what it may reach."""
        if opened := self._opened.get((self._project, name)):
            return opened
        proxy = self._proxy if self._open_proxy is None else await self._open_proxy(allows)
        return self._open(self._project, name, proxy)

    def _open(self, folder: str, server: str, proxy: str | None) -> CommandSandbox:
        from newel.workspace.process.left_processes import add_place

        # Asked with the first command: the start must not wait for git.
        find = partial(find_policy, self._settings, folder, proxy, asks_git=True)
        sandbox = self._opened[folder, server] = make_sandbox(self._settings.sandbox.mode, find)
        add_place(sandbox)  # that of a tool server, too: its scripts may be files that commands change
        return sandbox

    def close(self) -> None:
        while self._opened:
            self._opened.popitem()[1].close()

    async def aclose(self) -> None:
        """Close them in a thread: a sandbox that was stopped from inside takes a while."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)


def find_failure(settings: Settings, find: FindLocalPolicy | None = None) -> str:
    """Try what is forbidden in a sandbox of the project, once for each policy on this system; returns what does not hold, "" if all does.
    Raises ``WorkspaceError`` if there can be no sandbox.
    """
    # What is hidden belongs to the policy, and so does this folder once it exists.
    with contextlib.suppress(OSError):
        make_private(settings.home)
    policy = (find or find_policy)(settings, os.path.realpath(settings.cwd), None)
    path = settings.home / TESTED
    mode = settings.sandbox.mode
    key = _key_of(_facts(mode), policy)
    tested = _read_tested(path)
    if key in tested:
        return ""
    with contextlib.closing(make_sandbox(mode, lambda: policy)) as sandbox:
        if failures := sandbox.test():
            kind = "partial sandbox" if mode == "partial" else "sandbox"
            return DOES_NOT_HOLD.format(kind=kind, failures="; ".join(failures))
    with contextlib.suppress(OSError):  # then it is tested again
        replace_file(path, msgspec.json.encode([*tested[-MAX_TESTED:], key]))
    return ""


def make_sandbox(mode: SandboxMode | None, find: Callable[[], SandboxPolicy]) -> CommandSandbox:
    """The sandbox of a mode: the one place that chooses what confines commands."""
    if _is_seatbelt(mode):
        from newel.workspace.sandbox.seatbelt import SeatbeltSandbox

        return SeatbeltSandbox(find)
    from newel.workspace.sandbox.sandbox import Sandbox

    return Sandbox(find, _confinement(mode))


def _facts(mode: SandboxMode | None) -> Sequence[str]:
    """What a result of the self-test depends on, besides the policy. Raises ``WorkspaceError``."""
    if _is_seatbelt(mode):
        from newel.workspace.sandbox.seatbelt import seatbelt_facts

        return seatbelt_facts()
    return _confinement(mode).facts()


def _is_seatbelt(mode: SandboxMode | None) -> bool:
    return mode == "partial" and sys.platform == "darwin"


def _confinement(mode: SandboxMode | None) -> Confinement:
    if mode == "partial":
        from newel.workspace.sandbox.partial import PartialConfinement

        return PartialConfinement()
    from newel.workspace.sandbox.confinement import BubblewrapConfinement

    return BubblewrapConfinement()


def start_early(agent: Agent, host: ExecutionHost, folder: str) -> None:
    """Start the sandbox of a folder with the first piece of each answer: it takes as long as a short command. Earlier it would delay the
    request.
    """
    from newel.workspace.local import LocalHost

    awaits = False

    def on_event(event: AgentEvent) -> None:
        nonlocal awaits
        if isinstance(event, MessageUpdate):
            if awaits and isinstance(host, LocalHost):
                host.prepare(folder)
            awaits = False
        elif isinstance(event, MessageStart):
            awaits = True

    agent.subscribe(on_event)


def watch_commands(
    workspace: Workspace,
    policy: SandboxPolicy,
    notices: AgentNotices,
    *,
    is_on_host: bool,
    may_leave: bool,
) -> Workspace:
    """The workspace, with hints in the results of commands that the sandbox stops, and a notice when a command creates settings of tools
    that the sandbox would protect if they existed, or changes those that it cannot protect.
    """
    from newel.workspace.sandbox.hints import SandboxHints
    from newel.workspace.sandbox.settings_watch import SettingsWatch

    hinting = SandboxHints(
        workspace, policy, notices.take_refused, is_on_host=is_on_host, may_leave=may_leave
    )
    if not policy.writable:
        return hinting
    watched = [*policy.protected, *policy.watched]
    changing = watched
    if not policy.is_partial:  # a link itself can be replaced
        changing = [path for path in watched if not is_on_host and os.path.islink(path)]  # noqa: PTH114 — for each of fifty
    return SettingsWatch(hinting, watched, notices.of("settings_created"), changing)


def find_policy(
    settings: Settings, folder: str, proxy: str | None, *, asks_git: bool = False
) -> SandboxPolicy:
    """The policy for the commands of a folder of this machine."""
    from newel.app.outside_programs import find_outside_programs
    from newel.app.skills import exposed_folders
    from newel.workspace.sandbox.policy import is_below

    project = os.path.realpath(settings.cwd)
    # Newel itself, which a command may start, and its interpreter; in a checkout it is beside its environment.
    own = [sys.base_prefix, sys.prefix, str(Path(__file__).parents[2])]
    # In the project a skill is a file like others, which may be changed.
    own += [path for path in exposed_folders(settings.home) if not is_below(path, [project, folder])]
    machine = Machine(
        home=os.path.realpath(Path.home()),
        project=project,
        newel=str(settings.home),
        environ=os.environ,
        own=[os.path.realpath(path) for path in own],
        disk=LOCAL_DISK,
        asks_git=asks_git,
        outside=find_outside_programs(settings, Path(project), folder),
    )
    policy = policy_on(machine, settings, folder)
    return msgspec.structs.replace(policy, proxy=proxy)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where commands run: the real paths of the user's home folder and of the project, Newel's folder, the environment, and what commands
    see besides (``own``). ``asks_git``: git of this machine may be asked what it obeys, which takes as long as a short command.
    ``outside`` are programs of the project that Newel starts outside of the sandbox.
    """

    home: str
    project: str
    newel: str
    environ: Mapping[str, str]
    disk: SandboxDisk
    own: Sequence[str] = ()
    asks_git: bool = False
    outside: Sequence[str] = ()


def policy_on(machine: Machine, settings: Settings, folder: str) -> SandboxPolicy:
    """The policy for the commands of a folder of a machine."""
    from newel.permissions.secret_paths import (
        existing_denied_places,
        existing_moved_places,
        existing_secret_places,
    )
    from newel.workspace.sandbox.policy import SandboxPolicy, is_below
    from newel.workspace.sandbox.repository import find_sandbox_repository
    from newel.workspace.sandbox.toolchains import find_toolchains, is_of_project, missing_links

    home, disk = machine.home, machine.disk
    wanted = settings.sandbox
    secret = existing_secret_places(home, machine.newel, disk)
    # git's settings may include a file of `~/.ssh`.
    inside = [machine.project, folder]
    opened = absolute_paths(wanted.writable, home)
    changeable = [*inside, *map(disk.real, opened)]
    tools = [
        path
        for path in find_toolchains(home, machine.environ, disk)
        if not is_below(disk.real(path), secret)
        and (not is_below(path, inside) or is_of_project(disk.real(path), inside, disk))
    ]
    repository = find_sandbox_repository(folder, home, disk)
    of_git = [repository.top, repository.common] if repository is not None else []
    allowed = opened_paths(opened, changeable, home, disk)
    beside = [*machine.own, machine.project, folder, *of_git]
    beside += opened_paths(absolute_paths(wanted.readable, home), changeable, home, disk)
    readable = existing_paths([*tools, *beside], disk)
    is_partial = wanted.mode == "partial"
    writable = [folder, *allowed] if is_partial or wanted.mode == "workspace" else []
    denied = partial(existing_denied_places, settings.rules, home=home, project=folder, disk=disk)
    of_tools = _settings_of_tools(machine, repository, folder)
    if is_partial and repository is not None:  # git works in it directly: nothing there can be read-only
        of_tools.append(repository.common)
        writable += [] if is_below(repository.common, writable) else [repository.common]
    protected = [*([] if is_partial else of_tools), *denied("write")]
    shown = [home, *readable, *writable]
    of_project = [path for path in inside if not is_below(home, [path])]
    secret += existing_moved_places(machine.environ, shown, of_project, disk)
    hidden = [*secret, *_other_homes(shown, disk), *denied("read")]
    return SandboxPolicy(
        home=home,
        writable=writable,
        readable=[path for path in readable if path not in {home, "/", *writable}],
        protected=[path for path in protected if not is_below(path, allowed)],
        hidden=hidden,
        links=missing_links(tools, [*readable, *writable], hidden, disk),
        repository=repository if writable and not is_partial else None,
        limits=_limits(wanted),
        is_partial=is_partial,
        watched=[path for path in of_tools if is_partial and not is_below(path, allowed)],
    )


def _settings_of_tools(machine: Machine, repository: SandboxRepository | None, folder: str) -> list[str]:
    """The files of a folder that make programs outside of the sandbox run something, whether they exist or not."""
    from newel.workspace.sandbox.policy import SETTINGS_OF_TOOLS
    from newel.workspace.sandbox.repository import ask_for_hook_folders, find_git_settings

    disk = machine.disk
    of_tools = [*(f"{folder}/{name}" for name in SETTINGS_OF_TOOLS), *machine.outside]
    if repository is not None:
        of_tools += find_git_settings(repository, folder, machine.home, machine.environ, disk)
        of_tools += ask_for_hook_folders(repository, folder) if machine.asks_git else []
        if disk is LOCAL_DISK:  # an index may have megabytes
            from newel.workspace.sandbox.submodules import find_submodule_settings

            of_tools += find_submodule_settings(repository, folder, disk)
        of_tools = list(dict.fromkeys(of_tools))
    # Behind a link within the project, a tool obeys what it leads to.
    real_paths = ((path, disk.real(path)) for path in of_tools)
    return [
        *of_tools,
        *(real for path, real in real_paths if real != path and real.startswith(f"{folder}/")),
    ]


def _limits(wanted: SandboxSettings) -> dict[str, int]:
    given = {
        "RLIMIT_NPROC": wanted.max_processes,
        "RLIMIT_AS": _bytes(wanted.max_memory),
        "RLIMIT_FSIZE": _bytes(wanted.max_file),
    }
    return {"RLIMIT_CORE": 0} | {name: most for name, most in given.items() if most is not None}


def paths_without_effect(settings: Settings) -> Iterator[str]:
    """Why paths of the settings show or open nothing to commands of this machine, for the user."""
    project = os.path.realpath(settings.cwd)
    hidden = find_policy(settings, project, None).hidden
    home = os.path.realpath(Path.home())
    for name, paths in (("writable", settings.sandbox.writable), ("readable", settings.sandbox.readable)):
        for path, (named,) in ((path, absolute_paths([path], home)) for path in paths):
            real = os.path.realpath(named)
            if not os.path.lexists(named):
                yield f"[sandbox] {name}: {path} does not exist, so commands cannot use it. Create it first."
            elif leads_through_project(named, [project], home, LOCAL_DISK):
                yield f"[sandbox] {name}: {path} leads to {real} through a link in a project, which a command may have made. Name {real} itself."
            elif real in hidden:
                yield f"[sandbox] {name}: {path} holds secrets and stays hidden. Name the files in it that commands may see."


def describe_limits(wanted: SandboxSettings) -> str:
    """The limits that a sandbox has as a whole on this machine, or why it has none, for the user."""
    from newel.workspace.sandbox.control_group import NoControlGroup, try_limits

    try:
        return f"{try_limits(_limits(wanted))} for all commands together"
    except NoControlGroup as error:
        return f"none for all commands together: {error}"


def _bytes(gibibytes: float | None) -> int | None:
    return None if gibibytes is None else round(gibibytes * (1 << 30))


def _key_of(facts: Sequence[str], policy: SandboxPolicy) -> str:
    """What a result of the self-test depends on."""
    system = os.uname()
    facts = [
        *(VERSION, system.release, system.version, str(os.geteuid()), *facts),
        exact_json(policy).decode(),
    ]
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest()


def _read_tested(path: Path) -> list[str]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_regular(path), type=list[str])
    return []


def _other_homes(shown: list[str], disk: SandboxDisk) -> list[str]:
    """The home folders of other users, of which root may see all."""
    from newel.workspace.sandbox.policy import is_below

    homes = [path for path in disk.match(["/root", "/home/*", "/Users/*"]) if disk.is_folder(path)]
    return [home for home in homes if not any(is_below(path, [home]) for path in shown)]


def _questions(settings: Settings, ask: AskApproval | None, notices: AgentNotices) -> NetworkQuestions:
    from newel.app.network_questions import NetworkQuestions
    from newel.permissions.allowlist import ServerAllowlist

    folder = os.path.realpath(settings.cwd)
    questions = NetworkQuestions(
        ServerAllowlist(settings.home, folder), folder, ask, notices.of(NOT_SAVED), notices.note_refused
    )
    notices.on_run_end = questions.withdraw
    notices.reach = questions.allows_tool_server
    return questions


async def _serve_proxy(
    settings: Settings,
    kept: Callable[[], Sequence[Domain]],
    allows: Allows,
    *,
    task_status: TaskStatus[str],
) -> None:
    """Run a network proxy, which explains a refusal even where no server is allowed; it has started with the path of its socket. Raises
    ``ConfigError``.
    """
    configured = _configured(settings.sandbox.domains)
    with temporary_folder() as folder:
        path = Path(folder) / "proxy.sock"
        async with background_tasks() as group:
            await group.start(partial(serve_proxy, path, configured, kept, allows))
            task_status.started(str(path))
            await anyio.sleep_forever()


def _configured(domains: Sequence[str]) -> Sequence[Domain]:
    """Raises ``ConfigError``."""
    if not domains:
        return ()
    from newel.workspace.sandbox.domains import parse_domain

    try:
        return [*map(parse_domain, domains)]
    except ConfigError as error:
        raise ConfigError(f"[sandbox] domains: {error}") from error


def _describe(wanted: SandboxSettings, *, asks: bool) -> str:
    """For the model."""
    domains = ", ".join(wanted.domains)
    reached = f"reach only these servers: {domains}" if domains else "reach no server"
    return (ABOUT_PARTIAL if wanted.mode == "partial" else ABOUT).format(
        writable="nothing" if wanted.mode == "read-only" else "only the project",
        outside=ASKS_TO_LEAVE if asks and wanted.mode != "read-only" else LEFT_TO_USER,
        network=f"{reached}{', and others only if the user allows it when they are asked' if asks else ''}",
    )
