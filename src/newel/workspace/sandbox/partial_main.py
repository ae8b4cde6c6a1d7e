"""Starts the launcher of a partial sandbox, confined by Landlock and seccomp, and judges what its processes connect to.

    Newel ── socket ──> launcher_main, confined ── fork, exec ──> the commands
                             │ starts it, ends all of them with it,
                        supervisor (this program) <── connect() of any process inside, by the kernel

seccomp stops each ``connect`` and asks here. The address is read once, and the connection is made here for the process, with that
address: a process that changes it meanwhile gains nothing. It needs the standard library only, and is handed over as compiled code
with ``launcher_main``.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import stat
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

CREATE, ADD, RESTRICT = 444, 445, 446
PIDFD_GETFD = 438
BELOW_PATH = 1
SUBREAPER, NO_NEW_PRIVILEGES, DROP_BOUNDING, AMBIENT, CLEAR_AMBIENT = 36, 38, 24, 47, 4
SET_FILTER, NEW_LISTENER, WAIT_KILLABLE = 1, 8, 32
OF_FILES = 0x1 | 0x2 | 0x4 | 0x4000 | 0x8000
"""The rights of Landlock that a file can have: execute, write, read, truncate, control a device."""
CONNECT_TCP = 2
SCOPES = 3
"""Abstract sockets and signals."""
RECEIVE, SEND, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
NOTIFICATION = struct.Struct("=QIIiIQ6Q")
RESPONSE = struct.Struct("=QqiI")
MAX_ADDRESS = 128
LISTENING = "0A"
MAX_WAITING = 64
"""Connections to the proxy's port that nobody inside is known to have made."""
LIBC = ctypes.CDLL(None, use_errno=True)


def main(given: dict[str, Any], launcher: dict[str, Any], server: int, listener: int) -> int:
    """``given`` has the rules of ``newel.workspace.sandbox.landlock``; ``launcher`` is the namespace of ``launcher_main``. ``listener`` is
    the socket of the proxy's port, -1 without one.
    """
    LIBC.prctl(SUBREAPER, 1, 0, 0, 0)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    pid = os.fork()
    if pid == 0:
        try:
            if listener >= 0:
                os.close(listener)
            asks = confine(given)
            launcher["send"](theirs, b"x", asks)
            os.close(asks)
            theirs.close()
            ours.close()
            launcher["main"](server, "", -1, {})
        except OSError as error:
            os.write(2, f"{error.strerror}: {error.filename or ''}".rstrip(": ").encode())
        finally:
            os._exit(1)
    theirs.close()
    _, descriptors = launcher["receive"](ours)
    if descriptors:
        supervise(pid, Doorkeeper(given, launcher, descriptors[0]), server, listener)
    os.close(server)
    end_all()
    remove(given["temporary"])
    return 0


# -- before the launcher ------------------------------------------------------------------------------


def confine(given: dict[str, Any]) -> int:
    """Confine this process and all that it will start; returns the descriptor that asks about connections. Raises ``OSError``."""
    drop_capabilities(given["kept"])
    if LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise last_error("no_new_privs")
    attributes = (given["handled"], CONNECT_TCP, SCOPES)[: given["fields"]]
    ruleset = ctypes.create_string_buffer(struct.pack(f"={len(attributes)}Q", *attributes))
    rules = LIBC.syscall(CREATE, ruleset, 8 * len(attributes), 0)
    if rules < 0:
        raise last_error("Landlock")
    for path, rights in given["rules"]:
        add_rule(rules, path, rights)
    if LIBC.syscall(RESTRICT, rules, 0) != 0:
        raise last_error("Landlock")
    os.close(rules)
    return install_filter(given["filter"], given["seccomp"])


def add_rule(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it has gone, or this user cannot reach it
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
        if LIBC.syscall(ADD, rules, BELOW_PATH, rule, 0) != 0:
            raise last_error(path)
    finally:
        os.close(place)


def drop_capabilities(kept: list[int]) -> None:
    """Of root; others have none. ``kept`` are numbers."""
    LIBC.prctl(AMBIENT, CLEAR_AMBIENT, 0, 0, 0)
    for number in range(64):
        if number not in kept:
            LIBC.prctl(DROP_BOUNDING, number, 0, 0, 0)
    mask = sum(1 << number for number in kept) if os.geteuid() == 0 else 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
    rights = ctypes.create_string_buffer(struct.pack("=6I", mask, mask, 0, 0, 0, 0), 24)
    if LIBC.capset(header, rights) != 0:
        raise last_error("capset")


def install_filter(program: bytes, number: int) -> int:
    code = ctypes.create_string_buffer(program, len(program))
    given = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    for flags in (NEW_LISTENER | WAIT_KILLABLE, NEW_LISTENER):
        asks = LIBC.syscall(number, SET_FILTER, flags, given)
        if asks >= 0:
            return int(asks)
    raise last_error("seccomp")


def last_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


# -- beside it ------------------------------------------------------------------------------------------


def supervise(pid: int, door: Doorkeeper, server: int, listener: int) -> None:
    """Answer until the launcher has ended, or Newel has."""
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, ignore)
    watched = select.poll()
    watched.register(server, 0)  # only its end: what Newel sends is for the launcher
    for descriptor in (door.asks, wake_read, *([listener] if listener >= 0 else [])):
        watched.register(descriptor, select.POLLIN)
    while not reap(pid):
        ready = dict(watched.poll())
        if server in ready:
            return
        if wake_read in ready:
            os.read(wake_read, 4096)
        if door.asks in ready:
            door.answer()
        if listener in ready:
            door.accept(listener)


def ignore(number: int, frame: object) -> None:
    """A signal that only wakes the loop."""


def reap(pid: int) -> bool:
    """Reap the processes that have ended, also those whose parent had; whether ``pid`` was among them."""
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if ended == 0:
            return False
        if ended == pid:
            return True


def end_all() -> None:
    """Kill what is left. Nothing leaves this tree: the kernel makes orphans children of this process."""
    while True:
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def remove(folder: str) -> None:
    """Newel does it too, unless it was killed; what is too deep for this is left to it, or to its next start."""
    import shutil

    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def descendants() -> set[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 — pathlib is slow to import
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 — as above
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


class Doorkeeper:
    """Makes the connections that the processes inside may have: to the proxy, to servers of their own, and to sockets in folders that
    they may change.
    """

    def __init__(self, given: dict[str, Any], launcher: dict[str, Any], asks: int) -> None:
        self.asks = asks
        self._port: int = given["port"]
        self._folders: list[str] = given["sockets"]
        self._relay: Callable[[socket.socket, str], None] = launcher["relay"]
        self._proxy: str = given["proxy"]
        self._lock = threading.Lock()
        self._expected: set[int] = set()
        self._waiting: dict[int, socket.socket] = {}

    def answer(self) -> None:
        """Answer one question, in a thread: a connection may take its time."""
        asked = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(self.asks, RECEIVE, asked)
        except OSError:  # the process has ended meanwhile
            return
        threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _answer(self, asked: bytearray) -> None:
        number, thread, _, _, _, _, descriptor, address, length, *_ = NOTIFICATION.unpack(asked)
        try:
            self._connect(number, thread, descriptor & 0xFFFFFFFF, address, length & 0xFFFFFFFF)
            error = 0
        except OSError as refused:
            error = refused.errno or errno.EACCES
        with contextlib.suppress(OSError):  # as above
            fcntl.ioctl(self.asks, SEND, bytearray(RESPONSE.pack(number, 0, -error, 0)))

    def _connect(self, number: int, thread: int, descriptor: int, address: int, length: int) -> None:
        with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 — as above
            memory.seek(address)
            data = memory.read(min(length, MAX_ADDRESS))
        copy = copy_descriptor(thread, descriptor)
        try:
            fcntl.ioctl(self.asks, IS_VALID, bytearray(struct.pack("=Q", number)))  # still the same process
            self._connect_copy(copy, data, thread)
        finally:
            os.close(copy)

    def _connect_copy(self, copy: int, data: bytes, thread: int) -> None:
        family = int.from_bytes(data[:2], sys.byteorder)
        if family == _socket.AF_UNIX:
            self._connect_file(copy, data[2:], thread)
            return
        to_proxy = False
        if family != _socket.AF_UNSPEC:
            port = loopback_port(family, data)
            to_proxy = port == self._port
            if not to_proxy and not is_inside(port):
                raise OSError(errno.ECONNREFUSED, "")
        try:
            connect(copy, data)
        except BlockingIOError:  # it goes on, as the process wants it
            if to_proxy:
                self._expect(copy)
            raise
        if to_proxy:
            self._expect(copy)

    def _connect_file(self, copy: int, name: bytes, thread: int) -> None:
        path = name.partition(b"\0")[0]
        if not path:  # no file, but a name that all of this machine share
            raise OSError(errno.ECONNREFUSED, "")
        place = os.open(os.path.join(f"/proc/{thread}/cwd".encode(), path), os.O_PATH | os.O_CLOEXEC)  # noqa: PTH118 — as above
        try:
            real = os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115 — as above
            if not any(real.startswith(f"{folder}/") for folder in self._folders):
                raise OSError(errno.EACCES, "")
            target = f"/proc/self/fd/{place}".encode()
            connect(copy, _socket.AF_UNIX.to_bytes(2, sys.byteorder) + target + b"\0")
        finally:
            os.close(place)

    # -- the proxy ----------------------------------------------------------------------------------

    def _expect(self, copy: int) -> None:
        import socket

        with socket.socket(fileno=os.dup(copy)) as connection:
            port = connection.getsockname()[1]
        with self._lock:
            client = self._waiting.pop(port, None)
            if client is None:
                self._expected.add(port)
        if client is not None:
            threading.Thread(target=self._relay, args=(client, self._proxy), daemon=True).start()

    def accept(self, listener: int) -> None:
        """Pass on a connection to the proxy's port, if a process inside has made it: any user of this machine can reach the port."""
        import socket

        with socket.socket(fileno=os.dup(listener)) as copy:
            copy.setblocking(False)
            try:
                client, (_, port) = copy.accept()
            except OSError:
                return
        client.setblocking(True)
        with self._lock:
            if port not in self._expected:
                self._waiting[port] = client
                if len(self._waiting) > MAX_WAITING:
                    self._waiting.pop(next(iter(self._waiting))).close()
                return
            self._expected.discard(port)
        threading.Thread(target=self._relay, args=(client, self._proxy), daemon=True).start()


def copy_descriptor(thread: int, descriptor: int) -> int:
    """A descriptor of the process that a thread belongs to, here. Raises ``OSError``."""
    with open(f"/proc/{thread}/status", "rb") as file:  # noqa: PTH123 — as above
        leader = int(file.read().partition(b"\nTgid:")[2].split()[0])
    process = os.pidfd_open(leader)
    try:
        copy = LIBC.syscall(PIDFD_GETFD, process, descriptor, 0)
        if copy < 0:
            raise last_error("")
        return int(copy)
    finally:
        os.close(process)


def connect(descriptor: int, data: bytes) -> None:
    """Raises ``OSError``."""
    if LIBC.connect(descriptor, data, len(data)) != 0:
        raise last_error("")


def loopback_port(family: int, data: bytes) -> int:
    """The port of an address of this machine's loopback. Raises ``OSError`` for another address."""
    if family == _socket.AF_INET and len(data) >= 8:
        host = data[4:8]
    elif family == _socket.AF_INET6 and len(data) >= 24:
        host = data[8:24]
        if host.startswith(bytes(10) + b"\xff\xff"):
            host = host[12:]
    else:
        raise OSError(errno.EAFNOSUPPORT, "")
    # The address of zeros leads to this machine, too.
    if (len(host) == 4 and host[0] == 127) or host in (bytes(4), bytes(16), bytes(15) + b"\1"):
        return int.from_bytes(data[2:4], "big")
    raise OSError(errno.ENETUNREACH, "")


def is_inside(port: int) -> bool:
    """Whether all that listens on a port, and something does, is a process inside."""
    sockets: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:  # noqa: PTH123 — as above
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        sockets |= {
            f"socket:[{row[9]}]"
            for row in rows
            if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port
        }
    if not sockets:
        return False
    for pid in descendants():
        sockets -= open_files(pid)
    return not sockets


def open_files(pid: int) -> set[str]:
    """What the descriptors of a process lead to."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 — as above
            with contextlib.suppress(OSError):  # it has been closed
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))  # noqa: PTH115 — as above
    return found
