"""Runs Newel as a user without special rights: tests as root prove nothing about secrets."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.processes import COMMAND_SECONDS
from tests.support import Newel

USER = 54321
SYSTEM_PYTHON = "/usr/bin/python3"
MODULES = os.pathsep.join([str(Path(__file__).parents[1] / "src"), sysconfig.get_paths()["purelib"]])
MAIN = "import sys; from newel.cli.main import main; sys.exit(main())"


def run_as_user(
    newel: Newel, *words: str, under: Sequence[str] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run Newel as an ordinary user: the current one unless that is root. Skips the test where that is impossible. ``under`` is a command
    that root begins it with.

    For another user the folders are copied, because pytest closes its own to others whenever another pytest starts.
    """
    if os.geteuid() != 0:
        return _run([sys.executable], newel.home, newel.project, newel.environ | environ, words)
    python = usable_python()
    with tempfile.TemporaryDirectory(prefix="newel-user-") as name:
        base = Path(name)
        base.chmod(0o755)
        for folder in (newel.home, newel.project):
            shutil.copytree(folder, base / folder.name, symlinks=True)
        for path in base.rglob("*"):
            if not path.lstat().st_mode & stat.S_ISUID:  # which such a program would lose
                os.chown(path, USER, USER, follow_symlinks=False)
        given = newel.environ | {"PATH": os.defpath, "HOME": str(base / newel.home.name)} | environ
        folders = base / newel.home.name, base / newel.project.name
        if under:
            become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
            return _run([*under, *become, python], *folders, given, words)
        user: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []}
        return _run([python], *folders, given, words, **user)


def usable_python() -> str:
    """A Python that an ordinary user can run Newel with. Skips the test if there is none."""
    python = next((each for each in (sys.executable, SYSTEM_PYTHON) if _is_usable(each)), None)
    if python is None:
        pytest.skip("an ordinary user cannot run a Python of this version here, or cannot read this checkout")
    return python


def _run(
    python: Sequence[str],
    home: Path,
    project: Path,
    environ: Mapping[str, str],
    words: Sequence[str],
    **user: Any,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, "-c", MAIN, *words],
        cwd=project,
        env={**environ, "HOME": str(home), "PYTHONPATH": MODULES},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
        **user,
    )


@cache
def _is_usable(python: str) -> bool:
    """Whether another user can run this Python and read Newel, and the Python accepts the installed extension modules."""
    if shutil.which(python) is None:
        return False
    asks = "import sys, msgspec, newel; print(sys.version_info[:2])"
    try:
        said = subprocess.run(
            [python, "-c", asks],
            env={"PYTHONPATH": MODULES},
            user=USER,
            group=USER,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return False
    return said.stdout.strip() == str(sys.version_info[:2])
