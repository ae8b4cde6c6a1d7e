"""The state of each hunk of a file, and the runs that wrote it, without the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from newel.review.model.file_review import HunkState
from newel.review.store.schema import unpack

if TYPE_CHECKING:
    from newel.review.store.ledger import Ledger


class HunkRuns(NamedTuple):
    """A hunk; ``applied``: it is saved."""

    state: HunkState | Literal["applied"]
    runs: frozenset[str]


class _Layer(msgspec.Struct, gc=False):
    run: str = ""


class _Hunk(msgspec.Struct):
    layers: list[_Layer]
    state: HunkState = "pending"


class _Review(msgspec.Struct):
    """A review whose text is skipped."""

    hunks: list[_Hunk] = []
    applied: list[_Layer] = []


def hunk_runs(ledger: Ledger, path: str) -> tuple[HunkRuns, ...]:
    """The hunks of a file, the saved ones last. Raises ``LedgerError``."""
    with ledger.database.reading() as connection:
        row = connection.execute("SELECT review FROM files WHERE path = ?", (path,)).fetchone()
    review = msgspec.json.decode(unpack(row[0]), type=_Review) if row else _Review()
    return (
        *(HunkRuns(hunk.state, _named(hunk.layers)) for hunk in review.hunks),
        *(HunkRuns("applied", _named([saved])) for saved in review.applied),
    )


def _named(layers: list[_Layer]) -> frozenset[str]:
    return frozenset(layer.run for layer in layers if layer.run)
