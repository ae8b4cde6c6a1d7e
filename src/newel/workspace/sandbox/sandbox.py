"""A sandbox of bubblewrap for the commands of one folder: started with the first command, and there until it is closed, so that
servers in the background live on between commands.

    LocalWorkspace.run -> ChildProcess -> Sandbox.start ── socket ──> launcher_main, inside ── fork, exec ──> the command

Nothing ever runs outside instead: if bubblewrap is missing or does not hold what it should, starting a command fails.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import platform
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.abc import InspectLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from newel.agent.errors import WorkspaceError
from newel.workspace.process.launcher import DirectLauncher, Stream
from newel.workspace.process.process_mark import number_of_mark
from newel.workspace.process.process_tree import ProcessTree
from newel.workspace.sandbox import launcher_main
from newel.workspace.sandbox.bubblewrap import PROXY, bubblewrap
from newel.workspace.sandbox.launcher_main import MAX_PACKET, PROXY_PORT
from newel.workspace.sandbox.policy import INSIDE, PROXY_VARIABLES, SandboxPolicy
from newel.workspace.sandbox.seccomp import MACHINES, in_memory, seccomp_filter

if TYPE_CHECKING:
    from newel.workspace.sandbox.git_broker import GitBroker

START_S: Final = 10.0
"""Seconds for the sandbox to start."""

ANSWER_S: Final = 3.0
"""Seconds for an answer from inside: a command may stop the launcher, and must not stop Newel with it."""

END_S: Final = 1.0
"""Seconds for it to end by itself."""

PROGRAMS_INSIDE: Final = "/run/newel/bin"
"""First on the ``PATH`` of commands: the ``git`` that passes on what changes the repository."""

PROGRAMS: Final = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
"""Where bubblewrap is looked for: a project's folder may be on PATH."""


class SandboxError(WorkspaceError):
    """The sandbox cannot be used; no command runs."""


class CannotStart(SandboxError):
    """bubblewrap is there, and ended instead of starting the sandbox."""


class SandboxedProcess:
    """A process inside, as ``newel.workspace.process.launcher.StartedProcess``. ``inside`` is its number there, ``descriptor`` a pidfd."""

    def __init__(self, sandbox: Sandbox, inside: int, descriptor: int) -> None:
        self.inside = inside
        self.pid = _pid_of(descriptor)
        self.returncode: int | None = None
        self.descriptor = descriptor
        self._sandbox = sandbox

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ended = select.poll()  # not `select`, which takes no descriptor above 1,023
            ended.register(self.descriptor, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("a command in the sandbox", timeout or 0)
            self.returncode = self._sandbox.status_of(self.inside)
            os.close(self.descriptor)
        return self.returncode

    def kill(self) -> None:
        import signal

        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)


class Sandbox:
    """Implements ``newel.workspace.process.launcher.ProcessLauncher``. ``find_policy`` is asked when it starts.

    Any thread may use it, one at a time.
    """

    def __init__(self, find_policy: Callable[[], SandboxPolicy]) -> None:
        self._find_policy = find_policy
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._processes: ProcessTree | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._statuses: dict[int, int] = {}
        self._policy: SandboxPolicy | None = None
        self._broker: GitBroker | None = None
        self._protected: Mapping[str, tuple[int, int]] = {}

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: tuple[Stream, Stream, Stream],
        mark: str,
    ) -> SandboxedProcess:
        with self._lock:
            if self._socket is not None and self._protected != _identities(self._protected):
                self._stop()  # a protected file was replaced outside, and with it what was mounted on it
            if self._socket is None:
                self._start()
            request = {
                "argv": list(argv),
                "cwd": cwd,
                "env": self._environ(env),
                "number": number_of_mark(mark),
                "limits": {} if self._policy is None else dict(self._policy.limits),
            }
            descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
            return self._launch(request, descriptors)

    def test(self) -> list[str]:
        """Try what is forbidden; returns what was possible, none if the sandbox holds. Raises ``SandboxError``."""
        return self.test_against(self._find_policy())

    def test_against(self, policy: SandboxPolicy) -> list[str]:
        """Try what a policy forbids, in this sandbox."""
        with self._lock, socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            if self._socket is None:
                self._start()
            home = Path(policy.home)
            with contextlib.suppress(OSError):
                hidden = [str(path) for path in home.iterdir() if not _is_shown(str(path), policy)]
                return self._ask(
                    {
                        "unwritable": ["/", "/usr", "/etc", *policy.protected],
                        "hidden": hidden[:100],
                        "port": listener.getsockname()[1],
                    }
                )
            return ["the home folder cannot be read"]

    def close(self) -> None:
        """End everything inside."""
        with self._lock:
            self._stop()

    # -- the process --------------------------------------------------------------------------------

    def _start(self) -> None:
        program, policy = find_bubblewrap(), self._find_policy()
        protected = _identities(policy.protected)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        broker, files = self._open_broker(program, policy)
        passed = [theirs] if broker is None else [theirs, broker.theirs]
        with theirs, in_memory(seccomp_filter()) as seccomp, in_memory(_launcher_code(files)) as code:
            arguments = [
                *bubblewrap(program, policy, seccomp.fileno()),
                *(own_python(), "-I", "-S", "-c", _START, str(code.fileno())),
                *(str(theirs.fileno()), PROXY if policy.proxy else ""),
                str(-1 if broker is None else broker.theirs.fileno()),
            ]
            self._processes = ProcessTree({"PATH": os.defpath})
            launcher = DirectLauncher((seccomp.fileno(), code.fileno(), *(each.fileno() for each in passed)))
            try:
                self._process = self._processes.launch(
                    launcher,
                    arguments,
                    cwd="/",
                    streams=(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.PIPE),
                )
            except OSError as error:
                ours.close()
                raise SandboxError(f"The sandbox could not be started: {error.strerror}.") from error
        ours.settimeout(START_S)
        self._socket, self._policy, self._protected = ours, policy, protected
        self._statuses.clear()
        try:
            self._ask({})  # nothing: only that it answers
        except (OSError, SandboxError) as error:
            reason = self._last_words()
            self._stop()
            raise CannotStart(f"The sandbox could not be started: {reason or error}.") from error
        ours.settimeout(ANSWER_S)

    def _open_broker(self, program: str, policy: SandboxPolicy) -> tuple[GitBroker | None, Mapping[str, str]]:
        """What runs git for the commands, and its files inside; none if there is no repository that they could change."""
        from newel.workspace.sandbox.git_broker import GIT_PROGRAMS, GitBroker
        from newel.workspace.sandbox.git_shim import shim_files

        git = shutil.which("git", path=GIT_PROGRAMS)
        if policy.repository is None or not policy.writable or git is None:
            return None, {}
        self._broker = GitBroker(self._find_policy, program, own_python())
        return self._broker, shim_files(git, own_python())

    def _stop(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(END_S)  # the launcher ends with its socket, and with it everything inside
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None
        if self._processes is not None:
            self._processes.forget()
            self._processes = None

    def _last_words(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return ""
        process.kill()
        text = process.stderr.read(4096).decode(errors="replace").strip()
        return text.splitlines()[-1].removesuffix(".") if text else ""

    # -- the socket ---------------------------------------------------------------------------------

    def _launch(self, request: dict[str, Any], streams: Sequence[int]) -> SandboxedProcess:
        try:
            self._send(request, streams)
        except OSError:  # a command has ended it from inside, and this one has not begun
            self._stop()
            self._start()
            self._send(request, streams)
        try:
            answer, descriptors = self._receive("pid", "errno")
        except (OSError, SandboxError) as error:
            self._stop()
            raise SandboxError(
                "The sandbox has ended, and its background processes with it. Run the command again."
            ) from error
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["file"] or None)
        return SandboxedProcess(self, answer["pid"], descriptors[0])

    def _ask(self, test: dict[str, Any]) -> list[str]:
        """Have the self-test run; returns what was possible."""
        self._send({"test": test}, ())
        return list(self._receive("failures")[0]["failures"])

    def _send(self, request: dict[str, Any], streams: Sequence[int]) -> None:
        """Requests are files, because the system limits the size of a packet."""
        with in_memory(marshal.dumps(request)) as file:
            socket.send_fds(self._connection(), [b"request"], [file.fileno(), *streams])

    def status_of(self, inside: int) -> int:
        """The exit code of a process that has ended; that of a killed one if the sandbox has ended first."""
        with self._lock:
            while inside not in self._statuses:
                try:
                    self._receive("status")
                except (OSError, SandboxError):
                    self._stop()  # a command may end the launcher; the next one gets a new sandbox
                    return -9
            return self._statuses.pop(inside)

    def _receive(self, *wanted: str) -> tuple[dict[str, Any], list[int]]:
        """The next answer with one of these fields; statuses are kept. Raises ``OSError`` and ``SandboxError``."""
        import json

        while True:
            packet, descriptors, _, _ = socket.recv_fds(self._connection(), MAX_PACKET, 1)
            if not packet:
                raise SandboxError("The sandbox has ended.")
            answer = json.loads(packet)
            if "status" in answer:
                self._statuses[answer["pid"]] = answer["status"]
                if "status" in wanted:
                    return answer, descriptors
            elif any(field in answer for field in wanted):
                return answer, descriptors

    def _connection(self) -> socket.socket:
        if self._socket is None:
            raise SandboxError("The sandbox has ended.")
        return self._socket

    def _environ(self, env: Mapping[str, str]) -> dict[str, str]:
        policy = self._policy
        inside = {name: value for name, value in env.items() if name not in PROXY_VARIABLES}
        inside |= {"TMPDIR": "/tmp", "NEWEL_SANDBOX": INSIDE}  # noqa: S108 — it is private
        if self._broker is not None:
            inside["PATH"] = f"{PROGRAMS_INSIDE}:{inside.get('PATH', os.defpath)}"
        if policy is not None and policy.proxy is not None:
            address = f"http://127.0.0.1:{PROXY_PORT}"
            inside |= dict.fromkeys(PROXY_VARIABLES[:4], address) | {"NO_PROXY": "localhost,127.0.0.1,::1"}
        return inside


_START: Final = """
import marshal, os, sys
with os.fdopen(int(sys.argv[1]), "rb") as given:
    code, files = marshal.load(given)
scope = {"__name__": "launcher"}
exec(code, scope)
scope["main"](int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), files)
"""


def _launcher_code(files: Mapping[str, str]) -> bytes:
    """The launcher, compiled as it is in this process, and the files that it writes: compiling it takes 3 ms."""
    loader = launcher_main.__loader__
    assert isinstance(loader, InspectLoader)  # noqa: S101 — that of any module with a file
    return marshal.dumps((loader.get_code(launcher_main.__name__), dict(files)))


def find_bubblewrap() -> str:
    """The path of bubblewrap. Raises ``SandboxError`` if this machine has none that can be used."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        raise SandboxError(f"The sandbox needs Linux on {' or '.join(MACHINES)}.")
    if program := shutil.which("bwrap", path=PROGRAMS):
        return program
    raise SandboxError(
        "The sandbox needs bubblewrap, which is not installed (Debian, Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`)."
    )


def own_python() -> str:
    """The interpreter that runs the launcher, without a virtual environment."""
    return os.path.realpath(sys.executable)


def _identities(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Device and inode of the paths that exist."""
    found: dict[str, tuple[int, int]] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            state = os.lstat(path)
            found[path] = (state.st_dev, state.st_ino)
    return found


def _pid_of(descriptor: int) -> int:
    """The number, outside, of the process that a pidfd stands for."""
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def _is_shown(path: str, policy: SandboxPolicy) -> bool:
    shown = [*policy.readable, *policy.writable, *policy.links]
    return any(each == path or each.startswith(f"{path}/") or path.startswith(f"{each}/") for each in shown)
