"""What a host says of itself when a connection is made."""

from __future__ import annotations

import os
import time

import msgspec

from newel.workspace.ssh.connection_errors import SshProblem
from newel.workspace.ssh.target import Target


class HostInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``root`` and ``home`` are physical paths. ``bash``, ``rg``, ``git``, ``setsid`` are paths of programs, or empty.
    ``clock_ahead`` is by how many seconds the host's clock is ahead of this machine's, to about one second.
    """

    system: str = ""
    user: str = ""
    home: str = ""
    root: str = ""
    bash: str = ""
    rg: str = ""
    git: str = ""
    setsid: str = ""
    clock_ahead: int = 0

    @classmethod
    def read(cls, data: bytes, target: Target) -> HostInfo:
        """Read what ``newel_facts`` prints. Raises ``HostUnreachable`` for a host that cannot be worked on."""
        pairs = [os.fsdecode(each).partition("=") for each in data.split(b"\0")[:-1]]
        said = {name: value for name, _, value in pairs}
        missing = [value for name, _, value in pairs if name == "missing"]
        if missing:
            raise SshProblem(
                "shell",
                f"{target.host} has no {', '.join(missing)}.",
                "Newel works with what POSIX systems bring along, and with stat and sha256sum (or shasum, sha256, openssl).",
            ).error()
        if not said.get("root", "").startswith("/"):
            reason = said.get("problem", "").rpartition(": ")[2] or "it cannot be entered"
            raise SshProblem(
                "path",
                f"{target.path} on {target.host} is no directory to work in: {reason}.",
                "Name one that exists there.",
            ).error()
        clock = said.get("clock", "")
        return cls(
            **{name: said.get(name, "") for name in cls.__struct_fields__ if name != "clock_ahead"},
            clock_ahead=int(clock) - round(time.time()) if clock.isdecimal() else 0,
        )
