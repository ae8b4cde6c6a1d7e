"""When garbage is collected: neither a start nor a key waits for it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Final

AT_START: Final = 200_000
AT_WORK: Final = 50_000
WHILE_TYPING: Final = 5_000
"""New objects after which garbage is collected. A start leaves hardly any. Collecting 50,000 takes 20 ms, for which a key would wait."""


class ModuleFreezer:
    """For ``gc.callbacks``: before a collection of older objects, what modules were loaded since the last one is exempted for good, with
    all else that there is. An answer, a command and a subagent load many, and the collections that look at them would take 50 ms and more.
    """

    def __init__(self) -> None:
        self._loaded = 0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start" and info["generation"] and len(sys.modules) != self._loaded:
            self._loaded = len(sys.modules)
            gc.freeze()
