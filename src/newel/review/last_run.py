"""The last run that did anything in a project, recorded or not, so that an undo never means an older one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.messages import Wire
from newel.storage.files import read_regular, replace_file

FILE: Final = "last_run.json"


class LastRun(Wire, frozen=True, kw_only=True):
    """A run that called a tool which may change something. ``began`` is the time at which it began, in ISO 8601. One that is
    not recorded has no words.
    """

    run: str
    session: str
    title: str
    began: str
    is_recorded: bool = True


def keep(folder: Path, last: LastRun) -> None:
    """Keep it in the folder of a ledger, for other processes too. What cannot be kept is not: the run goes on."""
    with contextlib.suppress(OSError):  # also where there is no ledger yet, and so no older run
        replace_file(folder / FILE, msgspec.json.encode(last))


def read(folder: Path) -> LastRun | None:
    """None where there is none, or none that can be read."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(read_regular(folder / FILE), type=LastRun)
    return None
