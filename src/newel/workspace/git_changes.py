"""Tells whether a working tree has changes that are not committed, without running a program that the repository names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import Final

import anyio
import anyio.to_thread

from newel.workspace.git import git_command, safe_environment
from newel.workspace.process.python_program import own_python

TIMEOUT_S: Final = 20.0
"""For one command: a tree with more files than git looks at meanwhile stays without an answer."""

_MAX_SETTINGS: Final = 1 << 20
_FILTER: Final = "filter."


async def has_changes(folder: str) -> bool | None:
    """Whether files in a folder's repository differ from its last commit, new ones included. None if git cannot tell. Submodules are
    compared by their commits only.

    Cancelled, git is killed.
    """
    with anyio.move_on_after(TIMEOUT_S):
        settings = await _read(folder, {}, "config", "--list", "--name-only", "-z", most=_MAX_SETTINGS)
        if settings is None or len(settings) == _MAX_SETTINGS:
            return None
        changed = await _read(
            folder,
            _without_filters(settings),
            *("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"),
            most=1,
            confined=True,  # a command may change the settings after they were read
        )
        return None if changed is None else bool(changed)
    return None


def _without_filters(settings: bytes) -> dict[str, str]:
    """Variables that turn off all filters, which git would run on the files: a repository can bring its own."""
    names = {
        name.removeprefix(_FILTER).rpartition(".")[0]
        for name in settings.decode(errors="surrogateescape").split("\0")
        if name.startswith(_FILTER)
    }
    off = [
        (f"{_FILTER}{name}.{key}", value)
        for name in sorted(names)
        for key, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    variables = {"GIT_CONFIG_COUNT": str(len(off)), "GIT_NO_LAZY_FETCH": "1"}
    for number, (name, value) in enumerate(off):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


async def _read(
    folder: str, variables: Mapping[str, str], *args: str, most: int, confined: bool = False
) -> bytes | None:
    """The first ``most`` bytes that git prints, which is then ended; None if it fails. ``confined``: it starts no other program, where the
    kernel can keep it from that.
    """
    process = _start(folder, variables, *args, confined=confined)
    if process is None:
        return None
    try:  # in a thread: asyncio complains on the screen about a process that had ended when it was killed
        return await anyio.to_thread.run_sync(partial(_collect, process, most), abandon_on_cancel=True)
    except BaseException:
        process.kill()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(process.__exit__, None, None, None)
        raise


def _start(
    folder: str, variables: Mapping[str, str], *args: str, confined: bool
) -> subprocess.Popen[bytes] | None:
    command = git_command(folder, *args)
    if command is None:
        return None
    if confined and _can_confine():
        from newel.workspace.sandbox.git_confinement import confined_git

        command = confined_git(own_python(), command[0], command[1:])
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**safe_environment(folder), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


@cache
def _can_confine() -> bool:
    if sys.platform != "linux":
        return False
    from newel.workspace.sandbox.landlock import landlock_version

    return landlock_version() > 0


def _collect(process: subprocess.Popen[bytes], most: int) -> bytes | None:
    with process:
        assert process.stdout is not None  # noqa: S101 — it is a pipe
        printed = process.stdout.read(most)
        if len(printed) == most:
            process.kill()
            return printed
        code = process.wait()
    return printed if code == 0 else None
