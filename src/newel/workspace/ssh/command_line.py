"""How the system's ssh is called: the user's configuration holds, except where it could harm."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from newel.workspace.process.environment import child_env

_PREFIX: Final = "newel-ssh-"
_LONGEST_FOLDER: Final = 104 - 17 - len("/99999") - len(f"/{_PREFIX}4194304-12345678")
"""Bytes of the folder that holds ours: the system takes 104 or more of a socket's path, and ssh adds 17 for a while."""

SIGNS: Final = 3
"""How many signs of life a host may owe before it counts as gone."""

ALWAYS: Final = (
    "BatchMode=yes",  # nobody is there to be asked
    "StrictHostKeyChecking=yes",  # a host that is not known is never trusted by itself
    "VerifyHostKeyDNS=no",
    "NoHostAuthenticationForLocalhost=no",
    "LogLevel=ERROR",
    "ConnectTimeout=10",
    "TCPKeepAlive=yes",
    "ForwardAgent=no",  # what runs there must not use the user's keys
    "ForwardX11=no",
    "ClearAllForwardings=yes",  # ports that the user's own sessions forward are taken, or not wanted
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",  # else output and input would be altered on the way
    "ControlPersist=no",  # else ssh would leave us and stay
    "RemoteCommand=none",
    "IgnoreUnknown=SessionType,StdinNull,ForkAfterAuthentication",  # an older ssh does not know them
    "SessionType=default",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
)

_ONLY_THERE: Final = ("ProxyJump=none", "ProxyCommand=exit 1")
"""A channel whose connection is gone ends, instead of making one of its own."""


class SshCommand:
    """The words and the environment of each call of ``ssh``; ``config`` is a file to read instead of the user's.

    A host that is silent for ``silence`` seconds is gone.
    """

    def __init__(self, config: str | None, environ: Mapping[str, str], silence: int) -> None:
        self.environ = {**child_env(environ), "SSH_ASKPASS_REQUIRE": "never"}
        self._program = ["ssh", *(["-F", config] if config else [])]
        self._folder = _make_folder(environ)
        alive = (f"ServerAliveInterval={max(1, silence // SIGNS)}", f"ServerAliveCountMax={SIGNS}")
        self._always = (*alive, *ALWAYS)
        self._number = 0
        self._socket = ""

    def asks(self) -> list[str]:
        """To be told what the configuration says of a host: add its words."""
        return [*self._program, "-G"]

    def connects(self) -> list[str]:
        """To make a new connection, which others use from then on: add the host's words and a command."""
        self._number += 1
        self._socket = str(self._folder / str(self._number))
        return [*self._program, *_options("ControlMaster=yes", f"ControlPath={self._socket}", *self._always)]

    def uses(self) -> list[str]:
        """To use the last connection: add the host's words, and a command."""
        control = ("ControlMaster=no", f"ControlPath={self._socket}")
        return [*self._program, *_options(*control, *_ONLY_THERE, *self._always)]

    def forwards(self, port: int) -> tuple[str, list[str]]:
        """Where the last connection is to lead to a port of the host's loopback, a socket that only this user can use,
        and how it is told to: add the host's words.
        """
        path = f"{self._socket}-{port}"
        asked = ("-O", "forward", "-L", f"{path}:127.0.0.1:{port}")
        # No configuration: what the user's own forwards would be asked for too, and its ClearAllForwardings undoes ours.
        return path, ["ssh", "-F", "/dev/null", *_options(f"ControlPath={self._socket}"), *asked]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _options(*options: str) -> list[str]:
    return [word for option in options for word in ("-o", option)]


def _make_folder(environ: Mapping[str, str]) -> Path:
    """Where the sockets of connections are: only this user can enter."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    fits = (
        runtime.startswith("/")
        and len(os.fsencode(runtime)) <= _LONGEST_FOLDER
        and os.access(runtime, os.W_OK)
    )
    parent = Path(runtime if fits else "/tmp")  # noqa: S108 — mkdtemp makes a folder of its own there
    _sweep(parent)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that were killed."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            named = re.fullmatch(rf"{_PREFIX}([0-9]+)-\w+", entry.name)
            if named and not _lives(int(named[1])):
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                        shutil.rmtree(entry.path, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
