"""Newel as a user without special rights runs it: what root may do shows nothing about secrets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Newel

USER = 54321
SYSTEM_PYTHON = "/usr/bin/python3"
MAIN = "import sys; from newel.cli import main; sys.exit(main())"


def run_as_user(newel: Newel, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Newel as an ordinary user, the present one if that is no root. Skips the test where that is impossible."""
    root = os.geteuid() == 0
    python = next((each for each in (sys.executable, SYSTEM_PYTHON) if not root or _is_usable(each)), None)
    if python is None:
        pytest.skip("an ordinary user cannot run a Python of this version here")
    if root:
        for path in (newel.home, newel.project, *_parents(newel.home)):
            path.chmod(0o755)
        for path in (newel.home, newel.project):
            os.chown(path, USER, USER)
    modules = os.pathsep.join([str(Path(__file__).parents[1] / "src"), sysconfig.get_paths()["purelib"]])
    return subprocess.run(
        [python, "-c", MAIN, *words],
        cwd=newel.project,
        env=newel.environ | {"PATH": os.defpath, "PYTHONPATH": modules} | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=25,
        check=False,
        user=USER if root else None,
        group=USER if root else None,
        extra_groups=[] if root else None,
    )


def _is_usable(python: str) -> bool:
    """Whether another user can run it, and it takes the extension modules that are installed for this one."""
    if shutil.which(python) is None:
        return False
    asks = "import sys; print(sys.version_info[:2])"
    try:
        said = subprocess.run(
            [python, "-c", asks], user=USER, group=USER, cwd="/", capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return said.stdout.strip() == str(sys.version_info[:2])


def _parents(folder: Path) -> Iterator[Path]:
    """The folders above it that are this user's own, up to the first that everybody may enter."""
    for each in folder.parents:
        if each.stat().st_mode & 0o005 == 0o005:
            return
        yield each
