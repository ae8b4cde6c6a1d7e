"""Runs Newel's commands as forks of a process that has imported everything.

Importing Newel, FastAPI, MCP and their dependencies is most of the work of a command, and the tests run hundreds. So
one process imports them once and is forked for each command: a real process with its own pid, folder, environment and
standard streams, which ends or is killed like any other. Tests that start the console scripts themselves
(``tests.support.BIN``) cover what happens before ``main``. Programs among the tests' modules (``python -m``) are
forked, too.

``python -m tests.forked NUMBER NUMBER`` is the process that is forked; the numbers are the descriptors of its sockets: the
first has the orders of these tests, the second listens for those of ``tests.fork_proxy``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import mkdtemp
from types import FrameType, TracebackType
from typing import IO, Any, Final, Self

import newel

COMMANDS: Final = {
    each.name: each for package in ("newel", "newel-go") for each in distribution(package).entry_points
}
"""The console scripts as they are installed."""
LATE: Final = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "httpcore2",
    "importlib.readers",
    "importlib.resources.readers",
    "mcp.client.stdio",
    "mcp.server.mcpserver.resolve",
    "pydantic.v1",
    "tests.faults.traced_start",
    "tests.review_bench",
    "tests.scripted_provider",
    "tree_sitter_bash",
    "truststore",
    "uvicorn.lifespan.off",
)
"""What functions of Newel import, and the tests' own programs."""
ABSENT: Final = {"newel.__main__", "newel.evals.harbor"}
"""Modules of Newel that run at once, or need packages that are not here."""
ROOT: Final = Path(__file__).resolve().parent.parent
PROXY: Final = ROOT / "tests" / "fork_proxy.py"
_TURN: Final = threading.Lock()
"""One thread at a time asks for a fork, so that there is one process that is forked."""
PATIENCE: Final = 15.0
"""Seconds until a fork exists; only a failure takes so long."""
READY: Final = b"."
MODULE: Final = [sys.executable, "-m"]
PLAIN: Final = {"PYTHONFAULTHANDLER", "PYTHONUTF8"}
"""What may be asked of Python, as the fork does it, too."""


def start(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    stderr: int = PIPE,
    start_new_session: bool = False,
) -> Process:
    """Like ``subprocess.Popen`` with text streams, but a fork if that is possible."""
    if is_forkable(command, env):
        return Forked(command, cwd, env, (stdin, stdout, stderr), start_new_session=start_new_session)
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=start_new_session,
    )


def is_forkable(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the command is one of ours and starts Python without options."""
    asked = {name for name in env if name.startswith(("LC_", "PYTHON"))}
    ours = Path(command[0]).name in COMMANDS or list(command[:2]) == MODULE
    return ours and asked <= PLAIN


def proxy(command: Sequence[str]) -> list[str]:
    """The words for another program to start a command of ours, as a fork. See ``tests.fork_proxy``."""
    if sys.platform != "linux":
        return list(command)
    _origin()
    return [sys.executable, "-I", "-S", str(PROXY), str(_address()), *command]


def pid_behind(pid: int) -> int:
    """The pid of the fork whose proxy has a pid: the proxy writes it down as soon as it knows it."""
    written = _address().with_name(str(pid))
    until = time.monotonic() + PATIENCE
    while not (written.exists() and (number := written.read_text())):
        assert time.monotonic() < until, "the proxy has no fork"
        time.sleep(0.005)
    return int(number)


def prepare() -> Callable[[], None]:
    """Start the process that is forked; the result waits until it has imported everything. On a busy machine that can take
    longer than a test may.
    """
    origin = _origin()

    def wait() -> None:
        assert origin.recv(1) == READY

    return wait


class Forked:
    """A running command, with the part of ``subprocess.Popen`` that the tests use; its streams are text."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        standard: tuple[int, int, int],
        *,
        start_new_session: bool,
    ) -> None:
        """``standard`` are descriptors, ``PIPE`` or ``DEVNULL``."""
        self.args = list(command)
        self.returncode: int | None = None
        with contextlib.ExitStack() as theirs:
            streams, numbers = zip(*(_stand(theirs, *each) for each in enumerate(standard)), strict=True)
            self.stdin, self.stdout, self.stderr = streams
            self._told, told = os.pipe()
            order, ordering = os.pipe()
            for each in (told, order):
                theirs.callback(os.close, each)
            with _TURN:
                socket.send_fds(_origin(), [b"."], [order, told, *numbers])
        with open(ordering, "w", encoding="utf-8") as writer:  # noqa: PTH123 — a descriptor, not a path
            json.dump(
                {"words": self.args, "cwd": str(cwd), "environ": dict(env), "session": start_new_session},
                writer,
            )
        self.pid = int(self._line())

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            more = os.read(self._told, 1)
            assert more, "the process that is forked has died"
            line += more
        return line.decode()

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(int(self._line()))
        os.close(self._told)

    def send_signal(self, which: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, given: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write all input, read all output, and wait for the end."""
        said = ["", ""]

        def read(number: int, stream: IO[str]) -> None:
            said[number] = stream.read()

        def write(stream: IO[str]) -> None:
            with contextlib.suppress(BrokenPipeError), stream:  # it may end without reading everything
                stream.write(given)

        outputs = enumerate((self.stdout, self.stderr))
        work = [functools.partial(read, *each) for each in outputs if each[1] and not each[1].closed]
        if self.stdin is not None and not self.stdin.closed:
            work.append(functools.partial(write, self.stdin))
        threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout)
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        self._close()
        return said[0], said[1]

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._close()
        self.wait()


Process = subprocess.Popen[str] | Forked


@contextlib.contextmanager
def killed(process: Process) -> Generator[None]:
    """At the end of the block the process is killed."""
    with process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


def _stand(theirs: contextlib.ExitStack, number: int, wanted: int) -> tuple[IO[str] | None, int]:
    """Our end of a standard stream if it is a pipe, and the child's, which is closed once the child has it."""
    if wanted not in {PIPE, DEVNULL}:
        return None, wanted
    if wanted == DEVNULL:
        ours, given = None, os.open(os.devnull, os.O_RDWR)
    else:
        reads, writes = os.pipe()
        end, given = (writes, reads) if number == 0 else (reads, writes)
        ours = open(end, "w" if number == 0 else "r", encoding="utf-8")  # noqa: SIM115, PTH123 — a descriptor
    theirs.callback(os.close, given)
    return ours, given


@functools.cache
def _address() -> Path:
    """Where the process that is forked listens."""
    folder = mkdtemp(prefix="newel-forks-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder) / "orders"


@functools.cache
def _origin() -> socket.socket:
    """The socket of the process that is forked. That process ends when the tests close their end."""
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(_address()))
        listener.listen()
        numbers = theirs.fileno(), listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", *map(str, numbers)],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            pass_fds=numbers,
            stdin=DEVNULL,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _serve(orders: socket.socket, listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each order. Returns only in the child, with its order and its standard streams."""
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, _woken)
    told: dict[int, int] = {}
    while True:
        ready = select.select([orders, listener, wake], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            for pid in list(told):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    _tell(told[pid], status)
                    os.close(told.pop(pid))
        if listener in ready:
            with listener.accept()[0] as connection:
                descriptors = _descriptors(connection)
            if not descriptors:
                continue
        elif orders in ready:
            descriptors = _descriptors(orders)
            if not descriptors:
                os._exit(0)
        else:
            continue
        order, tell, *standard = descriptors
        with open(order, encoding="utf-8") as reader:  # noqa: PTH123 — a descriptor, not a path
            words = json.load(reader)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            orders.detach()
            listener.detach()
            return words, standard
        told[pid] = tell
        _tell(tell, pid)
        for each in standard:
            os.close(each)


def _descriptors(orders: socket.socket) -> list[int]:
    """Of an order, where to tell of it, and of the standard streams; none if there are no more orders."""
    try:
        return socket.recv_fds(orders, 1, 5)[1]
    except ConnectionResetError:  # the process that gives the orders ended with an answer unread
        return []


def _woken(_: int, __: FrameType | None) -> None:
    """A signal with a handler is written to the wakeup descriptor."""


def _tell(descriptor: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
        os.write(descriptor, b"%d\n" % number)


def _become(order: dict[str, Any], standard: Sequence[int]) -> None:
    """Set up this process as the command."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    if order["session"]:
        os.setsid()
    if mounts := order.get("mounts"):  # from a proxy
        _share_mounts(mounts)
        if order["session"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["cwd"])
    sys.argv = order["words"]
    sys.stdin = _stream(0, "r", "surrogateescape")
    sys.stdout = _stream(1, "w", "surrogateescape")
    sys.stderr = _stream(2, "w", "backslashreplace", buffering=1)
    if "PYTHONFAULTHANDLER" in os.environ:
        faulthandler.enable()


def _share_mounts(namespace: str) -> None:
    """Enter another process's namespace of mounts, if that is not this process's."""
    if os.readlink(namespace) == os.readlink("/proc/self/ns/mnt"):  # noqa: PTH115 — no path
        return
    with open(namespace, "rb") as mounts:  # noqa: PTH123 — likewise
        if ctypes.CDLL(None, use_errno=True).setns(mounts.fileno(), 0):
            raise OSError(ctypes.get_errno(), "cannot enter the mounts of the proxy")


def _stream(number: int, mode: str, errors: str, *, buffering: int = -1) -> IO[str]:
    """A stream like those that Python opens at its start in UTF-8. It is not closed before the end."""
    return open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)


def main() -> None:
    ending: list[object] = []
    atexit.register(_leave, ending)  # exit functions run in reverse order
    for name in LATE:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(newel.__path__, "newel."):
        if module.name not in ABSENT:
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # keeps collections in children from copying all pages
    orders, listener = (socket.socket(fileno=int(each)) for each in sys.argv[1:])
    orders.sendall(READY)
    _become(*_serve(orders, listener))
    try:
        _run()
    except SystemExit as exits:
        ending.append(exits.code or 0)
        raise
    ending.append(0)


def _run() -> None:
    if sys.argv[:2] == MODULE:
        module = sys.argv[2]
        del sys.argv[:2]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.exit(COMMANDS[Path(sys.argv[0]).name].load()())


def _leave(ending: list[object]) -> None:
    """End the process, whose threads have ended, without Python's teardown of modules: that would copy their pages,
    several times the work of a short command. An exception, a message as exit code, and broken streams are left to
    Python.
    """
    match ending:
        case [int(code)]:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code & 0xFF)
        case _:
            pass


if __name__ == "__main__":
    main()
