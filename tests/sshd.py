"""A real OpenSSH server on loopback, with a folder and keys of its own; nothing of the user's is touched.

Two users can log in. ``host`` is an ordinary user: the one who runs the tests, or, if that is root, one that is created
for this (``useradd``, once). ``own`` is the one who runs the tests, so that both sides have the same rights. Both have
``Sshd.home`` as their home, and the programs of ``Sshd.bin`` first in PATH. There are many logins, so keys are
exchanged in the fastest safe way.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from tests.processes import is_alive
from tests.requirements import require_program

MADE_USER: Final = "newel-tests"
SECONDS: Final = 10
"""How long is waited for what happens soon, on a machine that is busy."""

_SERVER: Final = """\
{more}
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
PrintLastLog no
UseDNS no
KexAlgorithms curve25519-sha256
MaxStartups 100
MaxSessions 100
SetEnv "HOME={folder}/home" "PATH={folder}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
Subsystem sftp internal-sftp
"""

_CLIENT: Final = """\
Host host own
  HostName 127.0.0.1
  Port {port}
  HostKeyAlias {alias}
  IdentityFile {key}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  {more}
Host host
  User {user}
Host own
  User {own}
"""


class Sshd:
    """``config`` is the file for ``ssh -F``, with the hosts ``host`` and ``own``. See ``served``."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.program = require_sshd()
        self.folder = folder
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.user = _ordinary_user()
        self.own = getpass.getuser()
        self.port = 0
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None
        folder.chmod(0o755)
        self.home.mkdir()
        self.give(self.home)
        for name in ("host_key", "user_key"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name))
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        self.known = folder / "known_hosts"
        self.alias = f"newel-{folder.name}"
        self.known.write_text(f"{self.alias} {(folder / 'host_key.pub').read_text()}")
        self.config = folder / "ssh_config"
        self._logins = ""

    def start(self) -> None:
        """Listen, on the earlier port if there was one."""
        wanted = self.port
        until = time.monotonic() + SECONDS
        while True:
            self.port = wanted or _free_port()
            (self.folder / "sshd_config").write_text(
                _SERVER.format(port=self.port, folder=self.folder, more=self._more)
            )
            command = [self.program, "-D", "-f", str(self.folder / "sshd_config"), "-E", str(self.log)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self._listens():
                break
            assert time.monotonic() < until, (
                self.log.read_text()
            )  # another program took the port: try the next
        self.config.write_text(self._logins + self.client_config())

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def client_config(
        self, *, port: int = 0, known: Path | None = None, key: str = "user_key", more: str = ""
    ) -> str:
        """The text of an ssh_config: with another route to the server, other known hosts, another of the folder's keys,
        or more options of both hosts.
        """
        return _CLIENT.format(
            port=port or self.port,
            alias=self.alias,
            key=self.folder / key,
            known=known or self.known,
            more=more,
            user=self.user,
            own=self.own,
        )

    def login(self, name: str, command: str) -> str:
        """Another host for ``config``: ``own`` with a key for which sh runs ``command`` instead of the requested one,
        which is in ``$SSH_ORIGINAL_COMMAND``.
        """
        key = self.folder / f"key-{name}"
        if not key.exists():
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key))
            quoted = command.replace('"', '\\"')
            with (self.folder / "authorized_keys").open("a") as file:
                file.write(f'command="{quoted}" {key.with_suffix(".pub").read_text()}')
            options = self.client_config(key=key.name).partition("Host host\n")[0].partition("\n")[2]
            self._logins += f"Host {name}\n{options}  User {self.own}\n"
            self.config.write_text(self._logins + self.client_config())
        return name

    def project(self, name: str) -> Path:
        """Create a folder on the host that ``host``'s user owns."""
        folder = self.home / name
        folder.mkdir()
        self.give(folder)
        return folder

    def give(self, path: Path) -> None:
        """Make the ordinary user the owner."""
        if os.geteuid() == 0:
            found = pwd.getpwnam(self.user)
            os.chown(path, found.pw_uid, found.pw_gid)

    def ssh(self, *words: str, host: str = "host") -> subprocess.CompletedProcess[str]:
        """Run a command on the host over a separate connection."""
        command = ["ssh", "-F", str(self.config), "-o", "BatchMode=yes", "--", host, shlex.join(words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    def connections(self) -> list[int]:
        """The server's processes, one per connection."""
        return [] if self._process is None else _children(self._process.pid)

    def drop(self) -> None:
        """End all connections like a server that dies; processes that they have started stay."""
        for connection in self.connections():
            for pid in (*_children(connection), connection):
                if _is_sshd(pid):
                    _signal(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def frozen(self) -> Generator[None]:
        """Keep all connections silent but open; new ones are neither answered nor refused."""
        assert self._process is not None
        pids = [self._process.pid]
        pids += [pid for each in self.connections() for pid in (each, *_children(each)) if _is_sshd(pid)]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop listening, and end all connections."""
        if self._process is not None:
            _signal(
                self._process.pid, signal.SIGSTOP
            )  # a dropped client must not get in again before the end
            self.drop()
            self._process.terminate()
            _signal(self._process.pid, signal.SIGCONT)
            self._process.wait(SECONDS)
            self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        until = time.monotonic() + SECONDS
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as there:
                return there.recv(4) == b"SSH-"
            time.sleep(0.005)
        return False


@contextlib.contextmanager
def served(more: str = "") -> Generator[Sshd]:
    """A separate server, beside the fixture's or to be stopped; ``more`` are lines of its configuration."""
    folder = Path(mkdtemp(prefix="newel-sshd-", dir="/tmp"))
    try:
        server = Sshd(folder, more)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_sshd() -> str:
    """The path of a server that can be started, beside a client."""
    program = require_program("sshd", "openssh-server", more="/usr/sbin:/usr/local/sbin")
    require_program("ssh", "openssh-client")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # a booted system creates it, a container does not
    return program


def _ordinary_user() -> str:
    if os.geteuid() != 0:
        return getpass.getuser()
    with Path("/tmp/newel-tests-user.lock").open("w") as lock:  # noqa: S108 — one for all that test at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            pwd.getpwnam(MADE_USER)
        except KeyError:
            # `*`: no password matches, but the account is not locked, which sshd would refuse.
            _run("useradd", "-M", "-d", "/", "-s", "/bin/sh", "-p", "*", MADE_USER)
    return MADE_USER


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"


def _free_port() -> int:
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return there.getsockname()[1]


def _children(pid: int) -> list[int]:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def _is_sshd(pid: int) -> bool:
    command = ["ps", "-o", "comm=", "-p", str(pid)]
    name = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return is_alive(pid) and Path(name).name.startswith("sshd")


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
