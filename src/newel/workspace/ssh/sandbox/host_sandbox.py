"""The sandbox of a folder on a host: bubblewrap there, with a small sh inside that starts each command.

    this machine                       the host
    HostSandbox.ready   ── session ──> run.sh ─> keeper.sh ─> bubblewrap [ launcher.sh ]
                                                                 ▲  ▼ FIFOs in a private folder
    run_on_host         ── session ──> run.sh ───────────────────┘
                                          └─ heartbeats, time limits, the end of all processes, as without a sandbox

Nothing needs Python there. What Newel has on the host stays outside: of all of it, commands see these FIFOs.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from newel.agent.errors import ConnectionLost, HostUnreachable, WorkspaceError
from newel.workspace.process.output import OutputLimits
from newel.workspace.sandbox.bubblewrap import REPLACED, find_mounted, mountable, options
from newel.workspace.sandbox.policy import INSIDE, PROXY_VARIABLES, SandboxPolicy
from newel.workspace.sandbox.sandbox_disk import literal
from newel.workspace.sandbox.seccomp import MACHINES, seccomp_filter
from newel.workspace.ssh.port import quote
from newel.workspace.ssh.process import Client, SandboxRef, run_on_host, run_program_on_host, text_of
from newel.workspace.ssh.sandbox.host_disk import HostDisk
from newel.workspace.ssh.thread_bridge import ThreadBridge

if TYPE_CHECKING:
    from newel.workspace.ssh.connection import SshConnection

PROGRAMS: Final = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
"""Where bubblewrap is looked for: a project's folder may be on PATH."""

INSIDE_FOLDER: Final = "/run/newel"
"""Where the folder with the FIFOs is inside; also in ``keeper.sh``."""

FILTER_DESCRIPTOR: Final = 9
"""The descriptor of the filter of system calls in ``keeper.sh``."""

OPTIONS: Final = {"RLIMIT_NPROC": "nproc", "RLIMIT_AS": "as", "RLIMIT_FSIZE": "fsize"}
"""Of ``prlimit``, for the limits of a policy. ``keeper.sh`` sets that of core dumps, which every sandbox has."""

START_S: Final = 20.0
"""Seconds for the sandbox to start."""

TEST_S: Final = 20.0
"""Seconds for the self-test."""

MAX_HIDDEN: Final = 100
"""Paths of the home folder that the self-test looks for."""


class HostSandboxError(WorkspaceError):
    """The sandbox cannot be used; no command runs."""


class CannotStartOnHost(HostSandboxError):
    """bubblewrap is there, and ended instead of starting the sandbox."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``machine`` is that of ``uname -m``, ``bubblewrap`` its path or empty, ``variables`` those of the environment that name
    programs, ``namespaces`` those of the login, ``server`` address and port of its sshd.
    """

    machine: str
    bubblewrap: str
    namespaces: Sequence[str]
    server: str
    variables: dict[str, str]


FindHostPolicy = Callable[[HostDisk, HostFacts, str], SandboxPolicy]
"""Finds the policy for a folder. Runs in a thread, and may raise ``NewelError``."""


class HostSandboxes:
    """The sandboxes of a connection, one for each folder that agents work in. bubblewrap is looked for in ``programs``."""

    def __init__(
        self, connection: SshConnection, find_policy: FindHostPolicy, *, programs: str = PROGRAMS
    ) -> None:
        self.host = connection.host
        self._connection = connection
        self._find = find_policy
        self._programs = programs
        self._opened: dict[str, HostSandbox] = {}
        self._facts: HostFacts | None = None

    def of(self, folder: str) -> HostSandbox:
        if folder not in self._opened:
            self._opened[folder] = HostSandbox(self._connection, partial(self._find_policy, folder))
        return self._opened[folder]

    async def find_failure(self, folder: str) -> str:
        """Try what is forbidden in the sandbox of a folder; returns what does not hold, "" if all does. Raises ``WorkspaceError`` if
        there can be no sandbox.
        """
        return "; ".join(await self.of(folder).test())

    async def close(self) -> None:
        """End everything inside."""
        for sandbox in self._opened.values():
            await sandbox.end()

    async def policy(self, folder: str) -> SandboxPolicy:
        """Raises ``NewelError``."""
        return (await self.of(folder).plan()).policy

    async def _find_policy(self, folder: str) -> SandboxPlan:
        facts = await self._read_facts()
        bridge = ThreadBridge(self._connection)
        disk = HostDisk(bridge)

        def find() -> SandboxPlan:
            policy = self._find(disk, facts, folder)
            shown = [*policy.readable, *policy.writable, *policy.links]
            below = disk.match([f"{literal(policy.home.rstrip('/'))}/*"])
            hidden = [path for path in below if not any(_overlap(path, each) for each in shown)]
            return SandboxPlan(
                facts=facts,
                policy=policy,
                options=options(policy, FILTER_DESCRIPTOR, disk),
                hidden=[path for path in hidden if "\n" not in path][:MAX_HIDDEN],
            )

        return await bridge.run_in_thread(find)

    async def _read_facts(self) -> HostFacts:
        if self._facts is None:
            answer = await self._connection.ask(f"newel_sandbox_facts {quote(self._programs)}")
            fields = [field.decode(errors="surrogateescape") for field in answer.data.split(b"\0")[:-1]]
            pairs = {name: value for name, _, value in (field.partition("=") for field in fields)}
            server = pairs.pop("server", "").split()
            facts = HostFacts(
                machine=pairs.pop("machine", ""),
                bubblewrap=pairs.pop("bubblewrap", ""),
                namespaces=pairs.pop("namespaces", "").split(),
                server=" ".join(server[2:4]),
                variables=pairs,
            )
            _check(facts, self._connection)
            self._facts = facts
        return self._facts


def _check(facts: HostFacts, connection: SshConnection) -> None:
    """Raises ``HostSandboxError`` for a host that can have no sandbox."""
    place, system = connection.host, connection.info.system
    if system != "Linux" or facts.machine not in MACHINES:
        raise HostSandboxError(
            f"The sandbox needs Linux on {' or '.join(MACHINES)}, and {place} has {system or 'another system'} on {facts.machine}."
        )
    if not facts.bubblewrap:
        raise HostSandboxError(
            f"The sandbox needs bubblewrap on {place}, where it is not installed (Debian, Ubuntu: `apt-get install bubblewrap`; "
            "Fedora: `dnf install bubblewrap`)."
        )


def _overlap(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


class SandboxPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with all that it needs on the host; ``hidden`` are paths of the home folder that it does not show."""

    facts: HostFacts
    policy: SandboxPolicy
    options: Sequence[str]
    hidden: Sequence[str]


class HostSandbox:
    """One sandbox; ``find_plan`` is asked when it starts."""

    def __init__(self, connection: SshConnection, find_plan: Callable[[], Awaitable[SandboxPlan]]) -> None:
        self._connection = connection
        self._find_plan = find_plan
        self._lock = anyio.Lock()
        self._running: _RunningSandbox | None = None

    async def plan(self) -> SandboxPlan:
        """That of the running sandbox, or of the next one."""
        running = self._running
        return await self._find_plan() if running is None or running.has_ended else running.plan

    async def ready(self) -> SandboxRef:
        """Where ``run_on_host`` starts commands. Starts the sandbox if there is none. Raises ``WorkspaceError``."""
        return (await self._ready()).inside

    async def end(self) -> None:
        """End everything inside; the next command gets a new sandbox."""
        async with self._lock:
            await self._end()

    async def test(self) -> list[str]:
        """Try what is forbidden; returns what was possible, none if the sandbox holds. Raises ``WorkspaceError``."""
        running = await self._ready()
        plan = running.plan
        names = {
            "unwritable": ["/", "/usr", "/etc", *plan.policy.protected],
            "hidden": plan.hidden,
            "outside": plan.facts.namespaces,
        }
        lines = [f"{name}={quote_lines(values)}" for name, values in names.items()]
        lines.append(f"server={quote(plan.facts.server)}")
        done = await run_on_host(
            await self._connection.client(),
            f"sh -c {quote_lines(['n=', *lines, text_of('sandbox/self_test.sh')])}",
            root="/",
            limits=OutputLimits(),
            inside=running.inside,
            timeout=TEST_S,
        )
        *failures, last = done.stdout.splitlines() or [""]
        if last != "tested":
            return ["the self-test did not finish"]
        return list(dict.fromkeys(failures))

    async def _ready(self) -> _RunningSandbox:
        async with self._lock:
            running = self._running
            if running is None or running.has_ended or await self._has_changed(running):
                await self._end()
                running = self._running = await self._start()
            return running

    async def _has_changed(self, running: _RunningSandbox) -> bool:
        """Whether a folder or a protected file was replaced outside, and with it what was mounted on it."""
        return running.mounted != await self._identities(_mounted(running.plan.policy))

    async def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.end()

    async def _start(self) -> _RunningSandbox:
        plan = await self._find_plan()
        found = await self._identities(mountable(plan.policy))
        sources = {path: text for path, text in found.items() if text[:1].isdigit()}
        compared = find_mounted(plan.options, plan.policy, sources)
        if compared is None:
            raise HostSandboxError(REPLACED)
        mounted = {path: found.get(path, "") for path in _mounted(plan.policy)}
        running = _RunningSandbox(plan, mounted, compared, await self._connection.client())
        self._connection.attach(running.keep)
        with anyio.move_on_after(START_S):
            await running.began.wait()
        if running.is_ready:
            return running
        if isinstance(running.error, ConnectionLost | HostUnreachable):
            raise running.error  # it says nothing about the sandbox
        with anyio.CancelScope(shield=True):
            await running.end()
        if running.is_other:
            raise HostSandboxError(REPLACED)
        raise CannotStartOnHost(
            f"The sandbox on {self._connection.host} could not be started: {running.reason or 'it does not answer'}."
        )

    async def _identities(self, paths: Iterable[str]) -> dict[str, str]:
        """Device and inode of each path, with an l before those of a link, or none."""
        paths = list(dict.fromkeys(paths))
        answer = await self._connection.ask(f"newel_identities {' '.join(map(quote, paths))}")
        return dict(zip(paths, answer.data.decode(errors="replace").split(), strict=False))


def _mounted(policy: SandboxPolicy) -> list[str]:
    """The paths at which commands see what was there at the start."""
    return [*policy.writable, *policy.protected]


class _RunningSandbox:
    """A sandbox on its host, from its start to its end. ``began`` is set once it is ready, or has ended. ``mounted`` and ``compared``
    are identities: of what commands see, and of what is compared inside before any command runs. ``is_other``: they differed.
    """

    def __init__(
        self, plan: SandboxPlan, mounted: Mapping[str, str], compared: Mapping[str, str], client: Client
    ) -> None:
        self.plan = plan
        self.mounted = mounted
        self._compared = compared
        self.is_other = False
        exchange = f"/tmp/.newel-sandbox-{secrets.token_hex(16)}"  # noqa: S108 — made there, for its user only
        limits = [f"--{OPTIONS[name]}={most}" for name, most in plan.policy.limits.items() if name in OPTIONS]
        self.inside = SandboxRef(exchange=exchange, limits=limits)
        self.began = anyio.Event()
        self.is_ready = False
        self.reason = ""
        """Why it has ended."""
        self.error: WorkspaceError | None = None
        self._client = msgspec.structs.replace(client, busy=nullcontext)  # it waits for nothing
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    async def keep(self) -> None:
        """Keep it until it ends, or ``end`` is called."""
        try:
            with self._scope:
                argv = [*("sh", "-c", text_of("sandbox/keeper.sh"), "sh"), *self._parameters()]
                stdin = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in self._options())
                done = await run_program_on_host(self._client, argv, stdin=stdin, on_stdout=self._hear)
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                self.reason = (
                    lines[-1].removesuffix(".") if lines else f"bubblewrap ended with {done.exit_code}"
                )
        except WorkspaceError as error:
            self.error, self.reason = error, str(error).removesuffix(".")
        finally:
            self.is_ready = False
            self._ended.set()
            self.began.set()

    async def end(self) -> None:
        self._scope.cancel()
        with anyio.move_on_after(START_S):
            await self._ended.wait()

    async def _hear(self, data: bytes) -> None:
        self.is_other = data.startswith(b"other")
        if data.startswith(b"ready"):
            self.is_ready = True
            self.began.set()

    def _parameters(self) -> list[str]:
        facts = self.plan.facts
        octal = "".join(f"\\0{byte:03o}" for byte in seccomp_filter(facts.machine))
        return [self.inside.exchange, facts.bubblewrap, octal, text_of("sandbox/launcher.sh")]

    def _options(self) -> list[str]:
        policy = self.plan.policy
        unset = [word for name in PROXY_VARIABLES for word in ("--unsetenv", name)]
        mounted = shlex.join([" ".join(self._compared.values()), *self._compared])
        folder = policy.writable[0] if policy.writable else "/"
        return [
            *("--die-with-parent", *self.plan.options),
            *("--ro-bind", self.inside.exchange, INSIDE_FOLDER),
            *("--setenv", "TMPDIR", "/tmp", "--setenv", "NEWEL_SANDBOX", INSIDE, *unset),  # noqa: S108 — it is private
            *("--setenv", "NEWEL_MOUNTED", mounted),
            *("--chdir", folder),
        ]


def quote_lines(lines: Sequence[str]) -> str:
    """A word of sh text with these lines."""
    return shlex.quote("\n".join(lines))
