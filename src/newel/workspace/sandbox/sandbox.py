"""A sandbox for the commands of one folder: started with the first command, and there until it is closed, so that servers in the
background live on between commands. A ``Confinement``, such as bubblewrap, makes it.

    LocalWorkspace.run -> ChildProcess -> Sandbox.start ── socket ──> launcher_main, inside ── fork, exec ──> the command

Nothing ever runs outside instead: if what makes it is missing or does not hold what it should, starting a command fails.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any, Final, Protocol

from newel.agent.errors import WorkspaceError
from newel.workspace.process.launcher import DirectLauncher, ProcessLauncher, StartedProcess, Stream
from newel.workspace.process.process_mark import number_of_mark
from newel.workspace.process.process_tree import ProcessTree
from newel.workspace.process.python_program import in_memory
from newel.workspace.sandbox.bubblewrap import REPLACED, Identities, find_mounted, mount_sources
from newel.workspace.sandbox.confinement import (
    BubblewrapConfinement,
    CannotStart,
    Confinement,
    FindPolicy,
    LaunchSpec,
    SandboxError,
)
from newel.workspace.sandbox.control_group import (
    ENDED,
    ControlGroup,
    GroupPlace,
    NoControlGroup,
    find_group_place,
)
from newel.workspace.sandbox.launcher_main import MAX_PACKET
from newel.workspace.sandbox.own_installation import separate_own_files
from newel.workspace.sandbox.policy import PROXY_VARIABLES, SandboxPolicy

START_S: Final = 10.0
"""Seconds for the sandbox to start."""

ANSWER_S: Final = 3.0
"""Seconds for an answer from inside: a command may stop the launcher, and must not stop Newel with it."""

END_S: Final = 1.0
"""Seconds for it to end by itself."""


STARTED_UNSEEN: Final = (
    "The command was started, but could not be followed (too many open files), so the sandbox was ended with it. Look at what it has done, and "
    "run it again."
)


class CommandSandbox(ProcessLauncher[StartedProcess], Protocol):
    """Starts the commands of a folder, confined."""

    def test(self) -> list[str]:
        """Try what is forbidden; returns what was possible, none if the sandbox holds. Raises ``SandboxError``."""
        ...

    def may_run(self) -> bool:
        """Whether a process may run inside. False is certain."""
        ...

    def close(self) -> None: ...


class SandboxedProcess:
    """A process inside, as ``newel.workspace.process.launcher.StartedProcess``. ``inside`` is its number there, ``descriptor`` a pidfd;
    ``pid`` is 0 if it has already gone, with its sandbox.
    """

    def __init__(self, sandbox: Sandbox, inside: int, descriptor: int) -> None:
        self.inside = inside
        self.pid = max(_pid_of(descriptor), 0)
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
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)


class Sandbox:
    """Implements ``CommandSandbox``. ``find_policy`` is asked when it starts; ``confinement`` is
    bubblewrap's by default; ``find_place`` finds where its control group is made, if it can have one.

    Any thread may use it, one at a time.
    """

    def __init__(
        self,
        find_policy: FindPolicy,
        confinement: Confinement | None = None,
        find_place: Callable[[], GroupPlace] = find_group_place,
    ) -> None:
        self._find_policy = find_policy
        self._find_place = find_place
        self._confinement = confinement or BubblewrapConfinement()
        self._lock = threading.Lock()
        self._is_expected = False
        self._socket: socket.socket | None = None
        self._processes: ProcessTree | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._launcher = 0
        self._statuses: dict[int, int] = {}
        self._policy: SandboxPolicy | None = None
        self._launch_spec: LaunchSpec | None = None
        self._opened = ExitStack()
        self._group: ControlGroup | None = None
        self._reached: list[str] = []
        self._protected: Mapping[str, tuple[int, int]] = {}
        self._has_run = False

    def prepare(self) -> None:
        """Start it in the background, for a command that is likely to come."""
        if not self._is_expected:
            self._is_expected = True
            threading.Thread(target=self._prepare, name="sandbox", daemon=True).start()

    def _prepare(self) -> None:
        with self._lock:
            if self._socket is None and self._is_expected:
                with contextlib.suppress(OSError, WorkspaceError):  # the command will say it
                    self._start()
            process = self._process
        if process is not None:  # the kernel ends bubblewrap with the thread that has started it
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

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
            if self._socket is not None and self._protected != _identities(self._paths_to_compare()):
                self._stop()  # a folder or a protected file was replaced outside: what is mounted is the former one
            self._end_if_full()
            if self._socket is None:
                self._start()
            self._has_run = True
            request = {
                "argv": list(argv),
                "cwd": cwd,
                "env": self._environ(env),
                "number": number_of_mark(mark),
                "limits": self._limits_of_each(),
            }
            descriptors = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
            return self._launch(request, descriptors)

    def _paths_to_compare(self) -> Iterable[str]:
        """Until a command has run, also those that did not exist: they are the user's. Later, a command may have made them."""
        if self._policy is None or self._has_run:
            return self._protected
        return _mounted(self._policy)

    def test(self) -> list[str]:
        """Try what is forbidden; returns what was possible, none if the sandbox holds. Raises ``SandboxError``."""
        return self.test_against(self._find_policy())

    def test_against(self, policy: SandboxPolicy) -> list[str]:
        """Try what a policy forbids, in this sandbox."""
        with self._lock, socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            forbidden = self._confinement.forbidden(policy, listener.getsockname()[1])
            if self._socket is None:
                self._start()
            return self._ask(forbidden)

    def reached(self) -> list[str]:
        if self._group is None and not self._reached:
            return []
        with self._lock:
            self._look_at_limits()
            reached, self._reached = self._reached, []
            return reached

    def may_run(self) -> bool:
        from newel.workspace.process.left_processes import has_others

        with self._lock:  # so the launcher starts nothing meanwhile
            process, spec = self._process, self._launch_spec
            if process is None or spec is None or not self._has_run:
                return False
            if spec.ends_with_its_program and process.poll() is not None:
                return False
            # git outside serves a process inside, and outlives it for a moment; so it is asked after that.
            return has_others(self._launcher, process.pid) or spec.is_busy()

    def close(self) -> None:
        """End everything inside."""
        self._is_expected = False
        with self._lock:
            self._stop()

    # -- the process --------------------------------------------------------------------------------

    def _start(self) -> None:
        separate_own_files()
        policy = self._find_policy()
        protected, sources = _identities(_mounted(policy)), mount_sources(policy)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as stack:
            stack.callback(ours.close)
            spec = self._confinement.confine(self._find_policy, policy, theirs.fileno(), stack)
            self._processes = ProcessTree({"PATH": os.defpath})
            try:
                self._process = self._processes.launch(
                    DirectLauncher(spec.descriptors),
                    spec.argv,
                    cwd="/",
                    streams=(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.PIPE),
                )
            except OSError as error:
                raise SandboxError(f"The sandbox could not be started: {error.strerror}.") from error
            self._opened = stack.pop_all()
        self._make_group(policy, self._process.pid)
        ours.settimeout(ANSWER_S)
        self._socket, self._policy, self._launch_spec, self._protected = ours, policy, spec, protected
        self._has_run = False
        self._statuses.clear()
        try:
            self._send({}, ())
            self._wait_for_launcher(self._process.pid)
            self._note_launcher(self._receive("launcher")[1])
        except (OSError, SandboxError) as error:
            reason = self._stop()
            raise CannotStart(f"The sandbox could not be started: {reason or error}.") from error
        self._check_mounts(find_mounted(spec.argv, policy, sources))

    def _check_mounts(self, mounted: Identities | None) -> None:
        """End the sandbox if something else is mounted than was judged: another sandbox may have swapped a folder for a link meanwhile.
        Raises ``SandboxError``.
        """
        if mounted is not None and not mounted:
            return
        problem = REPLACED
        try:
            if mounted:
                self._send({"mounted": mounted}, ())
                if not self._receive("replaced")[0]["replaced"]:
                    return
        except (OSError, SandboxError) as error:
            problem = f"The sandbox could not be started: {error}."
        self._stop()
        raise SandboxError(problem)

    def _note_launcher(self, descriptors: Sequence[int]) -> None:
        """``descriptors`` has the launcher's pidfd. Raises ``OSError`` where there is no ``/proc``."""
        for descriptor in descriptors:
            try:
                self._launcher = _pid_of(descriptor)
            finally:
                os.close(descriptor)
            with contextlib.suppress(NoControlGroup):  # no command runs yet, and all will be its children
                if self._group is not None:
                    self._group.add(self._launcher)

    def _wait_for_launcher(self, pid: int) -> None:
        """Wait for an answer from inside, or for the end of the first process: then the socket may still be held by one that waits for
        ever. Raises ``OSError`` and ``SandboxError``.
        """
        connection, ended = self._connection().fileno(), os.pidfd_open(pid)
        try:
            events = select.poll()
            for descriptor in (connection, ended):
                events.register(descriptor, select.POLLIN)
            ready = [descriptor for descriptor, _ in events.poll(START_S * 1000)]
        finally:
            os.close(ended)
        if connection not in ready:
            raise SandboxError("it has ended" if ready else "it does not answer")

    def _make_group(self, policy: SandboxPolicy, pid: int) -> None:
        """Make a control group, if there can be one, and put the first process into it. For that the kernel waits 10 ms, in which the
        launcher starts; what is moved soon after waits no more.
        """
        with contextlib.suppress(NoControlGroup):
            self._group = ControlGroup(self._find_place(), policy.limits)
            self._group.add(pid)

    def _limits_of_each(self) -> dict[str, int]:
        """The limits of each process, without those that the group has."""
        group = self._group
        limits: Mapping[str, int] = {} if self._policy is None else self._policy.limits
        return {name: most for name, most in limits.items() if group is None or not group.replaces(name)}

    def _look_at_limits(self) -> None:
        if self._group is not None:
            self._reached += self._group.reached()

    def _end_if_full(self) -> None:
        """End a sandbox in which nothing could run any more."""
        self._look_at_limits()
        if self._group is not None and self._group.is_full():
            self._stop()
            self._reached.append(ENDED)

    def _stop(self) -> str:
        """End everything inside; returns the last words of what has made it, "" if there are none."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        words = ""
        if self._process is not None:
            self._end(self._process)
            if self._process.stderr is not None:
                words = _last_words(self._process.stderr)
                self._process.stderr.close()
            self._process = None
        if self._group is not None:
            self._look_at_limits()
            self._group.close()
            self._group = None
        if self._processes is not None:
            self._processes.forget()
            self._processes = None
        self._opened.close()
        return words

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            if self._launch_spec is not None and self._launch_spec.ends_with_its_program:
                process.kill()
            process.wait(END_S)  # the launcher ends with its socket, and with it everything inside
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # bubblewrap's second process has no such end until the first one has let it go on, which it may not have lived to do.
        if self._processes is not None:
            self._processes.signal(signal.SIGKILL)

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
        try:
            return SandboxedProcess(self, answer["pid"], descriptors[0])
        except (
            OSError,
            IndexError,
        ) as error:  # too many open files: it runs, and nobody could wait for its end
            self._stop()
            raise SandboxError(STARTED_UNSEEN) from error

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
        inside = {name: value for name, value in env.items() if name not in PROXY_VARIABLES}
        if self._launch_spec is not None:
            inside |= self._launch_spec.environ
            if programs := self._launch_spec.programs:
                inside["PATH"] = f"{programs}:{inside.get('PATH', os.defpath)}"
        return inside


def _mounted(policy: SandboxPolicy) -> list[str]:
    """The paths at which commands see what was there at the start."""
    return [*policy.writable, *policy.protected]


def _identities(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Device and inode of the paths that exist."""
    found: dict[str, tuple[int, int]] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            state = os.lstat(path)
            found[path] = (state.st_dev, state.st_ino)
    return found


def _last_words(errors: IO[bytes]) -> str:
    """The last line that is there to read."""
    os.set_blocking(errors.fileno(), False)
    text = (errors.read(4096) or b"").decode(errors="replace").strip()
    return text.splitlines()[-1].removesuffix(".") if text else ""


def _pid_of(descriptor: int) -> int:
    """The number, outside, of the process that a pidfd stands for; -1 once it has been reaped."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:  # noqa: PTH123 — each command waits for it
        return int(file.read().partition(b"\nPid:")[2].split(maxsplit=1)[0])
