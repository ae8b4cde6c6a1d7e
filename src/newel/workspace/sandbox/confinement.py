"""What confines the launcher of a sandbox, and with it all that it starts: bubblewrap, or a part of it (``partial``)."""

from __future__ import annotations

import contextlib
import marshal
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.sandbox.policy import INSIDE, PROXY_VARIABLES, SandboxPolicy

PROGRAMS_INSIDE: Final = "/run/newel/bin"
"""First on the ``PATH`` of commands: the ``git`` that passes on what changes the repository."""

PROGRAMS: Final = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
"""Where bubblewrap is looked for: a project's folder may be on PATH."""

MAX_TRIED: Final = 100
"""Files of the home folder that the self-test tries."""

FindPolicy = Callable[[], SandboxPolicy]


class SandboxError(WorkspaceError):
    """The sandbox cannot be used; no command runs."""


class CannotStart(SandboxError):
    """What makes the sandbox is there, and ended instead of starting it."""


def _never() -> bool:
    return False


class LaunchSpec(msgspec.Struct, frozen=True):
    """The program that starts a launcher, confined, and the descriptors that it inherits; ``environ`` is what commands have in their
    environment, ``programs`` a folder that is first on their ``PATH``, "" for none. ``ends_with_its_program`` says that the kernel ends all
    that is inside when the program is killed. ``is_busy`` says whether a helper outside works for a process inside.
    """

    argv: Sequence[str]
    descriptors: Sequence[int]
    environ: Mapping[str, str]
    programs: str = ""
    ends_with_its_program: bool = False
    is_busy: Callable[[], bool] = _never


class Confinement(Protocol):
    """A way to confine a launcher."""

    def confine(
        self, find_policy: FindPolicy, policy: SandboxPolicy, server: int, stack: ExitStack
    ) -> LaunchSpec:
        """Prepare a launcher for a policy; ``server`` is its socket, ``stack`` is closed when it has ended. Raises ``SandboxError``."""
        ...

    def facts(self) -> Sequence[str]:
        """What a result of the self-test depends on, on this machine. Raises ``SandboxError``."""
        ...

    def forbidden(self, policy: SandboxPolicy, port: int) -> dict[str, Any]:
        """What the self-test in ``launcher_main`` tries; ``port`` is that of a server of this machine."""
        ...


class BubblewrapConfinement:
    """Implements ``Confinement`` with namespaces of the kernel."""

    def confine(
        self, find_policy: FindPolicy, policy: SandboxPolicy, server: int, stack: ExitStack
    ) -> LaunchSpec:
        from newel.workspace.process.python_program import code_of, in_memory, own_python
        from newel.workspace.sandbox import launcher_main
        from newel.workspace.sandbox.bubblewrap import PROXY, bubblewrap
        from newel.workspace.sandbox.seccomp import seccomp_filter

        check_system()
        program, python = find_bubblewrap(), own_python()
        broker, files, is_busy = -1, dict[str, str](), _never
        if policy.repository is not None and policy.writable:
            from newel.workspace.sandbox.git_broker import GIT_PROGRAMS, GitBroker
            from newel.workspace.sandbox.git_shim import shim_files

            if git := shutil.which("git", path=GIT_PROGRAMS):
                answering = stack.enter_context(contextlib.closing(GitBroker(find_policy, program, python)))
                broker, files = answering.theirs.fileno(), shim_files(git, python)
                is_busy = answering.is_busy
        seccomp = stack.enter_context(in_memory(seccomp_filter())).fileno()
        code = stack.enter_context(in_memory(marshal.dumps((code_of(launcher_main), dict(files))))).fileno()
        words = (code, server, PROXY if policy.proxy else "", broker)
        argv = [
            *bubblewrap(program, policy, seccomp),
            *(python, "-I", "-S", "-c", _START, *map(str, words)),
        ]
        environ = {"TMPDIR": "/tmp"} | proxy_environ(launcher_main.PROXY_PORT if policy.proxy else None)  # noqa: S108 — it is private
        descriptors = [seccomp, code, server, *([] if broker < 0 else [broker])]
        programs = PROGRAMS_INSIDE if broker >= 0 else ""
        return LaunchSpec(argv, descriptors, environ, programs, ends_with_its_program=True, is_busy=is_busy)

    def facts(self) -> Sequence[str]:
        program = Path(find_bubblewrap())
        state = program.stat()
        return [str(program), str(state.st_size), str(state.st_mtime_ns)]

    def forbidden(self, policy: SandboxPolicy, port: int) -> dict[str, Any]:
        return {
            "unwritable": ["/", "/usr", "/etc", *policy.protected],
            "hidden": hidden_in_home(policy),
            "port": port,
        }


_START: Final = """
import marshal, os, sys
with os.fdopen(int(sys.argv[1]), "rb") as given:
    code, files = marshal.load(given)
scope = {"__name__": "launcher"}
exec(code, scope)
scope["main"](int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), files)
"""


def proxy_environ(port: int | None) -> dict[str, str]:
    """The variables that lead programs to the network proxy."""
    values = dict.fromkeys(PROXY_VARIABLES[:4], f"http://127.0.0.1:{port}")
    return {"NEWEL_SANDBOX": INSIDE} | (
        {} if port is None else values | {"NO_PROXY": "localhost,127.0.0.1,::1"}
    )


def hidden_in_home(policy: SandboxPolicy) -> list[str]:
    """What is in the home folder and not in a sandbox. Raises ``SandboxError``."""
    try:
        paths = sorted(str(path) for path in Path(policy.home).iterdir())
    except OSError as error:
        raise SandboxError("The home folder cannot be read.") from error
    shown = [*policy.readable, *policy.writable, *policy.links]
    return [path for path in paths if not _is_shown(path, shown)][:MAX_TRIED]


def _is_shown(path: str, shown: Iterable[str]) -> bool:
    return any(each == path or each.startswith(f"{path}/") or path.startswith(f"{each}/") for each in shown)


def check_system() -> None:
    """Raises ``SandboxError`` if there are no sandboxes for this system."""
    from newel.workspace.sandbox.seccomp import MACHINES

    if sys.platform != "linux" or platform.machine() not in MACHINES:
        raise SandboxError(f"The sandbox needs Linux on {' or '.join(MACHINES)}.")


def find_bubblewrap() -> str:
    """The path of bubblewrap. Raises ``SandboxError`` if this machine has none that can be used."""
    if program := shutil.which("bwrap", path=PROGRAMS):
        return program
    check_system()
    raise SandboxError(
        "The sandbox needs bubblewrap, which is not installed (Debian, Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`)."
    )
