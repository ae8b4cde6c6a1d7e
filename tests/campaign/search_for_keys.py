"""Searches all that a command can read for planted keys, and prints ``FOUND PLACE: NAME`` for each.

It runs under any Python, without Newel. Places: the environment; the environments, command lines and memory of processes; the
home folder; the project; and the user's own files in the folders for temporary files.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

PATTERN = re.compile(b"PLANTED" + rb"-([a-z]+)-[0-9a-f]{8}")
MOST = 1 << 26
"""Bytes of a file or of a piece of memory that are searched."""
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", f"/run/user/{os.getuid()}")  # noqa: S108 — read only

found: set[tuple[str, str]] = set()


def search(place: str, data: bytes) -> None:
    found.update((place, match.group(1).decode()) for match in PATTERN.finditer(data))


def search_path(place: str, path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            for folder, _, names in os.walk(path):
                for name in names:
                    search_path(place, Path(folder, name))
        elif path.is_file():
            with path.open("rb") as file:
                search(place, file.read(MOST))


def search_memory(process: Path) -> None:
    with suppress(OSError), (process / "mem").open("rb", 0) as memory:
        for line in (process / "maps").read_text().splitlines():
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if " rw" in line and end - begin <= MOST:
                with suppress(OSError, ValueError, OverflowError):
                    memory.seek(begin)
                    search("memory", memory.read(end - begin))


def search_all() -> None:
    for name, value in os.environ.items():
        search("environment", os.fsencode(f"{name}={value}"))
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            search_path("process environment", process / "environ")
            search_path("command line", process / "cmdline")
            search_memory(process)
    home = Path.home()
    search_path("home", home)
    search_path("project", Path.cwd())
    for folder in filter(Path.is_dir, map(Path, TEMPORARY)):
        for path in folder.iterdir():
            with suppress(OSError):  # others remove theirs meanwhile
                mine = not path.is_symlink() and path.lstat().st_uid == os.getuid()
                if mine and path not in home.parents:
                    search_path("temporary files", path)


search_all()
sys.stdout.writelines(f"FOUND {place}: {name}\n" for place, name in sorted(found))
sys.stdout.write("SEARCHED\n")
