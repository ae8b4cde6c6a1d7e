"""Forgetting: deletes what a ledger stores of some files, or of one run, at the user's request.

Garbage collection keeps what may still be undone; this does not ask. Afterwards no byte of the deleted contents is in the ledger's
folder. Other processes must not have the ledger open, because they rely on what they have read.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.messages import Wire
from newel.review import last_run
from newel.review.store.database import in_use
from newel.review.store.garbage_collection import purge
from newel.review.store.ledger import Checkpoint, Ledger
from newel.review.store.retention import RetentionPolicy
from newel.review.store.schema import LedgerError, pack

SNAPSHOTS: Final = frozenset({".index", ".known", ".known-next"})
"""Endings of the files with the states of all files."""

_ALL: Final = RetentionPolicy(runs=1 << 30, days=36_500, size=1 << 62)
"""Removes only what nothing names."""


class ForgetResult(Wire, frozen=True, kw_only=True):
    """What was deleted: files, and runs of which nothing is left. ``kept`` are files of a run whose history stays, because other
    runs changed them too.
    """

    files: int = 0
    runs: int = 0
    kept: tuple[str, ...] = ()


def stored_files(ledger: Ledger, path: str) -> list[str]:
    """The files of which the ledger stores something: ``path`` itself and everything below it; all of them for ``""``."""
    stored = {name for name, (_, base) in ledger.revisions().items() if base}
    stored |= {before.path for checkpoint in ledger.checkpoints() for before in checkpoint.files}
    return sorted(name for name in stored if not path or name == path or name.startswith(f"{path}/"))


def forget_files(ledger: Ledger, paths: Collection[str]) -> ForgetResult:
    """Delete the contents and the history of files; pending changes of them too. Raises ``LedgerError``."""
    runs = 0
    with ledger.database.writing() as connection:
        _check_alone(ledger)
        for checkpoint in ledger.checkpoints():
            rest = tuple(before for before in checkpoint.files if before.path not in paths)
            if not rest and checkpoint.files:
                connection.execute("DELETE FROM checkpoints WHERE id = ?", (checkpoint.id,))
                runs += 1
            elif rest != checkpoint.files:
                _replace(connection, msgspec.structs.replace(checkpoint, files=rest))
        _remove_histories(connection, paths)
    _erase(ledger)
    return ForgetResult(files=len(paths), runs=runs)


def forget_run(ledger: Ledger, checkpoint: Checkpoint) -> ForgetResult:
    """Delete a run: its checkpoint, and the history of the files that no other run changed. Raises ``LedgerError``."""
    of_run = {before.path for before in checkpoint.files} | {
        entry.path for entry in ledger.entries(run=checkpoint.run)
    }
    of_others = {
        before.path for other in ledger.checkpoints() if other.id != checkpoint.id for before in other.files
    }
    alone = of_run - of_others
    with ledger.database.writing() as connection:
        _check_alone(ledger)
        connection.execute("DELETE FROM checkpoints WHERE id = ?", (checkpoint.id,))
        _remove_histories(connection, alone)
    if ledger.folder is not None and (last := last_run.load(ledger.folder)) and last.run == checkpoint.run:
        last_run.save(ledger.folder, msgspec.structs.replace(last, title="", session="", is_recorded=False))
    _erase(ledger)
    return ForgetResult(files=len(alone), runs=1, kept=tuple(sorted(of_run & of_others)))


def _check_alone(ledger: Ledger) -> None:
    """Within a transaction: raises ``LedgerError`` if another process has the ledger open, or a change is not recorded yet."""
    if not ledger.database.is_alone():
        raise in_use(ledger.folder)
    if any(ledger.effects(owner) for owner in ledger.effect_owners()) or ledger.intents():
        raise LedgerError(
            "A change is still being recorded. Run `newel review` to complete it, and try again."
        )


def _remove_histories(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    for path in paths:
        for table in ("entries", "files", "bases"):
            connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))  # noqa: S608 — names of ours


def _replace(connection: sqlite3.Connection, checkpoint: Checkpoint) -> None:
    data = pack(msgspec.json.encode(checkpoint))
    connection.execute("UPDATE checkpoints SET data = ? WHERE id = ?", (data, checkpoint.id))


def _erase(ledger: Ledger) -> None:
    """Remove the contents that nothing names any more, and every trace of them in the files of the ledger."""
    for path in _snapshot_files(ledger):  # the next command reads all files again
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    if not purge(ledger, _ALL).is_alone:
        raise in_use(ledger.folder)  # it has just come, and the contents are still there
    ledger.database.rewrite()


def _snapshot_files(ledger: Ledger) -> Sequence[Path]:
    folder = ledger.folder
    return [] if folder is None else [path for path in folder.iterdir() if path.suffix in SNAPSHOTS]
