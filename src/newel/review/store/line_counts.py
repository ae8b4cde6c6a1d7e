"""How many lines a run has changed, from the journal, without the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from newel.agent.messages import Wire
from newel.review.store.schema import unpack

if TYPE_CHECKING:
    from newel.review.store.ledger import Ledger


class RecordedLines(NamedTuple):
    """An entry of a journal. ``added`` and ``removed`` count lines of the base; ``hash_before`` and ``hash_after`` are those of
    ``HistoryEntry``. ``is_plain``: it changes no more than lines of a text.
    """

    kind: str
    hash_before: str
    hash_after: str
    added: int
    removed: int
    is_plain: bool


class _Lines(Wire, frozen=True, gc=False):
    a: int
    old: list[msgspec.Raw]
    new: list[msgspec.Raw]


class _Base(Wire, frozen=True):
    base: list[_Lines] = []


class _Entry(Wire, frozen=True):
    """An entry whose lines and hunks are skipped."""

    kind: str
    hash_before: str
    hash_after: str
    forward: _Base


def recorded_lines(ledger: Ledger, run: str) -> dict[str, list[RecordedLines]]:
    """The entries of a run in their order, by the file. Raises ``LedgerError``."""
    decoder = msgspec.json.Decoder(_Entry)
    found: dict[str, list[RecordedLines]] = {}
    with ledger.database.reading() as connection:
        query = "SELECT path, data FROM entries WHERE run = ? ORDER BY n"
        for path, data in connection.execute(query, (run,)):
            found.setdefault(path, []).append(_count(decoder.decode(unpack(data))))
    return found


def _count(entry: _Entry) -> RecordedLines:
    changes = entry.forward.base
    return RecordedLines(
        kind=entry.kind,
        hash_before=entry.hash_before,
        hash_after=entry.hash_after,
        added=sum([len(each.new) for each in changes]),
        removed=sum([len(each.old) for each in changes]),
        is_plain=bool(changes) and changes[0].a > 0 and not any(map(_names_bytes, changes[:1])),
    )


def _names_bytes(change: _Lines) -> bool:
    """Whether a line stands for the bytes of a file without text: like a file's head, it begins with a NUL."""
    return any(
        bytes(line).startswith(b'"\\u0000') for lines in (change.old, change.new) for line in lines[:1]
    )
