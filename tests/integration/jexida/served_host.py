"""``jexida`` on a host: its command line, its settings, and its input."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.forked import start
from tests.integration.terminal.conftest import Terminal
from tests.sshd import Sshd
from tests.support import BIN

CONFIG = """\
[model]
port = {port}

[routines]
greet = {{ description = "Say hello", cmd = "echo hello from $(whoami)" }}
say = {{ cmd = "echo {{what}}", variables = ["what"] }}
"""

Begin = Callable[..., Terminal]


def command(host: Sshd, *more: str) -> list[str]:
    there = ["--host", "host", "--user", host.user, "--ssh-config", str(host.config)]
    return [str(BIN / "jexida"), *there, *more]


def environ(home: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **more,
    }


def configure(home: Path, port: int) -> None:
    (home / ".jexida").mkdir()
    (home / ".jexida" / "config.toml").write_text(CONFIG.format(port=port))


def output_of_pipe(whole: Sequence[str], home: Path, words: str, **env: str) -> str:
    """The output of a command that reads ``words`` from a pipe."""
    with start(whole, cwd=home, env=environ(home, **env), stdin=subprocess.PIPE) as process:
        try:
            return process.communicate(words, timeout=20)[0]
        finally:
            process.kill()
