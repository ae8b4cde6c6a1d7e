"""If this fails, a process that a fault leaves behind holds up the tests of faults, and nobody learns which it was."""

from __future__ import annotations

import subprocess

from tests.faults.system_call_faults import STRACE, end_traced, needs_strace


@needs_strace
def test_a_process_that_stays_is_named_and_killed() -> None:
    leaves_one = "exec 2>/dev/null; sleep 4327 & exit"
    with subprocess.Popen(
        [str(STRACE), "-f", "-o", "/dev/null", "sh", "-c", leaves_one], stderr=subprocess.PIPE, text=True
    ) as strace:
        (left,) = end_traced(strace)
    assert left.endswith("sleep 4327 "), left
