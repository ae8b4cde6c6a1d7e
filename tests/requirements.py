"""Requirements of tests that a machine may lack: their skips, and the line that says what to install."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from typing import NoReturn

import pytest


def require_program(name: str, package: str = "", *, more: str = "") -> str:
    """A program's path. Without it, the test is skipped, or fails if ``NEWEL_TESTS_NEED_ALL`` is set; ``more`` are
    folders to search besides those of PATH.
    """
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{more}")
    return found or skip_or_fail(f"needs {name}: `apt-get install {package or name}`")


def skip_or_fail(words: str) -> NoReturn:
    """Skip the test because this machine lacks something, or fail it if ``NEWEL_TESTS_NEED_ALL`` is set. Called while a
    module is imported, it does the same to all tests of the module.
    """
    if os.environ.get("NEWEL_TESTS_NEED_ALL"):
        pytest.fail(words)
    pytest.skip(words, allow_module_level=True)


def summary(reasons: Iterable[str]) -> str:
    """One line for the end of a run: how many tests were skipped for lack of something, and how to install it."""
    told = [reason for reason in reasons if "needs " in reason]
    packages = {each for reason in told for each in re.findall(r"`apt-get install ([^`]+)`", reason)}
    others = {reason.partition("needs ")[2] for reason in told if "apt-get install" not in reason}
    remedies = ([f"apt-get install {' '.join(sorted(packages))}"] if packages else []) + sorted(others)
    count = f"{len(told):,} tests were" if len(told) > 1 else "1 test was"
    return f"{count} skipped for want of: {'; '.join(remedies)}" if told else ""
