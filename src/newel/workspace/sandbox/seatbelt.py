"""A partial sandbox for macOS, made with its program ``sandbox-exec``: a profile for each command, and no process beside it.

It has been tested on no Mac. It counts only where its self-test finds nothing (``newel.app.sandbox_choice``).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast

from newel.storage.temporary_folder import temporary_folder
from newel.workspace.process.launcher import DIRECT, Stream
from newel.workspace.process.python_program import own_python
from newel.workspace.sandbox import launcher_main
from newel.workspace.sandbox.confinement import (
    CannotStart,
    FindPolicy,
    SandboxError,
    proxy_environ,
)
from newel.workspace.sandbox.partial import forbidden_in_part, make_home
from newel.workspace.sandbox.policy import PROXY_VARIABLES, SandboxPolicy

SANDBOX_EXEC: Final = "/usr/bin/sandbox-exec"

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/random", "/dev/urandom")

SERVICES: Final = (
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.logger",
    "com.apple.system.notification_center",
)
"""What programs ask for users and for the log. Others start programs outside."""

PRIVATE: Final = ("/private/tmp", "/private/var/tmp", "/private/var/folders", "/Users", "/Volumes")

FILES: Final = "tmp"
"""Below the folder for temporary files: those of commands."""

TEST_S: Final = 20.0


def seatbelt_facts() -> Sequence[str]:
    """As of ``newel.workspace.sandbox.confinement.Confinement``."""
    if not Path(SANDBOX_EXEC).exists():
        raise SandboxError(f"A partial sandbox needs {SANDBOX_EXEC}, which is missing.")
    return [SANDBOX_EXEC]


class SeatbeltSandbox:
    """Implements ``newel.workspace.sandbox.sandbox.CommandSandbox``."""

    def __init__(self, find_policy: FindPolicy, program: str = SANDBOX_EXEC) -> None:
        self._find_policy = find_policy
        self._program = program
        self._temporary: str | None = None
        self._has_run = False
        self._opened = ExitStack()

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        streams: tuple[Stream, Stream, Stream],
        mark: str,
    ) -> subprocess.Popen[bytes]:
        policy = self._find_policy()
        temporary = self._open(policy)
        inside = {name: value for name, value in env.items() if name not in PROXY_VARIABLES}
        inside |= proxy_environ(None) | {
            "HOME": f"{temporary}/home",
            "TMPDIR": f"{temporary}/{FILES}",
        }
        words = [self._program, "-p", seatbelt_profile(policy, temporary), *argv]
        self._has_run = True
        return DIRECT.start(words, cwd=cwd, env=inside, streams=streams, mark=mark)

    def reached(self) -> list[str]:
        return []

    def test(self) -> list[str]:
        import socket

        policy = self._find_policy()
        profile = seatbelt_profile(policy, self._open(policy))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            test = json.dumps(forbidden_in_part(policy, listener.getsockname()[1], signals=True))
            program = f"{Path(launcher_main.__file__).read_text(encoding='utf-8')}{_TEST}"
            try:
                done = subprocess.run(
                    [self._program, "-p", profile, own_python(), "-I", "-S", "-c", program, test],
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TEST_S,
                    check=True,
                )
                return cast("list[str]", json.loads(done.stdout))
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise CannotStart(f"The partial sandbox could not be started: {error}.") from error

    def may_run(self) -> bool:
        return self._has_run  # macOS does not tell which processes a command has left

    def close(self) -> None:
        self._opened.close()
        self._temporary = None

    def _open(self, policy: SandboxPolicy) -> str:
        """The folder for temporary files."""
        if self._temporary is None:
            self._temporary = self._opened.enter_context(temporary_folder())
            make_home(Path(self._temporary, "home"), policy)
            Path(self._temporary, FILES).mkdir()
        return self._temporary


_TEST: Final = """
import json
print(json.dumps(run_test(json.loads(sys.argv[1]))))
"""


def seatbelt_profile(policy: SandboxPolicy, temporary: str) -> str:
    """The profile for a policy, in which the last rule that matches decides."""
    writable = [*policy.writable, temporary]
    closed = [policy.home, *PRIVATE]
    shown = [*policy.readable, *writable]
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny network*)",
        "(deny signal)",
        "(allow signal (target same-sandbox))",
        "(deny lsopen)",
        "(deny appleevent-send)",
        "(deny job-creation)",
        "(deny mach-lookup)",
        *(f'(allow mach-lookup (global-name "{name}"))' for name in SERVICES),
        "(deny file-write*)",
        *_rules("allow", "file-write*", writable),
        *(f"(allow file-write-data (literal {_quoted(path)}))" for path in DEVICES),
        *_rules("deny", "file-write*", [*policy.protected, *policy.watched]),
        *_rules("deny", "file-read*", closed),
        *(f"(allow file-read-metadata (literal {_quoted(path)}))" for path in _parents(shown)),
        *_rules("allow", "file-read*", shown),
        *_rules("deny", "file-read*", policy.hidden),
        *_rules("deny", "file-write*", policy.hidden),
    ]
    return "\n".join(lines) + "\n"


def _rules(decision: str, act: str, paths: Iterable[str]) -> Iterator[str]:
    for path in dict.fromkeys(paths):
        if path.strip("/"):
            yield f"({decision} {act} (subpath {_quoted(path)}))"


def _parents(paths: Iterable[str]) -> list[str]:
    """The folders above paths: programs look at each of them."""
    return sorted({str(parent) for path in paths for parent in Path(path).parents})


def _quoted(path: str) -> str:
    """A string of the profile's language, in which only these two characters mean something."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
