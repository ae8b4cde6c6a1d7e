"""The last run that did anything in a project, recorded or not, so that an undo never means an older one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.messages import Wire, new_id
from newel.storage.own_files import read_regular

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
    beside = folder / f".{new_id()}.tmp"
    with contextlib.suppress(OSError):  # also where there is no ledger yet, and so no older run
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(last))
            beside.replace(folder / FILE)
        except OSError:
            beside.unlink(missing_ok=True)


def read(folder: Path) -> LastRun | None:
    """None where there is none, or none that can be read."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(read_regular(folder / FILE), type=LastRun)
    return None
