"""Whether a machine has room for the jobs of a fleet."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from newel.text.format import format_size

_WANTED: Final = 10_000_000_000
_WANTED_PART: Final = 10
_NEEDED: Final = 1_000_000_000
_NEEDED_PART: Final = 100


def free_space_wanted(total: int) -> int:
    """The bytes of a disk that are to stay free: a tenth of it, but 10 GB at most. A machine removes folders of ended jobs for them."""
    return min(total // _WANTED_PART, _WANTED)


def free_space_needed(total: int) -> int:
    """The bytes of a disk without which no job begins: a hundredth of it, but 1 GB at most."""
    return min(total // _NEEDED_PART, _NEEDED)


def missing_space(folder: Path, wanted: Callable[[int], int]) -> int:
    """How many bytes less than ``wanted`` are free on the disk of a folder; 0 if that many are, or if it cannot be said."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return 0
    return max(0, wanted(usage.total) - usage.free)


class DiskSpace:
    """The disk of ``folder``. ``report`` gets a line when it becomes full, and one when it has room again."""

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._report = report
        self._was_full = False

    def is_full(self) -> bool:
        missing = missing_space(self._folder, free_space_needed)
        if missing and not self._was_full:
            self._report(
                f"The disk of {self._folder} is full: this worker claims no jobs until {format_size(missing)} more are free."
            )
        elif self._was_full and not missing:
            self._report(f"The disk of {self._folder} has room again.")
        self._was_full = bool(missing)
        return self._was_full
