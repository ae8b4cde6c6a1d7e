"""Loading many objects at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def no_collection() -> Generator[None]:
    """Pause garbage collection: loading creates no garbage, and collecting would take up to a third of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
