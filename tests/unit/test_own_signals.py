"""If these fail, tests of Ctrl+C and closed terminals fail under ``nohup`` or in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEARD = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
ASKED = f"import signal; print([signal.getsignal(each) == signal.SIG_IGN for each in {[int(each) for each in HEARD]}])"
IGNORING = f"""
import os, signal, sys
for each in {[int(each) for each in HEARD]}:
    signal.signal(each, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_programs_started_by_tests_get_signals() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[False,", "False,", "False,", "False]"]


@pytest.mark.slow  # tests within a test
@pytest.mark.timeout(120)
def test_programs_started_by_tests_in_the_background_get_signals() -> None:
    this = f"{Path(__file__)}::{test_programs_started_by_tests_get_signals.__name__}"
    subprocess.run(  # in one of xdist's workers, which inherit the ignored signals of their parent
        [sys.executable, "-c", IGNORING, "-m", "pytest", "-q", "-n", "1", this],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        cwd=Path(__file__).resolve().parent.parent.parent,
        check=True,
        capture_output=True,
    )
