"""Programs that tests need and a machine may lack."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(name: str, package: str = "", *, more: str = "") -> str:
    """A program's path. Where it is missing the test is skipped, or fails if ``NEWEL_TESTS_NEED_ALL`` is set; ``more`` are
    folders to look in besides those of PATH.
    """
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{more}")
    if found:
        return found
    words = f"needs {name}: `apt-get install {package or name}`"
    if os.environ.get("NEWEL_TESTS_NEED_ALL"):
        pytest.fail(words)
    pytest.skip(words)
