"""The program inside a sandbox that starts its processes. It needs the standard library only, and has no file of its own there: Newel hands
it over as compiled code, and calls ``main``.

Requests and answers go over one socket, which no process inherits. A request is a file (of ``marshal``), which comes with the standard
streams of the new process; an answer is a packet of JSON, with a descriptor of the process, by which Newel knows it outside:

    {"argv": […], "env": {…}, "cwd": "…", "number": …, "limits": {…}}      ->  {"pid": 7}, or {"errno": 2, "file": "…"}
    {"test": {…}}                                           ->  {"failures": […]}
    {}                                                      ->  {"launcher": 3}, with a descriptor of this process
    {"mounted": {"path": [device, inode]}}                  ->  {"replaced": 0}, the number of those that are others
                                                            ->  {"pid": 7, "status": 0}     when a process has ended
"""

from __future__ import annotations

import _socket  # the first command waits for this module: `socket`, `json` and `contextlib` take as long as starting Python does
import _thread
import marshal
import os
import resource
import select
import sys

TYPE_CHECKING = False  # as type checkers know it, without `typing`
if TYPE_CHECKING:
    import signal
    import socket
    from typing import Any
else:
    import _signal as signal  # the same, without enumerations

MAX_PACKET = 64 << 10
MAX_DESCRIPTORS = 4
PROXY_PORT = 3128
GIT_SOCKET = "/run/newel/git.sock"
COMMAND_SCORE = 100
"""Thousandths of memory that a command counts more than the launcher when the kernel has to end one."""
DUMPABLE = 4
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)


def main(descriptor: int, proxy: str, broker: int, files: dict[str, str]) -> None:
    close_memory()
    server = _socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, ignore)
    for ignored in IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    write_files(files)
    calls = listen_for_git(broker) if broker >= 0 else None
    requests = listen_for_proxy() if proxy else None
    watched = [each for each in (server, calls, requests) if each is not None]
    running: set[int] = set()
    ended: list[int] = []
    while True:
        readable, _, _ = select.select([*watched, wake_read], [], [])
        if wake_read in readable:
            try:
                os.read(wake_read, 4096)
            except BlockingIOError:
                pass
            ended += report_ended(server, running)
        if server in readable:
            packet, descriptors = receive(server)
            if not packet:
                return
            with os.fdopen(descriptors[0], "rb") as file:
                request = marshal.load(file)  # noqa: S302 — from Newel
            while ended:
                os.waitpid(ended.pop(), 0)
            handle(server, request, descriptors[1:], running)
        if calls is not None and calls in readable:
            pass_on(calls, broker)
        if requests is not None and requests in readable:
            forward(requests, proxy)


def close_memory() -> None:
    """Close ``/proc/PID/mem`` and ``fd`` of this process to those that it starts: they are the same user's, and would answer in its
    name.
    """
    if sys.platform == "linux":
        import _ctypes  # `ctypes` takes six times as long

        program = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] — None is this program
        _ctypes.call_function(_ctypes.dlsym(program, "prctl"), (DUMPABLE, 0, 0, 0, 0))


def receive(server: _socket.socket) -> tuple[bytes, list[int]]:
    packet, ancillary, _, _ = server.recvmsg(MAX_PACKET, _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
    descriptors: list[int] = []
    for _, _, data in ancillary:
        descriptors += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return packet, descriptors


def send(server: _socket.socket, packet: bytes, descriptor: int, flags: int = 0) -> None:
    data = descriptor.to_bytes(4, sys.byteorder)
    server.sendmsg([packet], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)], flags)


def ignore(number: int, frame: object) -> None:
    """A signal that only wakes the loop."""


def handle(server: _socket.socket, request: dict[str, Any], streams: list[int], running: set[int]) -> None:
    try:
        if "test" in request:
            answer(server, {"failures": run_test(request["test"])})
            return
        if "mounted" in request:
            server.send(b'{"replaced": %d}' % count_replaced(request["mounted"]))
            return
        if request:
            running.add(pid := start(request, streams))
        else:
            pid = os.getpid()
        process = os.pidfd_open(pid)
        try:
            send(server, b'{"%s": %d}' % (b"pid" if request else b"launcher", pid), process)
        finally:
            os.close(process)
    except OSError as error:
        answer(server, {"errno": error.errno or 0, "file": str(error.filename or "")})
    finally:
        for stream in streams:
            os.close(stream)


def count_replaced(mounted: dict[str, tuple[int, int]]) -> int:
    replaced = 0
    for path, identity in mounted.items():
        try:
            state = os.lstat(path)
            replaced += (state.st_dev, state.st_ino) != tuple(identity)
        except OSError:
            replaced += 1
    return replaced


def answer(server: _socket.socket, data: dict[str, Any]) -> None:
    import json

    server.send(json.dumps(data).encode())


def report_ended(server: _socket.socket, running: set[int]) -> list[int]:
    """Report the processes that have ended, and return them. They have to be reaped later: Newel may be about to look up the number that
    the last one has outside, and knows it when it sends the next request.
    """
    ended: list[int] = []
    for pid in running:
        if end := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
            server.send(b'{"pid": %d, "status": %d}' % (pid, status))
            ended.append(pid)
    running.difference_update(ended)
    return ended


def start(request: dict[str, Any], streams: list[int]) -> int:
    """Start a process; returns its number in here. Raises ``OSError`` if its program cannot run."""
    failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (*IGNORED, signal.SIGCHLD, signal.SIGPIPE):  # Python ignores the last one
                signal.signal(number, signal.SIG_DFL)
            try:
                hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
                resource.setrlimit(resource.RLIMIT_RTTIME, (request["number"], hard))
            except (OSError, ValueError):
                pass
            for name, wanted in request["limits"].items():
                kind = getattr(resource, name)
                hard = resource.getrlimit(kind)[1]
                most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
                resource.setrlimit(kind, (most, most))
            prefer_to_launcher()
            take_terminal(streams[0])
            for target, stream in enumerate(streams):
                os.dup2(stream, target)
            os.chdir(request["cwd"])
            os.execvpe(request["argv"][0], request["argv"], request["env"])  # noqa: S606 — the command's own words
        except OSError as error:
            name = error.filename or ""
            if isinstance(name, bytes):  # the last place on the `PATH`
                name = request["argv"][0]
            os.write(failed_write, marshal.dumps([error.errno, name]))
        finally:
            os._exit(127)
    os.close(failed_write)
    with os.fdopen(failed_read, "rb") as pipe:
        failed = pipe.read()
    if failed:
        os.waitpid(pid, 0)
        number, name = marshal.loads(failed)  # noqa: S302 — from our child, before it became another program
        raise OSError(number, os.strerror(number), name)
    return pid


def take_terminal(stream: int) -> None:
    """Get Ctrl+C from a terminal, for all of this session. It may have no name here by which it could be opened for that."""
    if os.isatty(stream):
        import fcntl
        import termios

        fcntl.ioctl(stream, termios.TIOCSCTTY, 0)


def prefer_to_launcher() -> None:
    """Where memory is short, have the kernel end this process, and not the launcher with all that is inside."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:  # noqa: PTH123 — pathlib is slow to import
            least = int(file.read(8))
            file.write(b"%d" % min(least + COMMAND_SCORE, 1000))
    except OSError:  # in a partial sandbox
        pass


def listen_for_proxy() -> _socket.socket:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(128)
    return listener


def accept(listener: _socket.socket) -> socket.socket:
    """The next connection. Raises ``OSError``."""
    import socket

    with socket.socket(fileno=os.dup(listener.fileno())) as copy:
        copy.setblocking(False)
        client, _ = copy.accept()
    client.setblocking(True)
    return client


def forward(listener: _socket.socket, proxy: str) -> None:
    """Pass on a connection to ``PROXY_PORT`` to the socket of the network proxy."""
    try:
        client = accept(listener)
        _thread.start_new_thread(relay, (client, proxy))
    except (OSError, RuntimeError):  # it has gone, or nothing is left for another one
        pass


def relay(client: socket.socket, proxy: str) -> None:
    import socket
    import threading

    def copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
        except OSError:
            pass
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    with client, socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(proxy)
        except OSError:
            return
        back = threading.Thread(target=copy, args=(server, client), daemon=True)
        back.start()
        copy(client, server)
        back.join()


# -- git ------------------------------------------------------------------------------------------------


def write_files(files: dict[str, str]) -> None:
    """Write programs, by their paths."""
    for path, text in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 — pathlib is slow to import
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 — as above
            file.write(text)
        os.chmod(path, 0o755)  # noqa: PTH101, S103 — as above; a program


def listen_for_git(broker: int) -> _socket.socket:
    os.set_inheritable(broker, False)
    calls = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    calls.bind(GIT_SOCKET)
    calls.listen(16)
    return calls


def pass_on(calls: _socket.socket, broker: int) -> None:
    """Give the broker, outside, the connection of a git inside."""
    try:
        with accept(calls) as client:
            send(_socket.socket(fileno=os.dup(broker)), b"git", client.fileno(), _socket.MSG_DONTWAIT)
    except OSError:  # it has gone, or there are too many
        pass


# -- the self-test --------------------------------------------------------------------------------------


def run_test(test: dict[str, Any]) -> list[str]:
    """Try what is forbidden; returns what was possible."""
    import contextlib
    import socket

    failures: list[str] = []
    for folder in test["unwritable"]:
        path = os.path.join(folder, f".newel-test-{os.getpid()}")  # noqa: PTH118 — pathlib is slow to import
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.unlink(path)  # noqa: PTH108 — as above
            failures.append(f"files can be created in {folder}")
    failures += [f"{path} can be seen" for path in test["hidden"] if os.path.lexists(path)]
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", test["port"]), timeout=1):
        failures.append("servers of this machine can be reached")
    failures += partial_failures(test) if "outside" in test else view_failures()
    return failures + (kernel_failures() if sys.platform == "linux" else [])


def view_failures() -> list[str]:
    """What namespaces hide, and what mounts cover in ``/proc``."""
    failures: list[str] = []
    if len([name for name in os.listdir("/proc") if name.isdigit()]) > 8:  # noqa: PTH208 — as above
        failures.append("processes of this machine can be seen")
    try:
        # a program that the kernel starts outside
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
        failures.append("settings of the kernel can be changed")
    except OSError:
        pass
    return failures


def partial_failures(test: dict[str, Any]) -> list[str]:
    """What a partial sandbox has to refuse because nothing is hidden in it."""
    closed = [(path, os.O_RDONLY, "read") for path in [*test["closed"], f"/proc/{test['outside']}/environ"]]
    closed += [(path, os.O_WRONLY, "changed") for path in test["unchanged"]]
    failures: list[str] = []
    for path, flags, what in closed:
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
            failures.append(f"{path} can be {what}")
        except OSError:
            pass
    try:
        _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM).close()
        failures.append("datagrams can be sent")
    except OSError:
        pass
    if test["signals"]:
        try:
            os.kill(test["outside"], 0)
            failures.append("processes of this machine can be ended")
        except OSError:
            pass
    return failures


def kernel_failures() -> list[str]:
    """Forbidden calls of the kernel, in a child: one that succeeds must change nothing here."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    new_user = 0x10000000
    # A kind of file system that does not exist: where nothing refuses to mount it, nothing is mounted on the machine either.
    attempts = {
        "user namespaces can be created": lambda: libc.unshare(new_user) == 0,
        "file systems can be mounted": lambda: (
            libc.mount(b"none", b"/", b"newel-none", 0, None) == 0 or ctypes.get_errno() != 1
        ),
        "the debugger's interface is open": lambda: libc.ptrace(0, 0, 0, 0) == 0,
    }
    failures: list[str] = []
    for what, attempt in attempts.items():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if attempt() else 1)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            failures.append(what)
    return failures
