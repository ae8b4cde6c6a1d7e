"""Saves that have begun and not ended: one is under way elsewhere, or a crash has ended it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from newel.agent.messages import Wire
from newel.review.store.database import LedgerDatabase
from newel.review.store.schema import unpack


class PlannedWrite(Wire, frozen=True, kw_only=True):
    """The hunks ``ids`` of revision ``rev`` are written to a file. ``before`` and ``after`` are the ``text_hash`` of its content.
    ``overwrites`` is the run by which an undo finds the user's own lines if they replace what others wrote; empty if nothing does.
    """

    path: str
    rev: int
    ids: tuple[str, ...]
    before: str
    after: str
    overwrites: str = ""


class SaveIntent(Wire, frozen=True, kw_only=True):
    """A pending save of one file or several. The next process finishes it after a crash. ``run`` is that of the rollback it belongs to; it
    may have several, one after another. An id names one save only.
    """

    id: str
    run: str = ""
    files: tuple[PlannedWrite, ...]


class _PendingSave(NamedTuple):
    intent: SaveIntent
    by_path: Mapping[str, PlannedWrite]


class PendingSaves:
    """Decodes each once: it never changes, may have thousands of files, and is asked for each of them."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database
        self._known: dict[str, _PendingSave] = {}

    def intents(self) -> list[SaveIntent]:
        return [pending.intent for pending in self._read()]

    def writes(self, path: str) -> list[PlannedWrite]:
        """What these saves write to a file."""
        return [pending.by_path[path] for pending in self._read() if path in pending.by_path]

    def _read(self) -> list[_PendingSave]:
        with self._database.reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM intents ORDER BY id")]
            if ids != list(self._known):
                self._known = {name: self._known.get(name) or _decode(connection, name) for name in ids}
            return list(self._known.values())


def _decode(connection: sqlite3.Connection, intent_id: str) -> _PendingSave:
    (data,) = connection.execute("SELECT data FROM intents WHERE id = ?", (intent_id,)).fetchone()
    intent = msgspec.json.decode(unpack(data), type=SaveIntent)
    return _PendingSave(intent, {file.path: file for file in intent.files})
