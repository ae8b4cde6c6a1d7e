"""A partial sandbox, for machines on which bubblewrap cannot be used: Landlock and a filter of system calls (``partial_main``).

It needs no rights, so it works in containers. It has no view of files of its own: what it cannot hold is in ``NOT_HELD``.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import platform
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from newel.storage.temporary_folder import temporary_folder
from newel.workspace.process.python_program import code_of, in_memory, own_python
from newel.workspace.sandbox import launcher_main, partial_main
from newel.workspace.sandbox.confinement import (
    FindPolicy,
    LaunchSpec,
    SandboxError,
    check_system,
    hidden_in_home,
    proxy_environ,
)
from newel.workspace.sandbox.landlock import (
    LEAST,
    SCOPED,
    handled_rights,
    landlock_rules,
    landlock_version,
)
from newel.workspace.sandbox.policy import SandboxPolicy, is_below
from newel.workspace.sandbox.seccomp import MACHINES, partial_filter

NO_LANDLOCK: Final = (
    "A partial sandbox needs Landlock of Linux 6.2 or newer, which this kernel does not offer."
)

BACKLOG: Final = 128

_OVERRIDE_OWNERS: Final = 1
"""CAP_DAC_OVERRIDE: root in a container may have to work on a project of another user."""


class PartialConfinement:
    """Implements ``newel.workspace.sandbox.confinement.Confinement``."""

    def confine(
        self, find_policy: FindPolicy, policy: SandboxPolicy, server: int, stack: ExitStack
    ) -> LaunchSpec:
        del find_policy  # git needs no help: it can write its folder
        version = find_landlock()
        temporary = stack.enter_context(temporary_folder())
        home, files = Path(temporary, "home"), Path(temporary, "tmp")
        make_home(home, policy)
        files.mkdir()
        listener, port = _open_port(stack) if policy.proxy else (-1, None)
        given = {
            "rules": landlock_rules(policy, temporary, version),
            "handled": handled_rights(version),
            "fields": 1 + (version >= 4) + (version >= SCOPED),
            "filter": partial_filter(),
            "seccomp": MACHINES[platform.machine()].partial.seccomp,
            "kept": [_OVERRIDE_OWNERS] if _is_of_others(policy) else [],
            "sockets": [*policy.writable, temporary],
            "proxy": policy.proxy or "",
            "port": port or -1,
            "temporary": temporary,
        }
        code = marshal.dumps((code_of(launcher_main), code_of(partial_main), given))
        file = stack.enter_context(in_memory(code)).fileno()
        argv = [own_python(), "-I", "-S", "-c", _START, *map(str, (file, server, listener))]
        environ = {"HOME": str(home), "TMPDIR": str(files)} | proxy_environ(port)
        return LaunchSpec(argv, [file, server, *([] if listener < 0 else [listener])], environ)

    def facts(self) -> Sequence[str]:
        return ["Landlock", str(find_landlock())]

    def forbidden(self, policy: SandboxPolicy, port: int) -> dict[str, Any]:
        return forbidden_in_part(policy, port, signals=find_landlock() >= SCOPED)


_START: Final = """
import marshal, os, sys
with os.fdopen(int(sys.argv[1]), "rb") as source:
    launcher, program, given = marshal.load(source)
scope, inside = {"__name__": "partial"}, {"__name__": "launcher"}
exec(launcher, inside)
exec(program, scope)
sys.exit(scope["main"](given, inside, int(sys.argv[2]), int(sys.argv[3])))
"""


def forbidden_in_part(policy: SandboxPolicy, port: int, *, signals: bool) -> dict[str, Any]:
    """What the self-test tries where nothing is hidden, and closed instead."""
    beside = {os.path.dirname(path) for path in policy.writable}  # noqa: PTH120 — texts
    folders = ["/", "/usr", "/etc", policy.home, *sorted(beside), *policy.readable]
    return {
        "unwritable": [path for path in folders if not is_below(path, policy.writable)] + [*policy.protected],
        "unchanged": [path for path in policy.protected if Path(path).is_file()],
        "hidden": [],
        "closed": [*policy.hidden, *hidden_in_home(policy)],
        "port": port,
        "outside": os.getpid(),
        "signals": signals,
    }


def find_landlock() -> int:
    """The version of Landlock. Raises ``SandboxError`` if a partial sandbox cannot be made with it."""
    check_system()
    version = landlock_version()
    if version < LEAST:
        raise SandboxError(NO_LANDLOCK)
    return version


def make_home(home: Path, policy: SandboxPolicy) -> None:
    """A home folder with links to what commands may see of the user's own; the rest of it is theirs, and gone at the end."""
    home.mkdir()
    shown = [path for path in (*policy.readable, *policy.writable, *policy.links) if path != policy.home]
    for path in sorted(path for path in shown if is_below(path, [policy.home])):
        link = home / path.removeprefix(policy.home).lstrip("/")
        with contextlib.suppress(OSError):  # it is below another one
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


def _open_port(stack: ExitStack) -> tuple[int, int]:
    """A port of the loopback for the proxy; returns the descriptor of its socket, and its number."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    return listener.fileno(), listener.getsockname()[1]


def _is_of_others(policy: SandboxPolicy) -> bool:
    """Whether root works on files of another user."""
    if os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError):
        return any(Path(path).stat().st_uid != 0 for path in policy.writable)
    return False
