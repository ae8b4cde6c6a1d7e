"""A wrong clock for the programs of a test, by faketime. Waits and time limits are not affected."""

from __future__ import annotations

from pathlib import Path

from tests.requirements import require_program, skip_or_fail


def clock_environ(**where: str) -> dict[str, str]:
    """The variables that give a program, and all that it starts, the clock of ``FAKETIME`` or ``FAKETIME_TIMESTAMP_FILE``."""
    require_program("faketime")
    found = [*Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1")]
    if not found:
        skip_or_fail("needs the library of faketime where it usually is, in /usr/lib")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(Path(__file__).with_name("faketime")),
        **where,
    }
