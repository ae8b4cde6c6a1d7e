"""The last run that changed a project, recorded or not, so that ``undo`` never undoes an older one by mistake."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.messages import Wire
from newel.storage.files import read_regular, replace_file

FILE: Final = "last_run.json"


class LastRun(Wire, frozen=True, kw_only=True):
    """A run that called a tool which may change something. ``began`` is its start in ISO 8601. Without a record it has no title."""

    run: str
    session: str
    title: str
    began: str
    is_recorded: bool = True


def save(folder: Path, last: LastRun) -> None:
    """Save it in the folder of a ledger, for other processes too. Does not raise, as the run continues without it."""
    with contextlib.suppress(OSError):  # also if there is no ledger yet, and so no older run
        replace_file(folder / FILE, msgspec.json.encode(last))


def load(folder: Path) -> LastRun | None:
    """None if there is none, or if it is unreadable."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(read_regular(folder / FILE), type=LastRun)
    return None
