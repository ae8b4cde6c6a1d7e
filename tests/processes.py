"""Other processes, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

COMMAND_SECONDS: Final = float(os.environ.get("PYTEST_TIMEOUT", "30")) - 5
"""How long a test waits for a command that hangs: until shortly before its own time is over, so that its output is shown."""


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    if sys.platform == "linux":
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
    else:
        command = ["ps", "-o", "stat=", "-p", str(pid)]
        state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "Z"
    return state[0] not in "ZX"


def read_pids(*files: Path) -> list[int]:
    """The pids that a command has written to files; empty until all are there."""
    texts = [file.read_text().strip() for file in files if file.exists()]
    return [int(text) for text in texts] if len(texts) == len(files) and all(texts) else []


def children(pid: int, command: str) -> list[int]:
    """A process's children whose command line contains ``command``. Linux only."""
    pids = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in pids if command in read_proc(child, "cmdline")]


def pids_with(words: str) -> list[int]:
    """The processes with these words, separated by spaces, in their command lines. Linux only."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if words in read_proc(pid, "cmdline")]


def read_proc(pid: int, name: str) -> str:
    """A file of a process below ``/proc``, with spaces for null bytes; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal has not reached its process yet: a second one would then be lost in it. Linux only."""
    masks = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)", read_proc(pid, "status"), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def until_listening(port: int) -> str:
    """A command of Bash that waits until a server listens on a port of the loopback."""
    return f"until (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.02; done"


def ends(pid: int, seconds: float = 5.0) -> bool:
    """Wait until a process has ended; False if it takes longer."""
    until = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)
