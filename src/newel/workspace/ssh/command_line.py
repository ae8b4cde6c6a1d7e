"""Command lines of the system's ssh. The user's configuration applies, except where it could do harm."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import msgspec

from newel.workspace.process.environment import child_env
from newel.workspace.process.own_programs import own_path
from newel.workspace.ssh.connection_errors import explain, no_answer, no_ssh
from newel.workspace.ssh.target import Target

_PREFIX: Final = "newel-ssh-"
_MAX_FOLDER_BYTES: Final = 104 - 17 - len("/99999") - len(f"/{_PREFIX}4194304-12345678")
"""For the folder around ours: some systems limit a socket's path to 104 bytes, of which ssh needs 17 while it connects."""

KEEPALIVES: Final = 3
"""Keepalives that may stay unanswered before the host counts as lost."""

QUERY_TIMEOUT: Final = 45.0
"""Seconds for the programs that a configuration may run (``Match exec``)."""

ALWAYS: Final = (
    "BatchMode=yes",  # nobody can answer a prompt
    "StrictHostKeyChecking=yes",  # never trust an unknown host
    "VerifyHostKeyDNS=no",
    "NoHostAuthenticationForLocalhost=no",
    "LogLevel=ERROR",
    "ConnectTimeout=10",
    "TCPKeepAlive=yes",
    "ForwardAgent=no",  # programs on the host must not use the user's keys
    "ForwardX11=no",
    "ClearAllForwardings=yes",  # the ports are taken by the user's own sessions, or not wanted
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",  # a terminal would alter input and output
    "ControlPersist=no",  # the master would outlive Newel
    "RemoteCommand=none",
)

_IF_KNOWN: Final = (
    "SessionType=default",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
    "GSSAPIDelegateCredentials=no",  # as ForwardAgent
    "LogVerbose=packet.c:sshpkt_vfatal():*",  # why a connection ended, which the log level hides
)
"""Not every ssh knows these. ``IgnoreUnknown`` for them would replace the user's own, which their configuration may need."""

_NO_FALLBACK: Final = ("ProxyJump=none", "ProxyCommand=false")
"""A session whose connection is gone fails, rather than open a connection of its own."""


class SshCommand:
    """Runs ssh for the host that the user ``asked`` for. ``config`` is a file to read instead of the user's; after
    ``lost_after`` seconds without a sign of life ssh ends.
    """

    def __init__(
        self, asked: Target, config: str | None, environ: Mapping[str, str], lost_after: int
    ) -> None:
        self.asked = asked
        self.keys: tuple[str, ...] = ()
        """The files of the keys that ssh tries, known after ``resolve``."""
        self.environ = {
            **child_env(environ),
            "SSH_ASKPASS_REQUIRE": "never",
            "PATH": own_path(environ=environ),
        }
        if config and config != "none":
            config = str(Path(config).absolute())  # ssh runs in another folder
        self._program = ["ssh", *(["-F", config] if config else [])]
        self._folder = _make_folder(environ)
        alive = (
            f"ServerAliveInterval={max(1, lost_after // KEEPALIVES)}",
            f"ServerAliveCountMax={KEEPALIVES}",
        )
        self._always = [*alive, *ALWAYS]
        self._number = 0
        self._socket = ""

    def master_args(self, command: str) -> list[str]:
        """Open a new connection, which later sessions share, and run a command."""
        self._number += 1
        self._socket = str(self._folder / str(self._number))
        options = _options("ControlMaster=yes", f"ControlPath={self._socket}", *self._always)
        return [*self._program, *options, *self.asked.ssh_args, command]

    def session_args(self, *command: str) -> list[str]:
        """Open a session on the last connection; the command may be appended later."""
        options = _options("ControlMaster=no", f"ControlPath={self._socket}", *_NO_FALLBACK, *self._always)
        return [*self._program, *options, *self.asked.ssh_args, *command]

    def forward_args(self, port: int) -> tuple[str, list[str]]:
        """Have the last connection forward a Unix socket, which only this user can use, to a port on the host's loopback.
        Returns the path of the socket, too.
        """
        path = f"{self._socket}-{port}"
        forward = ("-O", "forward", "-L", f"{path}:127.0.0.1:{port}")
        # Without a configuration: the user's would add its own forwards, and its ClearAllForwardings would drop ours.
        options = _options(f"ControlPath={self._socket}")
        return path, ["ssh", "-F", "/dev/null", *options, *forward, *self.asked.ssh_args]

    async def run(self, args: list[str]) -> subprocess.CompletedProcess[bytes]:
        """Run ssh to its end. Raises ``OSError`` if it cannot be started."""
        return await anyio.run_process(args, env=self.environ, check=False, cwd="/")

    async def resolve(self) -> Target:
        """The host with the address, user and port that ssh's configuration gives it; nothing is connected. Raises
        ``HostUnreachable``.
        """
        try:
            with anyio.fail_after(QUERY_TIMEOUT):
                done = await self.run([*self._program, "-G", *self.asked.ssh_args])
        except TimeoutError as error:
            raise no_answer(self.asked, "ssh takes too long to read its configuration.").error() from error
        except OSError as error:
            raise no_ssh(error).error() from error
        if done.returncode != 0:
            raise explain(done.stderr.decode(errors="replace"), self.asked).error()
        pairs = [line.partition(" ") for line in done.stdout.decode(errors="replace").splitlines()]
        # Of several values of an option ssh uses the first.
        first = {key: value for key, _, value in reversed(pairs)}
        self.keys = tuple(value for key, _, value in pairs if key == "identityfile")
        self._always += (option for option in _IF_KNOWN if option.partition("=")[0].lower() in first)
        return msgspec.structs.replace(
            self.asked, host=first["hostname"], user=first["user"], port=int(first["port"])
        )

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _options(*options: str) -> list[str]:
    return [word for option in options for word in ("-o", option)]


def _make_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the connections' sockets, which only this user can enter."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    fits = (
        runtime.startswith("/")
        and len(os.fsencode(runtime)) <= _MAX_FOLDER_BYTES
        and os.access(runtime, os.W_OK)
    )
    parent = Path(runtime if fits else "/tmp")  # noqa: S108 — mkdtemp makes a private folder there
    _sweep(parent)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def _sweep(parent: Path) -> None:
    """Remove the folders of killed processes."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            named = re.fullmatch(rf"{_PREFIX}([0-9]+)-\w+", entry.name)
            if named and not _is_alive(int(named[1])):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True
