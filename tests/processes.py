"""Other processes, for tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
