"""Limits for a sandbox as a whole: a control group (version 2) with all of its processes, where the user may make one.

Nothing is asked of systemd, no other group is changed, and Newel's own process is never moved. Without a group, the limits of each process
are left; that is no failure.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

MAX_PROCESSES: Final = 4_096
"""Processes and threads, unless the user says how many."""

GIB: Final = 1 << 30

END_S: Final = 1.0
"""Seconds for killed processes to leave a group."""

FULL: Final = 0.9
"""The part of a limit from which on nothing useful runs any more."""

CONTROLLERS: Final = {"RLIMIT_AS": "memory", "RLIMIT_NPROC": "pids"}
"""What replaces limits of each process."""

NUMBERS: Final = ("memory.max", "memory.high", "memory.swap.max", "pids.max")
"""Limits that a new group takes over from those that its processes leave."""

OTHERS: Final = {"cpu.max": "max", "cpuset.cpus": "", "io.max": ""}
"""Other limits, with the first word where there is none."""

NO_GROUPS: Final = "control groups (version 2) are not mounted"

NOT_DELEGATED: Final = "no control group with memory or processes is delegated to this user; where systemd runs, start Newel with `systemd-run --user --scope newel`"

BOUND: Final = "Newel's own control group {folder} has {name}, which its commands must not leave"

MEMORY: Final = (
    "The sandbox has reached its limit of {limit} of memory (files in /tmp count), and the kernel ended {count} of its processes. To allow more, the "
    "user can set [sandbox] max_memory in config.toml."
)

PROCESSES: Final = "The sandbox has reached its limit of {limit} processes and threads. To allow more, the user can set [sandbox] max_processes in config.toml."

ENDED: Final = "The sandbox before this command was full, so it was ended, with its background processes and its files in /tmp."

_numbers = itertools.count()


class GroupPlace(msgspec.Struct, frozen=True):
    """A group in which others can be made, with the ``controllers`` that they will have; ``limits`` are those of the groups below it that
    processes leave for them, and ``memory`` is what it can have at all, in bytes.
    """

    folder: Path
    controllers: frozenset[str]
    limits: Mapping[str, int]
    memory: int


class NoControlGroup(Exception):
    """Why there are no limits for a sandbox as a whole."""


def find_group_place(root: str = "/") -> GroupPlace:
    """The nearest place for groups, from this process's own on upward. ``root`` is where ``/proc`` is. Raises ``NoControlGroup``."""
    own, top = _own_group(root)
    left: list[Path] = []
    for folder in (own, *own.parents):
        enabled = _read(folder / "cgroup.subtree_control").split()
        controllers = frozenset(CONTROLLERS.values()).intersection(enabled)
        if controllers and os.access(folder / "cgroup.procs", os.W_OK):
            above = [each for each in (folder, *folder.parents) if each.is_relative_to(top)]
            memory = _least([(each, "memory.max") for each in above])
            return GroupPlace(folder, controllers, _limits_of(left), min([_memory_of_machine(), *memory]))
        if folder == top:
            break
        left.append(folder)
    raise NoControlGroup(NOT_DELEGATED)


def _own_group(root: str) -> tuple[Path, Path]:
    """This process's own group, and the top of the hierarchy that is mounted."""
    top = Path(root)
    lines = _read(top / "proc/self/cgroup").splitlines()
    path = next((Path(line.removeprefix("0::")) for line in lines if line.startswith("0::/")), Path())
    for line in _read(top / "proc/self/mountinfo").splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            inner, point = fields.split()[3:5]
            if path.is_relative_to(inner) and ".." not in path.parts:
                mounted = top / point.lstrip("/")
                return mounted / path.relative_to(inner), mounted
    raise NoControlGroup(NO_GROUPS)


def _limits_of(folders: Sequence[Path]) -> dict[str, int]:
    """Raises ``NoControlGroup`` if a group has a limit that another one cannot have as well."""
    for folder, (name, unlimited) in itertools.product(folders, OTHERS.items()):
        text = _read(folder / name).strip()
        if text and text.split()[0] != unlimited:
            raise NoControlGroup(BOUND.format(folder=folder, name=name))
    found = {name: _least([(folder, name) for folder in folders]) for name in NUMBERS}
    return {name: least[0] for name, least in found.items() if least}


def _least(files: Iterable[tuple[Path, str]]) -> list[int]:
    """The least number in these files, if there is one in any."""
    texts = [_read(folder / name).strip() for folder, name in files]
    return sorted(int(text) for text in texts if text.isdecimal())[:1]


def _memory_of_machine() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def default_memory(memory: int) -> int:
    """All but a tenth, and but the last GiB or half: what a machine needs to go on. In bytes."""
    return memory - max(memory // 10, min(GIB, memory // 2))


class ControlGroup:
    """A group with limits. ``wanted`` are limits by the names of the module ``resource``; for others there are defaults. Raises
    ``NoControlGroup``.

    ``held`` are the limits that it has, by the names of the kernel's files.
    """

    def __init__(self, place: GroupPlace, wanted: Mapping[str, int]) -> None:
        memory = wanted.get("RLIMIT_AS", default_memory(place.memory))
        limits = {
            "memory.max": memory,
            # With more swap, a machine stands still for minutes before a process is ended.
            "memory.swap.max": max(0, memory - place.memory),
            "pids.max": wanted.get("RLIMIT_NPROC", MAX_PROCESSES),
        }
        for name, most in place.limits.items():
            limits[name] = min(most, limits.get(name, most))
        self.folder = place.folder / f"newel-{os.getpid()}-{next(_numbers)}"
        self.held: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._was_reached = False
        try:
            _sweep(place.folder)
            self.folder.mkdir()
        except OSError as error:
            raise NoControlGroup(f"{self.folder}: {error.strerror}") from error
        for name, limit in limits.items():
            if name.partition(".")[0] in place.controllers:
                with contextlib.suppress(OSError):
                    _write(self.folder / name, str(limit))
                    self.held[name] = limit

    def add(self, pid: int) -> None:
        """Move a process, which takes its later children with it. Raises ``NoControlGroup``."""
        try:
            _write(self.folder / "cgroup.procs", str(pid))
        except OSError as error:
            self.held.clear()  # they would hold for the wrong processes
            raise NoControlGroup(f"{self.folder}: {error.strerror}") from error

    def replaces(self, limit: str) -> bool:
        """Whether the group has what a limit of each process, such as ``RLIMIT_AS``, stands for."""
        return f"{CONTROLLERS.get(limit)}.max" in self.held

    def describe(self) -> str:
        """The limits, for the user."""
        memory, processes = self.held.get("memory.max"), self.held.get("pids.max")
        words = [] if memory is None else [f"{in_gib(memory)} of memory"]
        return " and ".join([*words, *([] if processes is None else [f"{processes:,} processes"])])

    def reached(self) -> list[str]:
        """What limits have stopped since the last call, for the user and the model."""
        found: list[str] = []
        if "memory.max" in self.held and (count := self._new("memory.events", "oom_kill")):
            found.append(MEMORY.format(limit=in_gib(self.held["memory.max"]), count=count))
        if "pids.max" in self.held and self._new("pids.events", "max"):
            found.append(PROCESSES.format(limit=f"{self.held['pids.max']:,}"))
        self._was_reached = self._was_reached or bool(found)
        return found

    def is_full(self) -> bool:
        """Whether a limit was reached and not much is free again: files in memory, which nobody can remove, or a fork bomb."""
        if not self._was_reached:
            return False
        self._was_reached = False
        stat, processes = self._counts("memory.stat"), _least([(self.folder, "pids.current")])
        used = {"memory.max": stat.get("anon", 0) + stat.get("shmem", 0), "pids.max": sum(processes)}
        return any(used[name] > FULL * limit for name, limit in self.held.items() if name in used)

    def _new(self, file: str, event: str) -> int:
        before, self._seen[file] = self._seen.get(file, 0), self._counts(file).get(event, 0)
        return self._seen[file] - before

    def _counts(self, file: str) -> dict[str, int]:
        words = _read(self.folder / file).split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))

    def close(self) -> None:
        """Kill what is left in it, and remove it."""
        until = time.monotonic() + END_S
        while not _remove(self.folder) and time.monotonic() < until:
            with contextlib.suppress(OSError):  # before Linux 5.14 they end without it
                _write(self.folder / "cgroup.kill", "1")
            time.sleep(0.001)


def try_limits(wanted: Mapping[str, int]) -> str:
    """Make a group, with a process in it; returns the limits that it has, for the user. Raises ``NoControlGroup``."""
    group = ControlGroup(find_group_place(), wanted)
    try:
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
            group.add(process.pid)
        if not group.describe():
            raise NoControlGroup(f"the limits of {group.folder} cannot be written")
        return group.describe()
    finally:
        group.close()


def in_gib(size: int) -> str:
    return f"{size / GIB:.3g} GiB"


def _sweep(folder: Path) -> None:
    """Remove the groups of killed Newels, whose processes have ended with them: the kernel keeps a group that has any."""
    for name in os.listdir(folder):  # noqa: PTH208 — names
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == "newel" and pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                if (folder / name).lstat().st_uid == os.geteuid():
                    _remove(folder / name)


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a process is in it
        return False
    return True


def _read(file: Path) -> str:
    """Empty if it does not exist, or cannot be read."""
    with contextlib.suppress(OSError):
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    return ""


def _write(file: Path, text: str) -> None:
    """Raises ``OSError``."""
    with file.open("wb", buffering=0) as opened:  # a text would be flushed, and fail, at a time of its own
        opened.write(text.encode())
